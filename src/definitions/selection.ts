/** Which file answers a lookup: candidates in order of precedence, each checked against the disk before it is offered. */
import { DefinitionProblemError, InvalidArgumentError } from "../errors.ts";
import { compareUtf8 } from "../scan/order.ts";
import { type Freshness, isFilename } from "./freshness.ts";
import type { IndexedFiles } from "./indexed-files.ts";
import { mayShareKey, relativePath } from "./keys.ts";
import type { Candidate, Query } from "./model.ts";
import { candidatesIn, PackedCandidate, placesIn } from "./records.ts";
import type { Rejections } from "./rejections.ts";
import { copyOf, type DefinitionStore } from "./store.ts";
import { isTypePath, type TypeState } from "./type-state.ts";
import { LOCK_DIRECTORY, type TypeTree } from "./type-tree.ts";

/** Not an answer yet: something must be waited for. */
export const NOT_READY = Symbol("not ready");
/** A file was not what the index said: it has been marked, and the search begins again. */
const CHANGED = Symbol("changed");

export type Accept<R> = (candidate: Candidate) => R | undefined;

/** One look-up, from its beginning to its answer. */
export class Search<R> {
  readonly query: Query;
  readonly accept: Accept<R>;
  /** The observation with which it began; 0 before. */
  since = 0;
  #read: Set<string> | null = null;

  constructor(query: Query, accept: Accept<R>) {
    this.query = query;
    this.accept = accept;
  }

  /** This file is read for it: what is found after it began is new enough, however young the stamp. */
  reads(path: string): void {
    this.#read ??= new Set();
    this.#read.add(path);
  }

  hasRead(path: string): boolean {
    return this.#read?.has(path) === true;
  }
}

export class Selection {
  readonly #store: DefinitionStore;
  readonly #tree: TypeTree;
  readonly #freshness: Freshness;
  readonly #files: IndexedFiles;
  readonly #rejections: Rejections;
  readonly #allRoots: readonly number[];
  readonly #rootNumbers: ReadonlyMap<string, number>;
  readonly counts = { hit: 0, miss: 0, reread: 0 };

  constructor(o: {
    store: DefinitionStore;
    tree: TypeTree;
    freshness: Freshness;
    files: IndexedFiles;
    rejections: Rejections;
  }) {
    this.#store = o.store;
    this.#tree = o.tree;
    this.#freshness = o.freshness;
    this.#files = o.files;
    this.#rejections = o.rejections;
    this.#allRoots = o.files.roots.map((_, index) => index);
    this.#rootNumbers = new Map(o.files.roots.map(({ name }, index) => [name, index]));
  }

  /** @throws InvalidArgumentError for a root that the index does not have */
  rootOrder(names: readonly string[] | undefined): readonly number[] {
    if (names === undefined) return this.#allRoots;
    if (!Array.isArray(names)) throw new InvalidArgumentError("roots", names, "a list of names of roots");
    return names.map((name) => {
      const root = this.#rootNumbers.get(name);
      if (root === undefined) {
        throw new InvalidArgumentError("roots", name, `one of ${[...this.#rootNumbers.keys()].join(", ")}`);
      }
      return root;
    });
  }

  /** The answer as of now, if there can be one without waiting. */
  attempt<R>(search: Search<R>): R | null | typeof NOT_READY {
    const { type } = search.query;
    for (;;) {
      const observation = this.#freshness.observe();
      if (search.since === 0) search.since = observation;
      const answer = type === null ? this.#global(search) : this.#typed(search, type);
      if (answer === CHANGED) {
        this.counts.reread++;
        continue;
      }
      if (answer !== NOT_READY) this.counts[answer === null ? "miss" : "hit"]++;
      return answer;
    }
  }

  /** `{name}.yaml` in the first lookup root that has the type at all, if it agrees, is the answer whatever else there is. */
  attemptDirectly<R>({ query, accept }: Search<R>): R | typeof NOT_READY {
    const { type, key: name } = query;
    if (query.by !== "name" || type === null || !isTypePath(type) || !isFilename(name)) return NOT_READY;
    if (`${type}/`.startsWith(`${LOCK_DIRECTORY}/`)) return NOT_READY;
    const root = this.rootOrder(query.roots).find((root) => this.#files.wayTo(root, type) !== "absent");
    if (root === undefined || this.#files.wayTo(root, type) !== "plain") return NOT_READY;
    const { dir = "", name: rootName = "" } = this.#files.roots[root] ?? {};
    const occupant = this.#files.examine(`${dir}/${relativePath(type, `${name}.yaml`)}`, rootName, type);
    if (occupant.kind !== "entry" || occupant.entry.name !== name) return NOT_READY;
    const answer = accept({ entry: occupant.entry, document: () => occupant.document });
    if (answer === undefined) return NOT_READY;
    this.counts.hit++;
    this.#tree.ensure(type).asked = true;
    return answer;
  }

  #typed<R>(search: Search<R>, type: string): R | null | typeof NOT_READY | typeof CHANGED {
    const { query } = search;
    const roots = this.rootOrder(query.roots);
    const state = this.#freshness.now(type, search.since, query.by === "name" ? query.key : undefined);
    if (state === undefined) return NOT_READY;
    if (state === null) return null;
    state.asked = true;
    return query.by === "name" ? this.#byName(search, state, roots) : this.#byId(search, state, roots);
  }

  #byName<R>(search: Search<R>, state: TypeState, roots: readonly number[]): R | null | typeof CHANGED {
    const name = search.query.key;
    const value = this.#store.peekName(name, state.id);
    let broken: PackedCandidate | null = null;
    if (value !== undefined) {
      const first = new PackedCandidate(value, 0);
      // One file is the rule; a list must outlive the gets that its checks may cause.
      const candidates = first.end === value.length ? [first] : candidatesIn(copyOf(value));
      for (const root of roots) {
        for (const candidate of candidates) {
          if (candidate.root !== root || (mayShareKey(name) && candidate.name !== name)) continue;
          if (candidate.broken) {
            broken ??= candidate;
            continue;
          }
          const filename = candidate.named ? `${name}.yaml` : candidate.filename;
          const answer = this.#offer(search, state, candidate, filename, name);
          if (answer === undefined) continue;
          // Only what nothing can precede is certain while some file cannot be read.
          if (root !== roots[0] || !candidate.named) this.#throwUnreadable(state, roots);
          return answer;
        }
      }
    }
    this.#throwUnreadable(state, roots);
    if (broken !== null) return this.#throwProblem(state, broken.root, broken.filename);
    for (const root of roots) {
      const problem = this.#rejections.at(this.#files.pathOf(state, root, `${name}.yaml`));
      if (problem !== null) throw new DefinitionProblemError(problem);
    }
    return null;
  }

  #byId<R>(search: Search<R>, state: TypeState, roots: readonly number[]): R | null | typeof CHANGED {
    const id = search.query.key;
    const places = this.#files.identified(state, id);
    for (const root of roots) {
      for (const { root: lies, filename, name } of places) {
        if (lies !== root) continue;
        const answer = this.#offerPlace(search, state, root, filename, name);
        if (answer === undefined) continue;
        if (root !== roots[0] || filename !== `${id}.yaml`) this.#throwUnreadable(state, roots);
        return answer;
      }
    }
    this.#throwUnreadable(state, roots);
    return null;
  }

  #global<R>(search: Search<R>): R | null | typeof NOT_READY | typeof CHANGED {
    const { query } = search;
    const roots = this.rootOrder(query.roots);
    if (!this.#freshness.allNow(search.since)) return NOT_READY;
    for (const state of this.#tree.types.values()) {
      state.asked = true;
      this.#throwUnreadable(state, roots);
    }
    const found = this.#ofAllTypes(query);
    for (const root of roots) {
      for (const { state, filename, name, root: lies } of found) {
        if (lies !== root) continue;
        const answer = this.#offerPlace(search, state, root, filename, name);
        if (answer !== undefined) return answer;
      }
    }
    return null;
  }

  /** In byte order of path. */
  #ofAllTypes({ by, key }: Query): { state: TypeState; root: number; filename: string; name: string }[] {
    const byId = new Map([...this.#tree.types.values()].map((state) => [state.id, state]));
    const found: { state: TypeState; root: number; filename: string; name: string; path: string }[] = [];
    for (const { typeId, value } of this.#store.ofAllTypes(by === "name" ? "names" : "ids", key)) {
      const state = byId.get(typeId);
      if (state === undefined) continue;
      const places = by === "name" ? candidatesIn(value).filter((c) => !c.broken) : placesIn(value, key);
      for (const { root, filename, name, id } of places) {
        if ((by === "name" ? name : id) !== key) continue;
        found.push({ state, root, filename, name, path: this.#files.pathOf(state, root, filename) });
      }
    }
    return found.sort((a, b) => compareUtf8(a.path, b.path));
  }

  #offerPlace<R>(
    search: Search<R>,
    state: TypeState,
    root: number,
    filename: string,
    name: string,
  ): R | undefined | typeof CHANGED {
    const candidate = this.#files.candidateAt(state, root, filename, name);
    return candidate === null ? CHANGED : this.#offer(search, state, candidate, filename, name);
  }

  /** Checks the file behind a candidate; undefined when it is not accepted. */
  #offer<R>(
    search: Search<R>,
    state: TypeState,
    candidate: PackedCandidate,
    filename: string,
    name: string,
  ): R | undefined | typeof CHANGED {
    const path = this.#files.pathOf(state, candidate.root, filename);
    const trusted = !candidate.racy || search.hasRead(path);
    if (!trusted || !this.#files.isUnchanged(path, candidate)) {
      if (candidate.racy) search.reads(path);
      this.#freshness.mark(state, candidate.root, filename);
      return CHANGED;
    }
    return search.accept(this.#files.handOut(state, candidate, filename, path, name));
  }

  #throwUnreadable(state: TypeState, roots: readonly number[]): void {
    if (state.unreadable.size === 0) return;
    for (const { root, error } of state.unreadable.values()) if (roots.includes(root)) throw error;
  }

  #throwProblem(state: TypeState, root: number, filename: string): typeof CHANGED {
    const stored = this.#store.getFile(root, state.type, filename);
    const path = this.#files.pathOf(state, root, filename);
    const problem = stored === undefined ? null : this.#files.problemOf(stored, root, path);
    if (problem !== null) throw new DefinitionProblemError(problem);
    this.#freshness.mark(state, root, filename);
    return CHANGED;
  }
}

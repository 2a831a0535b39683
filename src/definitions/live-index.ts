/** The index: answers from the store where it is true, and waits for what makes it true where it is not yet. */
import type { AbortOptions } from "../abort.ts";
import { ClosedError, type DefinitionProblem, DefinitionProblemError, InvalidArgumentError } from "../errors.ts";
import { documentOf, type ExaminedEntry, type ExamineOptions, examineFile } from "../scan/examine.ts";
import { type DefinitionEntry, type DefinitionKeys, namingOf } from "../scan/model.ts";
import { compareUtf8 } from "../scan/order.ts";
import { readStamp, STAMP_BYTES, sameStamp, unpackStamp } from "../scan/stamp.ts";
import type { BackgroundSweep } from "./background.ts";
import { type Freshness, isBounded, isFilename } from "./freshness.ts";
import { relativePath } from "./keys.ts";
import type {
  Candidate,
  DefinitionIndex,
  DefinitionIndexStats,
  DefinitionRoot,
  IndexInternals,
  ListOptions,
  LookupOptions,
  Occupant,
  Query,
  RefreshReport,
  SweepProgress,
} from "./model.ts";
import { type LookupTelemetry, observeLookup, type WorkDone } from "./observe.ts";
import { candidatesIn, PackedCandidate, placesIn, unpackFile } from "./records.ts";
import { copyOf, type DefinitionStore } from "./store.ts";
import { baseOf, isTypePath, parentOf, type TypeState } from "./type-state.ts";
import type { TypeTree } from "./type-tree.ts";

/** Not an answer yet. */
const NOT_READY = Symbol("not ready");
/** A file was not what the index said: it has been marked, and the search begins again. */
const CHANGED = Symbol("changed");

const PAGE = 256;

export interface LiveIndexParts {
  store: DefinitionStore;
  tree: TypeTree;
  freshness: Freshness;
  background: BackgroundSweep;
  examine: ExamineOptions;
  keys: DefinitionKeys;
  slot: number | "temporary";
  fileSize: () => number;
  /** Once, after everything else has ended. */
  release: () => Promise<void>;
}

export class LiveIndex implements DefinitionIndex, IndexInternals {
  readonly roots: readonly DefinitionRoot[];
  readonly keys: DefinitionKeys;
  readonly #store: DefinitionStore;
  readonly #tree: TypeTree;
  readonly #freshness: Freshness;
  readonly #parts: LiveIndexParts;
  readonly #allRoots: readonly number[];
  readonly #rootNumbers: ReadonlyMap<string, number>;
  /** What the codec refused, by path, with the stamp of what it refused. */
  readonly #rejected = new Map<string, { problem: DefinitionProblem; stamp: DefinitionEntry["stamp"] }>();
  readonly #withDocuments: ExamineOptions;
  readonly #scratch = new Uint8Array(STAMP_BYTES);
  /** Types that somebody has had an answer for. */
  readonly #asked = new Set<string>();
  readonly #lookups = { hit: 0, miss: 0, reread: 0 };
  #closing: Promise<void> | null = null;

  constructor(parts: LiveIndexParts) {
    this.#parts = parts;
    this.#store = parts.store;
    this.#tree = parts.tree;
    this.#freshness = parts.freshness;
    this.#withDocuments = { ...parts.examine, documents: true };
    this.keys = parts.keys;
    this.roots = parts.tree.roots.map(({ name, dir }) => ({ name, dir }));
    this.#allRoots = this.roots.map((_, index) => index);
    this.#rootNumbers = new Map(this.roots.map(({ name }, index) => [name, index]));
  }

  // ── lookups ─────────────────────────────────────────────────────────────────────────────────────

  findByName(type: string, name: string, o?: LookupOptions): Promise<DefinitionEntry | null> {
    return this.select({ by: "name", key: name, type, roots: o?.roots }, entryOf, o);
  }

  findById(type: string, id: string, o?: LookupOptions): Promise<DefinitionEntry | null> {
    return this.select({ by: "id", key: id, type, roots: o?.roots }, entryOf, o);
  }

  findByNameGlobal(name: string, o?: LookupOptions): Promise<DefinitionEntry | null> {
    return this.select({ by: "name", key: name, type: null, roots: o?.roots }, entryOf, o);
  }

  findByIdGlobal(id: string, o?: LookupOptions): Promise<DefinitionEntry | null> {
    return this.select({ by: "id", key: id, type: null, roots: o?.roots }, entryOf, o);
  }

  select<R>(query: Query, accept: (candidate: Candidate) => R | undefined, o?: AbortOptions): Promise<R | null> {
    const telemetry = observeLookup(query, this.#workDone);
    try {
      this.#check(query, o);
      const answer = this.#attempt(query, accept);
      if (answer === NOT_READY) {
        const slowly = () => this.#selectSlowly(query, accept, o ?? {}, telemetry);
        return telemetry === null ? slowly() : telemetry.during(slowly);
      }
      telemetry?.answered(answer);
      return Promise.resolve(answer);
    } catch (error) {
      telemetry?.fail(error);
      return Promise.reject(error);
    }
  }

  readonly #workDone = (): WorkDone => {
    const { filesRead, directoriesListed, eventsDrained } = this.#freshness;
    return { filesRead, directoriesListed, eventsDrained, rereads: this.#lookups.reread };
  };

  #check(query: Query, o: AbortOptions | undefined): void {
    if (this.#closing !== null) throw new ClosedError("the definition index");
    o?.signal?.throwIfAborted();
    if (typeof query.key !== "string") throw new InvalidArgumentError(query.by, query.key, "a string");
    if (query.type !== null && typeof query.type !== "string")
      throw new InvalidArgumentError("type", query.type, "a string");
  }

  async #selectSlowly<R>(
    query: Query,
    accept: (candidate: Candidate) => R | undefined,
    o: AbortOptions,
    telemetry: LookupTelemetry | null,
  ): Promise<R | null> {
    for (;;) {
      telemetry?.via("direct");
      const direct = this.#selectDirectly(query, accept);
      if (direct !== NOT_READY) return direct;
      telemetry?.via("waiting");
      await this.#freshness.wait(query.type, o);
      if (query.type === null) await this.#freshness.flush();
      if (this.#closing !== null) throw new ClosedError("the definition index");
      o.signal?.throwIfAborted();
      const answer = this.#attempt(query, accept);
      if (answer !== NOT_READY) return answer;
    }
  }

  #attempt<R>(query: Query, accept: (candidate: Candidate) => R | undefined): R | null | typeof NOT_READY {
    for (;;) {
      this.#freshness.observe();
      const answer =
        query.type === null ? this.#attemptGlobal(query, accept) : this.#attemptTyped(query, query.type, accept);
      if (answer === CHANGED) {
        this.#lookups.reread++;
        continue;
      }
      if (answer !== NOT_READY) this.#lookups[answer === null ? "miss" : "hit"]++;
      return answer;
    }
  }

  #rootOrder(names: readonly string[] | undefined): readonly number[] {
    if (names === undefined) return this.#allRoots;
    return names.map((name) => {
      const root = this.#rootNumbers.get(name);
      if (root === undefined) {
        throw new InvalidArgumentError("roots", name, `one of ${[...this.#rootNumbers.keys()].join(", ")}`);
      }
      return root;
    });
  }

  #attemptTyped<R>(
    query: Query,
    type: string,
    accept: (candidate: Candidate) => R | undefined,
  ): R | null | typeof NOT_READY | typeof CHANGED {
    const roots = this.#rootOrder(query.roots);
    const state = this.#freshness.now(type, query.by === "name" ? query.key : undefined);
    if (state === undefined) return NOT_READY;
    if (state !== null) this.#asked.add(type);
    if (state === null) return null;
    return query.by === "name"
      ? this.#selectByName(state, query.key, roots, accept)
      : this.#selectById(state, query.key, roots, accept);
  }

  #selectByName<R>(
    state: TypeState,
    name: string,
    roots: readonly number[],
    accept: (candidate: Candidate) => R | undefined,
  ): R | null | typeof CHANGED {
    const value = this.#store.peekName(name, state.id);
    let broken: PackedCandidate | null = null;
    if (value !== undefined) {
      const first = new PackedCandidate(value, 0);
      // One file is the rule; a list must outlive the gets that its checks may cause.
      const candidates = first.end === value.length ? [first] : candidatesIn(copyOf(value));
      for (const root of roots) {
        for (const candidate of candidates) {
          if (candidate.root !== root) continue;
          if (candidate.broken) {
            broken ??= candidate;
            continue;
          }
          const answer = this.#offer(state, candidate, name, accept);
          if (answer === CHANGED) return CHANGED;
          if (answer !== undefined) return answer;
          this.#throwUnreadable(state);
        }
      }
    }
    this.#throwUnreadable(state);
    if (broken !== null) return this.#throwProblem(state, broken.root, broken.filename);
    this.#throwRejected(state, roots, name);
    return null;
  }

  #selectById<R>(
    state: TypeState,
    id: string,
    roots: readonly number[],
    accept: (candidate: Candidate) => R | undefined,
  ): R | null | typeof CHANGED {
    const value = this.#store.getId(id, state.id);
    const places = value === undefined ? [] : placesIn(value).filter((place) => place.id === id);
    for (const root of roots) {
      for (const place of places) {
        if (place.root !== root) continue;
        const candidate = this.#candidateAt(state, root, place.filename, place.name);
        const answer = candidate === null ? CHANGED : this.#offer(state, candidate, place.name, accept);
        if (answer === CHANGED) return CHANGED;
        if (answer !== undefined) return answer;
      }
    }
    this.#throwUnreadable(state);
    return null;
  }

  #attemptGlobal<R>(
    query: Query,
    accept: (candidate: Candidate) => R | undefined,
  ): R | null | typeof NOT_READY | typeof CHANGED {
    const roots = this.#rootOrder(query.roots);
    if (!this.#freshness.allNow() || this.#store.waiting > 0) return NOT_READY;
    for (const type of this.#tree.types.keys()) this.#asked.add(type);
    const byId = new Map([...this.#tree.types.values()].map((state) => [state.id, state]));
    const found: { state: TypeState; root: number; filename: string; name: string; path: string }[] = [];
    for (const { typeId, value } of this.#store.ofAllTypes(query.by === "name" ? "names" : "ids", query.key)) {
      const state = byId.get(typeId);
      if (state === undefined) continue;
      const places = query.by === "name" ? candidatesIn(value).filter((c) => !c.broken) : placesIn(value);
      for (const { root, filename, name, id } of places) {
        if ((query.by === "name" ? name : id) !== query.key) continue;
        found.push({ state, root, filename, name, path: `${this.#tree.dirOf(state, root)}/${filename}` });
      }
    }
    found.sort((a, b) => compareUtf8(a.path, b.path));
    for (const root of roots) {
      for (const { state, filename, name, root: lies } of found) {
        if (lies !== root) continue;
        const candidate = this.#candidateAt(state, root, filename, name);
        const answer = candidate === null ? CHANGED : this.#offer(state, candidate, name, accept);
        if (answer === CHANGED) return CHANGED;
        if (answer !== undefined) return answer;
      }
    }
    for (const state of this.#tree.types.values()) this.#throwUnreadable(state);
    return null;
  }

  #candidateAt(state: TypeState, root: number, filename: string, name: string): PackedCandidate | null {
    const value = this.#store.peekName(name, state.id);
    if (value === undefined) return null;
    return (
      candidatesIn(copyOf(value)).find((c) => c.root === root && c.filename === filename && c.name === name) ?? null
    );
  }

  /** Checks the file behind a candidate; undefined when it is not accepted. */
  #offer<R>(
    state: TypeState,
    candidate: PackedCandidate,
    name: string,
    accept: (candidate: Candidate) => R | undefined,
  ): R | undefined | typeof CHANGED {
    if (candidate.name !== name) return undefined;
    const { root, filename } = candidate;
    const path = `${this.#tree.dirOf(state, root)}/${filename}`;
    if (candidate.racy || !this.#isUnchanged(path, candidate)) {
      this.#freshness.mark(state, root, filename);
      return CHANGED;
    }
    return accept(this.#handOut(state, candidate, filename, path, name));
  }

  #isUnchanged(path: string, candidate: PackedCandidate): boolean {
    const kind = readStamp(path, candidate.symlink, this.#scratch, 0);
    return kind === "file" && sameStamp(candidate.bytes, candidate.stampAt, this.#scratch, 0);
  }

  #handOut(state: TypeState, candidate: PackedCandidate, filename: string, path: string, name: string): Candidate {
    const { id } = candidate;
    const entry: DefinitionEntry = {
      id,
      name,
      type: state.type,
      declaredType: candidate.declaredType(state.type),
      root: this.roots[candidate.root]?.name ?? "",
      path,
      naming: namingOf(filename, id, name),
      stamp: unpackStamp(candidate.bytes, candidate.stampAt),
    };
    return { entry, document: () => this.#documentOf(candidate, path) };
  }

  #documentOf(candidate: PackedCandidate, path: string): unknown {
    const kept = candidate.documentJson;
    return kept === null ? this.#parse(path) : JSON.parse(kept);
  }

  #parse(path: string): unknown {
    this.#freshness.filesRead++;
    const examined = examineFile(path, this.#withDocuments);
    return examined.kind === "entry" ? documentOf(examined) : undefined;
  }

  // ── before the type is ready ────────────────────────────────────────────────────────────────────

  /** `{name}.yaml` in the first lookup root, if it agrees, is the answer whatever else there is. */
  #selectDirectly<R>(query: Query, accept: (candidate: Candidate) => R | undefined): R | typeof NOT_READY {
    const { type, key: name } = query;
    if (query.by !== "name" || type === null || !isTypePath(type) || !isFilename(name)) return NOT_READY;
    const [root] = this.#rootOrder(query.roots);
    if (root === undefined || !this.#isPlainPath(root, type)) return NOT_READY;
    const filename = `${name}.yaml`;
    const dir = this.roots[root]?.dir ?? "";
    const path = `${dir}/${relativePath(type, filename)}`;
    const examined = examineFile(path, this.#withDocuments);
    if (examined.kind !== "entry" || examined.name !== name) return NOT_READY;
    this.#freshness.filesRead++;
    const entry = this.#entryFrom(examined, root, type, filename, path);
    const answer = accept({ entry, document: () => documentOf(examined) });
    if (answer === undefined) return NOT_READY;
    this.#lookups.hit++;
    this.#asked.add(this.#tree.ensure(type).type);
    return answer;
  }

  /** No symbolic link on the way from the root to the type. */
  #isPlainPath(root: number, type: string): boolean {
    let dir = this.roots[root]?.dir ?? "";
    for (const part of type === "" ? [] : type.split("/")) {
      dir = `${dir}/${part}`;
      if (readStamp(dir, false, this.#scratch, 0) !== "directory") return false;
    }
    return true;
  }

  #entryFrom(examined: ExaminedEntry, root: number, type: string, filename: string, path: string): DefinitionEntry {
    const { id, name, declaredType, stamp } = examined;
    const rootName = this.roots[root]?.name ?? "";
    return {
      id,
      name,
      type,
      declaredType,
      root: rootName,
      path,
      naming: namingOf(filename, id, name),
      stamp: unpackStamp(stamp, 0),
    };
  }

  // ── what stands in a miss's way ─────────────────────────────────────────────────────────────────

  #throwUnreadable(state: TypeState): void {
    for (const { error } of state.unreadable.values()) throw error;
  }

  #throwProblem(state: TypeState, root: number, filename: string): typeof CHANGED {
    const path = `${this.#tree.dirOf(state, root)}/${filename}`;
    const stored = this.#store.getFile(root, state.type, filename);
    const problem = stored === undefined ? null : this.#problemOf(stored, root, path);
    if (problem === null) {
      this.#freshness.mark(state, root, filename);
      return CHANGED;
    }
    throw new DefinitionProblemError(problem);
  }

  #problemOf(stored: Buffer, root: number, path: string): DefinitionProblem | null {
    const file = unpackFile(stored);
    if (file.kind !== "problem") return null;
    return {
      path,
      root: this.roots[root]?.name ?? "",
      kind: file.problemKind,
      message: file.message,
      ...(file.line > 0 ? { line: file.line, column: file.column } : {}),
    };
  }

  #throwRejected(state: TypeState, roots: readonly number[], name: string): void {
    if (this.#rejected.size === 0) return;
    for (const root of roots) {
      const path = `${this.#tree.dirOf(state, root)}/${name}.yaml`;
      const rejected = this.#rejected.get(path);
      if (rejected !== undefined && this.#stillRejected(path, rejected))
        throw new DefinitionProblemError(rejected.problem);
    }
  }

  reject(entry: DefinitionEntry, message: string): void {
    const problem: DefinitionProblem = { path: entry.path, root: entry.root, kind: "invalid", message };
    this.#rejected.set(entry.path, { problem, stamp: entry.stamp });
  }

  // ── listings ────────────────────────────────────────────────────────────────────────────────────

  async *entries(o: ListOptions = {}): AsyncIterableIterator<DefinitionEntry> {
    for await (const { entry } of this.list(o)) yield entry;
  }

  async *list(o: ListOptions = {}): AsyncIterableIterator<Candidate> {
    for await (const { state, root, filename, path, value } of this.#files(o)) {
      const file = unpackFile(value);
      if (file.kind !== "entry") continue;
      const candidate = this.#candidateAt(state, root, filename, file.name);
      if (candidate !== null && !candidate.racy && this.#isUnchanged(path, candidate)) {
        yield this.#handOut(state, candidate, filename, path, file.name);
        continue;
      }
      const now = this.examine(path, this.roots[root]?.name ?? "", state.type);
      this.#freshness.mark(state, root, filename);
      if (now.kind === "entry") yield { entry: now.entry, document: () => now.document };
    }
  }

  async *problems(o: ListOptions = {}): AsyncIterableIterator<DefinitionProblem> {
    for await (const { state, root, filename, path, value } of this.#files(o)) {
      const rootName = this.roots[root]?.name ?? "";
      const file = unpackFile(value);
      if (file.kind === "problem") {
        const problem = this.#problemOf(value, root, path);
        if (problem !== null) yield problem;
        continue;
      }
      const { id, name } = file;
      if (namingOf(filename, id, name) === "mismatched") {
        const message = `the file is called ${JSON.stringify(filename)}, its definition ${JSON.stringify(name)} (${id})`;
        yield { path, root: rootName, kind: "mismatched", message };
      }
      const sharesName = this.#others(this.#namesakes(state, name), root, filename);
      if (sharesName.length > 0) {
        const message = `${JSON.stringify(name)} is also the name in ${sharesName.join(", ")}`;
        yield { path, root: rootName, kind: "duplicate-name", message };
      }
      const sharesId = this.#others(this.#idsakes(state, id), root, filename);
      if (sharesId.length > 0) {
        yield { path, root: rootName, kind: "duplicate-id", message: `${id} is also the id in ${sharesId.join(", ")}` };
      }
      const rejected = this.#rejected.get(path);
      if (rejected !== undefined && this.#stillRejected(path, rejected)) yield rejected.problem;
    }
    for (const state of this.#tree.types.values()) {
      for (const { root, filename } of state.unreadable.values()) this.#freshness.mark(state, root, filename);
    }
  }

  #stillRejected(path: string, rejected: { stamp: DefinitionEntry["stamp"] }): boolean {
    if (readStamp(path, true, this.#scratch, 0) === "file") {
      const stamp = unpackStamp(this.#scratch, 0);
      const { mtimeNs, ctimeNs, inode, size } = rejected.stamp;
      if (stamp.ctimeNs === ctimeNs && stamp.mtimeNs === mtimeNs && stamp.inode === inode && stamp.size === size)
        return true;
    }
    this.#rejected.delete(path);
    return false;
  }

  #namesakes(state: TypeState, name: string): { root: number; filename: string }[] {
    const value = this.#store.peekName(name, state.id);
    return value === undefined ? [] : candidatesIn(value).filter((c) => !c.broken && c.name === name);
  }

  #idsakes(state: TypeState, id: string): { root: number; filename: string }[] {
    const value = this.#store.getId(id, state.id);
    return value === undefined ? [] : placesIn(value).filter((place) => place.id === id);
  }

  #others(files: readonly { root: number; filename: string }[], root: number, filename: string): string[] {
    return files.filter((f) => f.root === root && f.filename !== filename).map((f) => f.filename);
  }

  /** Every file of the index, in byte order of path, a page at a time, as of the beginning or later. */
  async *#files(
    o: ListOptions,
  ): AsyncIterableIterator<{ state: TypeState; root: number; filename: string; path: string; value: Buffer }> {
    this.#check({ by: "name", key: "", type: o.type ?? null }, o);
    const roots = this.#rootOrder(o.roots);
    if (o.type !== undefined && !isTypePath(o.type)) return;
    await this.#ready(o.type ?? null, o);
    const ordered = [...new Set(roots)].sort((a, b) => compareUtf8(`${this.roots[a]?.dir}/`, `${this.roots[b]?.dir}/`));
    for (const root of ordered) {
      const dir = this.roots[root]?.dir ?? "";
      let after: string | undefined;
      for (;;) {
        const page = this.#store.filesUnder(root, o.type === undefined || o.type === "" ? "" : `${o.type}/`, {
          ...(after === undefined ? {} : { after }),
          limit: PAGE,
          nested: o.type === undefined,
        });
        for (const { relative, value } of page) {
          const state = this.#tree.types.get(parentOf(relative) ?? "");
          if (state === undefined) continue;
          yield { state, root, filename: baseOf(relative), path: `${dir}/${relative}`, value };
          if (this.#closing !== null) throw new ClosedError("the definition index");
          o.signal?.throwIfAborted();
        }
        after = page.at(-1)?.relative;
        if (page.length < PAGE) break;
        await new Promise<void>((resolve) => setImmediate(resolve));
        await this.#freshness.flush();
        if (this.#closing !== null) throw new ClosedError("the definition index");
        o.signal?.throwIfAborted();
      }
    }
  }

  /** Waits until the type (null: all) can be answered for and everything known is committed. */
  async #ready(type: string | null, o: AbortOptions): Promise<void> {
    for (;;) {
      this.#freshness.observe();
      const ready = type === null ? this.#freshness.allNow() : this.#freshness.now(type) !== undefined;
      if (ready && this.#store.waiting === 0) break;
      if (!ready) await this.#freshness.wait(type, o);
      await this.#freshness.flush();
      if (this.#closing !== null) throw new ClosedError("the definition index");
      o.signal?.throwIfAborted();
    }
    for (const state of this.#tree.types.values()) {
      if (type === null || state.type === type) this.#throwUnreadable(state);
    }
  }

  // ── changes from outside ────────────────────────────────────────────────────────────────────────

  examine(path: string, root: string, type: string): Occupant {
    const examined = examineFile(path, this.#withDocuments);
    const number = this.#rootNumbers.get(root) ?? 0;
    switch (examined.kind) {
      case "entry":
        return {
          kind: "entry",
          entry: this.#entryFrom(examined, number, type, baseOf(path), path),
          document: documentOf(examined),
        };
      case "problem": {
        const { problemKind, message, line, column } = examined;
        const place = line > 0 ? { line, column } : {};
        return { kind: "problem", problem: { path, root, kind: problemKind, message, ...place } };
      }
      default:
        return { kind: "absent" };
    }
  }

  noteWritten(paths: readonly string[]): void {
    for (const path of paths) this.#noteChanged(path);
  }

  async applyChanges(paths: Iterable<string>, o: AbortOptions = {}): Promise<void> {
    this.#check({ by: "name", key: "", type: null }, o);
    for (const path of paths) {
      if (typeof path !== "string") throw new InvalidArgumentError("paths", path, "absolute paths");
      this.#noteChanged(path);
    }
  }

  #noteChanged(path: string): void {
    for (const [root, { dir }] of this.roots.entries()) {
      if (path === dir || dir.startsWith(`${path}/`)) this.#tree.loseRoot(root);
      if (!path.startsWith(`${dir}/`)) continue;
      const relative = path.slice(dir.length + 1).replace(/\/+$/, "");
      const type = parentOf(relative) ?? "";
      const state = this.#tree.types.get(type);
      if (state === undefined) {
        this.#nearestState(type).invalidateTree();
        continue;
      }
      if (relative.endsWith(".yaml")) this.#freshness.mark(state, root, baseOf(relative));
      const below = this.#tree.types.get(relative);
      if (below !== undefined || !relative.endsWith(".yaml")) {
        state.invalidate();
        below?.invalidateTree();
      }
    }
  }

  #nearestState(type: string): TypeState {
    for (let at: string | null = type; at !== null; at = parentOf(at)) {
      const state = this.#tree.types.get(at);
      if (state !== undefined) return state;
    }
    return this.#tree.top;
  }

  async refresh(o: AbortOptions & { onProgress?: (progress: SweepProgress) => void } = {}): Promise<RefreshReport> {
    this.#check({ by: "name", key: "", type: null }, o);
    const started = performance.now();
    const report: RefreshReport = { files: 0, read: 0, changed: 0, removed: 0, problems: 0, elapsedMs: 0 };
    let total = 0;
    for (const state of this.#tree.types.values()) for (const count of state.counts) total += count;
    const stopListening = this.#freshness.listen({
      progress: (files, read) =>
        o.onProgress?.({
          files: report.files + files,
          read: report.read + read,
          total: Math.max(total, report.files + files),
        }),
      swept: (result) => {
        report.files += result.files;
        report.read += result.read;
        report.changed += result.changed;
        report.removed += result.removed;
        report.problems += result.problems;
        o.onProgress?.({ files: report.files, read: report.read, total: Math.max(total, report.files) });
      },
    });
    try {
      this.#tree.top.invalidateTree();
      await this.#freshness.wait(null, o);
      await this.#freshness.flush();
    } finally {
      stopListening();
    }
    report.elapsedMs = performance.now() - started;
    return report;
  }

  lastKnownPath(type: string, id: string, roots: readonly string[]): string | null {
    const state = this.#closing === null ? this.#tree.types.get(type) : undefined;
    const value = state === undefined ? undefined : this.#store.getId(id, state.id);
    if (state === undefined || value === undefined) return null;
    const places = placesIn(value).filter((place) => place.id === id);
    for (const root of this.#rootOrder(roots)) {
      const place = places.find((p) => p.root === root);
      if (place !== undefined) return `${this.#tree.dirOf(state, root)}/${place.filename}`;
    }
    return null;
  }

  stats(): DefinitionIndexStats {
    if (this.#closing === null) this.#freshness.observe();
    const roots: DefinitionIndexStats["roots"] = {};
    for (const { name } of this.roots) roots[name] = { types: {}, definitions: 0 };
    const types: DefinitionIndexStats["types"] = {};
    for (const state of this.#tree.types.values()) {
      const reason = whyNotExact(state);
      types[state.type] = { freshness: reason === null ? "exact" : "bounded", reason };
      state.counts.forEach((count, root) => {
        const of = roots[this.roots[root]?.name ?? ""];
        if (of === undefined || count === 0) return;
        of.types[state.type] = count;
        of.definitions += count;
      });
    }
    let reason = this.#tree.unwatchable;
    for (const type of this.#asked) {
      const why = types[type] === undefined ? null : types[type].reason;
      if (why !== null) reason ??= `${type}: ${why}`;
    }
    return {
      roots,
      slot: this.#parts.slot,
      freshness: reason === null ? "exact" : "bounded",
      reason,
      types,
      watch: {
        mechanism: this.#tree.unwatchable === null ? "inotify" : "none",
        directories: this.#tree.watched,
        overflows: this.#tree.overflows,
      },
      lastSweep: this.#freshness.lastSweep,
      fileSize: this.#parts.fileSize(),
      lookups: { ...this.#lookups },
      io: { filesRead: this.#freshness.filesRead, directoriesListed: this.#freshness.directoriesListed },
    };
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const backgroundEnds = this.#parts.background.close();
    await this.#freshness.close(new ClosedError("the definition index")).finally(async () => {
      await backgroundEnds;
      this.#tree.close();
      await this.#parts.release();
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function whyNotExact(state: TypeState): string | null {
  if (!state.swept) return "not looked through yet";
  return isBounded(state) ? (state.boundedBecause ?? "a directory above it is not watched") : null;
}

function entryOf(candidate: Candidate): DefinitionEntry {
  return candidate.entry;
}

/** Lists definitions and problems in byte order of path, a page at a time. */
import { type AbortOptions, abortable } from "../abort.ts";
import type { DefinitionProblem } from "../errors.ts";
import { namingOf } from "../scan/model.ts";
import { compareUtf8 } from "../scan/order.ts";
import { nextTurn } from "../slices.ts";
import type { Freshness } from "./freshness.ts";
import type { IndexedFiles } from "./indexed-files.ts";
import type { Candidate, ListOptions } from "./model.ts";
import { unpackFile } from "./records.ts";
import type { Rejections } from "./rejections.ts";
import type { DefinitionStore } from "./store.ts";
import { baseOf, isTypePath, parentOf, type TypeState } from "./type-state.ts";
import type { TypeTree } from "./type-tree.ts";

const PAGE = 256;

interface ListedFile {
  state: TypeState;
  root: number;
  filename: string;
  path: string;
  /** As it lies in `files`. */
  value: Buffer;
}

export class Listing {
  readonly #store: DefinitionStore;
  readonly #tree: TypeTree;
  readonly #freshness: Freshness;
  readonly #files: IndexedFiles;
  readonly #rejections: Rejections;
  /** Throws when the index is closed or the signal has aborted. */
  readonly #check: (o: AbortOptions) => void;

  constructor(o: {
    store: DefinitionStore;
    tree: TypeTree;
    freshness: Freshness;
    files: IndexedFiles;
    rejections: Rejections;
    check: (o: AbortOptions) => void;
  }) {
    this.#store = o.store;
    this.#tree = o.tree;
    this.#freshness = o.freshness;
    this.#files = o.files;
    this.#rejections = o.rejections;
    this.#check = o.check;
  }

  /** Each is as it was at the beginning of the listing, or later. */
  async *definitions(roots: readonly number[], o: ListOptions): AsyncIterableIterator<Candidate> {
    for await (const { state, root, filename, path, value } of this.#list(roots, o)) {
      const file = unpackFile(value);
      if (file.kind !== "entry") continue;
      const candidate = this.#files.candidateAt(state, root, filename, file.name);
      if (candidate !== null && !candidate.racy && this.#files.isUnchanged(path, candidate)) {
        yield this.#files.handOut(state, candidate, filename, path, file.name);
        continue;
      }
      const now = this.#files.examine(path, this.#files.roots[root]?.name ?? "", state.type);
      this.#freshness.mark(state, root, filename);
      if (now.kind === "entry") yield { entry: now.entry, document: () => now.document };
    }
  }

  async *problems(roots: readonly number[], o: ListOptions): AsyncIterableIterator<DefinitionProblem> {
    for await (const file of this.#list(roots, o)) yield* this.#problemsOf(file);
  }

  *#problemsOf({ state, root, filename, path, value }: ListedFile): Iterable<DefinitionProblem> {
    const rootName = this.#files.roots[root]?.name ?? "";
    const file = unpackFile(value);
    if (file.kind === "problem") {
      const problem = this.#files.problemOf(value, root, path);
      if (problem !== null) yield problem;
      return;
    }
    const { id, name } = file;
    if (namingOf(filename, id, name) === "mismatched") {
      const message = `the file is called ${JSON.stringify(filename)}, its definition ${JSON.stringify(name)} (${id})`;
      yield { path, root: rootName, kind: "mismatched", message };
    }
    const sameName = othersOf(this.#files.named(state, name), root, filename);
    if (sameName.length > 0) {
      const message = `${JSON.stringify(name)} is also the name in ${sameName.join(", ")}`;
      yield { path, root: rootName, kind: "duplicate-name", message };
    }
    const sameId = othersOf(this.#files.identified(state, id), root, filename);
    if (sameId.length > 0) {
      yield { path, root: rootName, kind: "duplicate-id", message: `${id} is also the id in ${sameId.join(", ")}` };
    }
    const rejected = this.#rejections.at(path);
    if (rejected !== null) yield rejected;
  }

  async *#list(roots: readonly number[], o: ListOptions): AsyncIterableIterator<ListedFile> {
    this.#check(o);
    if (o.type !== undefined && !isTypePath(o.type)) return;
    await this.#ready(o.type ?? null, roots, o);
    const prefix = o.type === undefined || o.type === "" ? "" : `${o.type}/`;
    for (const root of this.#inPathOrder(roots)) {
      const dir = this.#files.roots[root]?.dir ?? "";
      for (let after: string | undefined; ; ) {
        const page = this.#store.filesUnder(root, prefix, {
          ...(after === undefined ? {} : { after }),
          limit: PAGE,
          nested: o.type === undefined,
        });
        for (const { relative, value } of page) {
          const state = this.#tree.types.get(parentOf(relative) ?? "");
          if (state === undefined) continue;
          yield { state, root, filename: baseOf(relative), path: `${dir}/${relative}`, value };
          this.#check(o);
        }
        after = page.at(-1)?.relative;
        if (page.length < PAGE) break;
        await nextTurn();
        this.#check(o);
        await abortable(this.#freshness.flush(), o.signal);
        this.#check(o);
      }
    }
  }

  #inPathOrder(roots: readonly number[]): number[] {
    const dirOf = (root: number): string => `${this.#files.roots[root]?.dir}/`;
    return [...new Set(roots)].sort((a, b) => compareUtf8(dirOf(a), dirOf(b)));
  }

  /** Waits until the type (null: all) can be answered for and everything known is committed. */
  async #ready(type: string | null, roots: readonly number[], o: AbortOptions): Promise<void> {
    for (let since = 0; ; ) {
      const observation = this.#freshness.observe();
      since ||= observation;
      const ready = type === null ? this.#freshness.allNow(since) : this.#freshness.now(type, since) !== undefined;
      // What is learnt while this is committed is later than the beginning.
      await abortable(ready ? this.#freshness.flush() : this.#freshness.wait(type, since, o), o.signal);
      this.#check(o);
      if (ready) break;
    }
    for (const state of this.#tree.types.values()) {
      if (type !== null && state.type !== type) continue;
      for (const { root, error } of state.unreadable.values()) if (roots.includes(root)) throw error;
    }
  }
}

function othersOf(files: readonly { root: number; filename: string }[], root: number, filename: string): string[] {
  return files.filter((f) => f.root === root && f.filename !== filename).map((f) => f.filename);
}

/** The index: answers from the store where it is true, and waits for what makes it true where it is not yet. */
import { isAbsolute } from "node:path";
import { type AbortOptions, abortable } from "../abort.ts";
import { checkOptions } from "../arguments.ts";
import {
  ClosedError,
  type DefinitionProblem,
  DefinitionReadError,
  IndexUnavailableError,
  InvalidArgumentError,
  TussockError,
} from "../errors.ts";
import type { ExamineOptions } from "../scan/examine.ts";
import type { DefinitionEntry, DefinitionKeys } from "../scan/model.ts";
import type { BackgroundSweep } from "./background.ts";
import { noteChange } from "./change-notes.ts";
import type { Freshness } from "./freshness.ts";
import { IndexedFiles } from "./indexed-files.ts";
import { Listing } from "./listing.ts";
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
import { Rejections } from "./rejections.ts";
import { type Accept, NOT_READY, Search, Selection } from "./selection.ts";
import { statsOf } from "./statistics.ts";
import type { DefinitionStore } from "./store.ts";
import type { SweepResult } from "./sweep.ts";
import type { TypeTree } from "./type-tree.ts";

export interface LiveIndexParts {
  store: DefinitionStore;
  tree: TypeTree;
  freshness: Freshness;
  background: BackgroundSweep;
  examine: ExamineOptions;
  keys: DefinitionKeys;
  slot: number | "temporary";
  fileSize: () => number;
  /** What is stored makes no sense: the next to open it builds it anew. */
  condemn: (why: string) => void;
  /** Once, after everything else has ended. */
  release: () => Promise<void>;
}

export class LiveIndex implements DefinitionIndex, IndexInternals {
  readonly roots: readonly DefinitionRoot[];
  readonly keys: DefinitionKeys;
  readonly #parts: LiveIndexParts;
  readonly #files: IndexedFiles;
  readonly #selection: Selection;
  readonly #listing: Listing;
  readonly #rejections = new Rejections();
  #closing: Promise<void> | null = null;

  constructor(parts: LiveIndexParts) {
    const { store, tree, freshness, examine, keys } = parts;
    this.#parts = parts;
    this.#files = new IndexedFiles(store, tree, examine, () => {
      freshness.filesRead++;
    });
    const shared = { store, tree, freshness, files: this.#files, rejections: this.#rejections };
    this.#selection = new Selection(shared);
    this.#listing = new Listing({ ...shared, check: (o) => this.#check(o) });
    this.roots = this.#files.roots;
    this.keys = keys;
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

  select<R>(query: Query, accept: Accept<R>, o?: AbortOptions): Promise<R | null> {
    const telemetry = observeLookup(query, this.#workDone);
    try {
      this.#check(o);
      if (typeof query.key !== "string") throw new InvalidArgumentError(query.by, query.key, "a string");
      if (query.type !== null) checkType(query.type);
      // No definition has such a name or id; in UTF-8 it would be taken for another.
      if (!query.key.isWellFormed() || query.key.includes("\0")) {
        telemetry?.answered(null);
        return Promise.resolve(null);
      }
      const search = new Search(query, accept);
      const answer = this.#selection.attempt(search);
      if (answer === NOT_READY) {
        const slowly = () => this.#selectSlowly(search, o ?? {}, telemetry);
        return telemetry === null ? slowly() : telemetry.during(slowly);
      }
      telemetry?.answered(answer);
      return Promise.resolve(answer);
    } catch (error) {
      telemetry?.fail(error);
      return Promise.reject(this.#asOurs(error));
    }
  }

  /** LMDB says so when it meets a damaged page, and only then. */
  #asOurs(error: unknown): unknown {
    const message = error instanceof Error ? error.message : "";
    if (error instanceof TussockError || !/MDB_(CORRUPTED|PAGE_NOTFOUND|INVALID|PANIC)/.test(message)) return error;
    this.#parts.condemn(message);
    return new IndexUnavailableError("the index", `its cache is damaged (${message}). Close it and open it again.`, {
      cause: error,
    });
  }

  readonly #workDone = (): WorkDone => {
    const { filesRead, eventsDrained, passes } = this.#parts.freshness;
    return {
      filesRead: filesRead + passes.filesRead,
      directoriesListed: passes.directoriesListed,
      eventsDrained,
      rereads: this.#selection.counts.reread,
    };
  };

  #check(o: AbortOptions | undefined): void {
    checkOptions(o);
    if (this.#closing !== null) throw new ClosedError("the definition index");
    o?.signal?.throwIfAborted();
  }

  async #selectSlowly<R>(search: Search<R>, o: AbortOptions, telemetry: LookupTelemetry | null): Promise<R | null> {
    const { freshness } = this.#parts;
    const { type } = search.query;
    for (;;) {
      telemetry?.via("direct");
      const direct = this.#selection.attemptDirectly(search);
      if (direct !== NOT_READY) return direct;
      telemetry?.via("waiting");
      await freshness.wait(type, search.since, o);
      this.#check(o);
      const answer = this.#selection.attempt(search);
      if (answer !== NOT_READY) return answer;
    }
  }

  // ── listings ────────────────────────────────────────────────────────────────────────────────────

  async *entries(o: ListOptions = {}): AsyncIterableIterator<DefinitionEntry> {
    for await (const { entry } of this.list(o)) yield entry;
  }

  async *list(o: ListOptions = {}): AsyncIterableIterator<Candidate> {
    checkOptions(o);
    if (o.type !== undefined) checkType(o.type);
    yield* this.#listing.definitions(this.#selection.rootOrder(o.roots), o);
  }

  async *problems(o: ListOptions = {}): AsyncIterableIterator<DefinitionProblem> {
    checkOptions(o);
    if (o.type !== undefined) checkType(o.type);
    yield* this.#listing.problems(this.#selection.rootOrder(o.roots), o);
  }

  // ── changes from outside ────────────────────────────────────────────────────────────────────────

  reject(entry: DefinitionEntry, message: string): void {
    this.#rejections.add(entry, message);
  }

  examine(path: string, root: string, type: string): Occupant {
    return this.#files.examine(path, root, type);
  }

  noteWritten(paths: readonly string[]): void {
    for (const path of paths) noteChange(this.#parts.tree, this.#parts.freshness, path);
  }

  async applyChanges(paths: Iterable<string>, o: AbortOptions = {}): Promise<void> {
    this.#check(o);
    if (typeof paths?.[Symbol.iterator] !== "function" || typeof paths === "string")
      throw new InvalidArgumentError("paths", paths, "absolute paths");
    for (const path of paths) {
      if (typeof path !== "string" || !isAbsolute(path))
        throw new InvalidArgumentError("paths", path, "absolute paths");
      noteChange(this.#parts.tree, this.#parts.freshness, path);
    }
  }

  async refresh(o: AbortOptions & { onProgress?: (progress: SweepProgress) => void } = {}): Promise<RefreshReport> {
    this.#check(o);
    checkOptions(o, "onProgress");
    const { tree, freshness } = this.#parts;
    const started = performance.now();
    const report: RefreshReport = { files: 0, read: 0, changed: 0, removed: 0, problems: 0, elapsedMs: 0 };
    let total = 0;
    for (const state of tree.types.values()) for (const count of state.counts) total += count;
    // A sweep that somebody else began ends within this call, too; the type is swept once more for it.
    const last = new Map<string, SweepResult>();
    const stopListening = freshness.passes.listen({
      progress: (files, read) =>
        o.onProgress?.({
          files: report.files + files,
          read: report.read + read,
          total: Math.max(total, report.files + files),
        }),
      swept: (type, result) => {
        const before = last.get(type);
        last.set(type, result);
        report.files += present(result) - (before === undefined ? 0 : present(before));
        report.problems += result.problems - (before?.problems ?? 0);
        report.read += result.read;
        report.changed += result.changed;
        report.removed += result.removed;
      },
    });
    try {
      tree.top.invalidateTree();
      await freshness.wait(null, freshness.observe(), o);
      await abortable(freshness.flush(), o.signal);
    } finally {
      stopListening();
    }
    report.elapsedMs = performance.now() - started;
    return report;
  }

  lastKnownPath(type: string, id: string, roots: readonly string[]): string | null {
    const state = this.#closing === null ? this.#parts.tree.types.get(type) : undefined;
    if (state === undefined) return null;
    const places = this.#files.identified(state, id);
    for (const root of this.#selection.rootOrder(roots)) {
      const place = places.find((p) => p.root === root);
      if (place !== undefined) return this.#files.pathOf(state, root, place.filename);
    }
    return null;
  }

  stats(): DefinitionIndexStats {
    const { tree, freshness, slot, fileSize } = this.#parts;
    if (this.#closing === null) observeQuietly(freshness);
    const lookups = { ...this.#selection.counts };
    return statsOf(tree, freshness, { slot, fileSize: fileSize(), lookups });
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const { background, freshness, tree, release } = this.#parts;
    const backgroundEnds = background.close();
    await freshness.close(new ClosedError("the definition index")).finally(async () => {
      await backgroundEnds;
      await Promise.all([tree.close(), release()]);
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** A root that cannot be looked at is told of by the lookups; the figures are there all the same. */
function observeQuietly(freshness: Freshness): void {
  try {
    freshness.observe();
  } catch (error) {
    if (!(error instanceof DefinitionReadError)) throw error;
  }
}

/** Files that are there, of those that were looked at. */
function present({ files, removed }: SweepResult): number {
  return files - removed;
}

function checkType(type: unknown): void {
  if (typeof type !== "string") throw new InvalidArgumentError("type", type, "a string");
}

function entryOf(candidate: Candidate): DefinitionEntry {
  return candidate.entry;
}

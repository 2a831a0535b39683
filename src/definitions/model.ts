/** The index as its users see it, and what the repository needs of it besides. */
import type { AbortOptions } from "../abort.ts";
import type { DefinitionEntry, DefinitionKeys, DefinitionProblem } from "../scan/model.ts";

/** A directory tree of definitions. A root that does not exist is an empty one until it appears. */
export interface DefinitionRoot {
  name: string;
  /** Absolute. */
  dir: string;
}

export interface DefinitionIndexOptions {
  /** In order of lookup. None may contain another. */
  roots: readonly DefinitionRoot[];
  /** Where the cache lies. Deleting it loses nothing. */
  indexDir: string;
  /** Symbolic links that lead out of this directory are problems. Default: no bound. */
  boundary?: string;
  /** Ask the kernel for changes (Linux). Without, every answer is bounded. Default: true. */
  watch?: boolean;
  /** Replaces the YAML parser. Must be pure: its results are kept. */
  parse?: (text: string, path: string) => unknown;
  /** Names `parse` and its version; part of the stored index's identity. */
  parserId?: string;
  keys?: DefinitionKeys;
  /** Larger files are problems of kind `too-large`. Default: 1 MiB. */
  maxFileBytes?: number;
  /** Keep each parsed document beside its entry, so that a repository hit reads no file. Default: true. */
  keepDocuments?: boolean;
  /** Default: 60,000. */
  sweepIntervalMs?: number;
  signal?: AbortSignal;
}

export interface LookupOptions extends AbortOptions {
  /** Names of the roots to look in, in this order. Default: all, in their order. */
  roots?: readonly string[];
}

export interface ListOptions extends LookupOptions {
  type?: string;
}

export interface SweepProgress {
  /** Files looked at so far. */
  files: number;
  /** Files read because their stamp was new or had changed. */
  read: number;
  /** Files expected in all; an estimate until every directory is listed. */
  total: number;
}

export interface RefreshReport {
  /** Files that are there. */
  files: number;
  /** Of them: read, because their stamp was new or had changed. */
  read: number;
  changed: number;
  removed: number;
  problems: number;
  elapsedMs: number;
}

export interface DefinitionIndexStats {
  roots: Record<string, { types: Record<string, number>; definitions: number }>;
  /** Which slot of `indexDir` this process owns. */
  slot: number | "temporary";
  /** `exact` when every type that has been asked for is exact. */
  freshness: "exact" | "bounded";
  /** Why it is not exact; null when it is. */
  reason: string | null;
  types: Record<string, { freshness: "exact" | "bounded"; reason: string | null }>;
  watch: { mechanism: "inotify" | "none"; directories: number; overflows: number };
  lastSweep: { at: number; files: number; elapsedMs: number } | null;
  /** Bytes. */
  fileSize: number;
  lookups: { hit: number; miss: number; reread: number };
  /** Definition files opened and directories listed since the index was opened. */
  io: { filesRead: number; directoriesListed: number };
}

export interface DefinitionIndex extends AsyncDisposable {
  findByName(type: string, name: string, options?: LookupOptions): Promise<DefinitionEntry | null>;
  findById(type: string, id: string, options?: LookupOptions): Promise<DefinitionEntry | null>;
  findByNameGlobal(name: string, options?: LookupOptions): Promise<DefinitionEntry | null>;
  findByIdGlobal(id: string, options?: LookupOptions): Promise<DefinitionEntry | null>;
  entries(options?: ListOptions): AsyncIterableIterator<DefinitionEntry>;
  problems(options?: ListOptions): AsyncIterableIterator<DefinitionProblem>;
  refresh(options?: AbortOptions & { onProgress?: (progress: SweepProgress) => void }): Promise<RefreshReport>;
  applyChanges(paths: Iterable<string>, options?: AbortOptions): Promise<void>;
  stats(): DefinitionIndexStats;
  close(): Promise<void>;
}

/** One file that matches a lookup, verified against the disk at the moment it is handed out. */
export interface Candidate {
  readonly entry: DefinitionEntry;
  /** The parsed document; reads the file only where it was not kept. */
  document(): unknown;
}

export interface Query {
  by: "name" | "id";
  key: string;
  /** Null: over all types. */
  type: string | null;
  roots?: readonly string[] | undefined;
}

/** What lies at a path at this moment, read from the disk. */
export type Occupant =
  | { kind: "absent" }
  | { kind: "entry"; entry: DefinitionEntry; document: unknown }
  | { kind: "problem"; problem: DefinitionProblem };

/** What the repository needs of an index beyond its public face. */
export interface IndexInternals {
  readonly roots: readonly DefinitionRoot[];
  readonly keys: DefinitionKeys;
  /**
   * Offers the verified candidates in order of precedence until `accept` returns something else than undefined, and
   * returns that; null when none did. By name, it throws DefinitionProblemError when none did and `{name}.yaml` of a
   * root concerned is a problem.
   */
  select<R>(query: Query, accept: (candidate: Candidate) => R | undefined, options?: AbortOptions): Promise<R | null>;
  /** Every valid definition, in byte order of path. */
  list(options?: ListOptions): AsyncIterableIterator<Candidate>;
  /** The codec refused this file: it is listed among the problems as `invalid` until it changes. */
  reject(entry: DefinitionEntry, message: string): void;
  examine(path: string, root: string, type: string): Occupant;
  /** Files of ours were written or removed: every later lookup reflects them. */
  noteWritten(paths: readonly string[]): void;
  /** Synchronous and unchecked: the path last known, from the stored index. */
  lastKnownPath(type: string, id: string, roots: readonly string[]): string | null;
}

const internals = new WeakMap<DefinitionIndex, IndexInternals>();

export function exposeInternals(index: DefinitionIndex, value: IndexInternals): void {
  internals.set(index, value);
}

/** The internals of an index made by `openDefinitionIndex`; undefined for any other object. */
export function internalsOf(index: DefinitionIndex): IndexInternals | undefined {
  return internals.get(index);
}

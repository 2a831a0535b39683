/**
 * What the state store keeps and answers with: the words that both stores (SQLite, PostgreSQL), the import sources, the
 * mirror and run reaping share. Types only; every time is epoch milliseconds.
 */
import type { AbortOptions } from "../abort.ts";
import type { ProcessIdentity, Verdict } from "../process-identity.ts";
import type { Lifecycle } from "./lifecycle.ts";

/** The terminal state that every lifecycle has: a record that was imported, and whose source is gone. */
export type Dangling = "dangling";

/** One record as it was when it was read. Records are snapshots: changing one changes nothing that is stored. */
export interface StateRecord<D, S extends string> {
  id: string;
  state: S | Dangling;
  /** When it entered this state. */
  since: number;
  createdAt: number;
  /** 1 when inserted, and one more with every change: what compare-and-set compares. */
  revision: number;
  /** The store's epoch when the record last entered this state, or was told to stay in it: see {@link StateIndex.beginEpoch}. */
  epoch: number;
  /** Where it was imported from. Absent on records that were made here. */
  origin?: string;
  /** JSON: what it holds is what `JSON.parse` gives back. */
  data: D;
  /** Its place in the order of listings, for `after`: by `since`, then by insertion. Opaque. */
  cursor: string;
}

/** An object is laid over the data, key by key. A function gets the data and returns the whole new data; it must be pure. */
export type Patch<D> = Partial<D> | ((data: D) => D);

/** A named function from a record to the keys it is found by; none, one or several. Must be pure. */
export type IndexFunction<D, S extends string> = (record: StateRecord<D, S>) => string | string[] | undefined;

export interface NewRecord<D, S extends string> {
  id: string;
  /** Default: the lifecycle's initial state. */
  state?: S | undefined;
  data: D;
  /** Default: now. */
  since?: number | undefined;
}

export interface UpdateOptions<S extends string> extends AbortOptions {
  /** Refuse unless the record is in (one of) these. */
  state?: S | readonly S[] | undefined;
  /** Refuse unless the record has exactly this revision. */
  revision?: number | undefined;
}

export interface TransitionOptions<D, S extends string> extends AbortOptions {
  /** Refuse unless the record is in (one of) these. Default: whatever the lifecycle lets through. */
  from?: S | readonly S[] | undefined;
  revision?: number | undefined;
  patch?: Patch<D> | undefined;
}

export interface ByStateOptions extends AbortOptions {
  /** Exclusive. */
  enteredBefore?: number | undefined;
  /** Exclusive. */
  enteredAfter?: number | undefined;
  limit?: number | undefined;
  /** The `cursor` of the last record that was seen; the listing goes on behind it. */
  after?: string | undefined;
  /** Latest first. */
  reverse?: boolean | undefined;
}

export interface ByKeyOptions<S extends string> extends ByStateOptions {
  /** Default: all states. */
  state?: S | Dangling | readonly (S | Dangling)[] | undefined;
}

export interface SweepOptions<D, S extends string> extends AbortOptions {
  from: S | readonly S[];
  to: S;
  /** Only records that entered their state in an earlier epoch than this. */
  beforeEpoch?: number | undefined;
  /** Only records that this secondary index has under this key: all that one instance holds, say. */
  by?: { index: string; key: string } | undefined;
  where?: ((record: StateRecord<D, S>) => boolean) | undefined;
  patch?: Patch<D> | undefined;
  /** Records per commit. Default 500, at most 1,000. */
  batchSize?: number | undefined;
  /** After each batch. */
  onProgress?: ((progress: SweepReport) => void) | undefined;
}

export interface SweepReport {
  /** Records that were looked at. */
  examined: number;
  transitioned: number;
  /** Chosen, but changed by somebody else meanwhile so that they no longer qualify: left as they are. */
  skipped: number;
  elapsedMs: number;
  /** True when the signal, or the closing of the index, ended it between two batches: the figures say what was done. */
  aborted?: true;
}

/** What an import source yields: a record, a problem, or a mere mark of how far it has come. */
export type ImportItem<D, S extends string> = ImportRecord<D, S> | ImportProblem | ImportMark;

export interface ImportMark {
  /**
   * How far the source has come with this item. Stored in the commit that stores the item (and everything before it), and
   * handed to the source of the next import. Opaque to the store. Omitted: the mark stays where it was.
   */
  watermark?: string;
}

export interface ImportRecord<D, S extends string> extends ImportMark {
  id: string;
  /** `dangling` for a record whose content is gone. */
  state: S | Dangling;
  /** When it entered that state. */
  since: number;
  /** Default: `since`. */
  createdAt?: number;
  data: D;
  /** Where it comes from, such as the artifact's path; kept with the record for the mirror. */
  origin?: string;
}

export interface ImportProblem extends ImportMark {
  problem: { path: string; reason: string };
}

export interface ImportReport {
  /** Items that the source yielded. */
  examined: number;
  inserted: number;
  /** Moved forward: a terminal state over a live one, or the later of two. */
  updated: number;
  /** Already there in the same or a later form. */
  unchanged: number;
  /** Pruned here before, and so not brought back. */
  pruned: number;
  /** Of `inserted` and `updated`: how many are now `dangling`. Each is counted in the one import that made it so. */
  dangling: number;
  /** The first 1,000 problems of the source; `problemCount` counts all. */
  problems: { path: string; reason: string }[];
  problemCount: number;
  /** The mark that is stored now. */
  watermark: string | null;
  elapsedMs: number;
  /** True when the signal, or the closing of the index, ended it between two batches: the next import goes on there. */
  aborted?: true;
}

export interface ImportOptions extends AbortOptions {
  /** After each batch. */
  onProgress?: ((progress: ImportReport) => void) | undefined;
}

export interface PruneOptions<S extends string> extends AbortOptions {
  states: readonly (S | Dangling)[];
  /** Only records that entered their state before this. */
  endedBefore?: number | undefined;
  /** Keep this many of the latest of each state. */
  keep?: number | undefined;
}

/** How long terminal records are kept. */
export interface Retention {
  /** Default 30 days: 2,592,000,000. */
  endedForMs: number;
  /** Keep at least this many of the latest of each terminal state, however old. Default 0. */
  keep?: number | undefined;
}

/** One change, as it was committed. */
export interface StateTransition<D, S extends string> {
  /** Counts the store's changes; later is greater. */
  sequence: number;
  id: string;
  /** Null for a new record. Equal to `to` for an update. */
  from: S | Dangling | null;
  to: S | Dangling;
  /** The record as this change left it. */
  record: StateRecord<D, S>;
}

export interface WatchOptions<S extends string> extends AbortOptions {
  /** Only changes into (or within) these. */
  states?: readonly (S | Dangling)[] | undefined;
}

/** What a mirror wrote: handed on to `onWritten`. */
export interface MirrorReceipt {
  path: string;
  version: number;
  metadata: Record<string, unknown>;
}

/**
 * A sink that follows the index: called after commit, in order per record, at least once per change, by one process at a
 * time. What throws is tried again with a growing pause; other records go on meanwhile.
 */
export interface StateMirror<D, S extends string> {
  /** The path that the record's next write touches. Same record, same place. */
  locate(record: StateRecord<D, S>): string;
  /** Awaited before each write. */
  onWillWrite?(paths: string[]): Promise<void>;
  write(transition: StateTransition<D, S>): Promise<MirrorReceipt | undefined> | Promise<void>;
  onWritten?(transition: StateTransition<D, S>, receipt: MirrorReceipt | undefined): Promise<void>;
}

export interface StateStats {
  /** Changes that the mirror has not delivered yet, and since when the oldest of them waits. */
  mirror: { pending: number; oldestAt: number | null; lastError: string | null };
  epoch: number;
  records: Record<string, number>;
}

export interface VerifyProblem {
  /** Which part disagrees: `file`, `record`, `state`, `index`, `counter`, `outbox`. */
  part: "file" | "record" | "state" | "index" | "counter" | "outbox";
  id?: string;
  message: string;
}

export interface VerifyReport {
  ok: boolean;
  records: number;
  /** The first 1,000. */
  problems: VerifyProblem[];
}

/**
 * Records of one kind, by id, by state and by whatever the index functions give.
 *
 * Every call may throw `ClosedError`, `StateStoreCorruptError`, `StateStoreUnavailableError`, `InvalidArgumentError` and,
 * for an id or key that is too long, `KeyTooLongError`; for a state that the lifecycle does not have,
 * `LifecycleMismatchError`. Calls that write also `StateStoreBusyError` (another process had the store locked beyond the
 * deadline; nothing was written), `StorageFullError` (nothing was written) and `WriteDeadlineError` (the outcome is
 * unknown: the record's revision tells it).
 *
 * A call that writes is past its point of no return when the writer's transaction takes it. Aborted before, it rejects with
 * the signal's reason and nothing has happened; after, it settles with what happened. Calls that read have none.
 */
export interface StateIndex<D, S extends string> extends AsyncDisposable {
  readonly name: string;
  readonly lifecycle: Lifecycle<S>;

  /**
   * Counts the store's epoch up and returns it: once, when a server boots. Records carry the epoch in which they entered
   * their state, so that `sweep({ beforeEpoch })` tells what is left over from what has been acquired since.
   */
  beginEpoch(o?: AbortOptions): Promise<number>;

  /** @throws RecordExistsError with the record as it is */
  insert(record: NewRecord<D, S>, o?: AbortOptions): Promise<StateRecord<D, S>>;

  /**
   * Inserts the record or replaces its data, along the lifecycle: staying in its state is always allowed, and keeps
   * `since`. `revision: 0` means that there must be none.
   * @throws TransitionError, RecordNotFoundError, RecordExistsError
   */
  put(
    record: { id: string; state: S; data: D },
    o?: AbortOptions & { revision?: number | undefined },
  ): Promise<StateRecord<D, S>>;

  get(id: string, o?: AbortOptions): Promise<StateRecord<D, S> | null>;

  /** Changes the data within the state, a terminal one too unless `state` says otherwise. @throws TransitionError, RecordNotFoundError */
  update(id: string, patch: Patch<D>, o?: UpdateOptions<S>): Promise<StateRecord<D, S>>;

  /** @throws TransitionError with the record as it is, RecordNotFoundError */
  transition(id: string, to: S, o?: TransitionOptions<D, S>): Promise<StateRecord<D, S>>;

  /** By the time of entry, and by insertion among equals; several states are one listing. Costs what it returns. */
  byState(
    state: S | Dangling | readonly (S | Dangling)[],
    o?: ByStateOptions,
  ): AsyncIterableIterator<StateRecord<D, S>>;

  /** The records under one key of a secondary index, in the same order. */
  by(index: string, key: string, o?: ByKeyOptions<S>): AsyncIterableIterator<StateRecord<D, S>>;

  /** How many are in the state, or in all. Reads counters, not records. */
  count(state?: S | Dangling, o?: AbortOptions): Promise<number>;

  /**
   * Moves many records in few commits, each by compare-and-set. Aborted after its first commit, it resolves with what was
   * done (`aborted`).
   */
  sweep(o: SweepOptions<D, S>): Promise<SweepReport>;

  /**
   * Brings records in from a source, which is given the watermark that the last import of this name has stored. Idempotent
   * and resumable; never moves a record back: one that has ended wins over a live one, the later over the earlier. What has
   * been pruned does not come back. Records that are imported have epoch 0. Aborted after its first commit, it resolves
   * with what was done (`aborted`).
   */
  import(
    name: string,
    source: (since: string | null) => AsyncIterable<ImportItem<D, S>>,
    o?: ImportOptions,
  ): Promise<ImportReport>;

  /** Removes records, the oldest first, and says how many, also when it was aborted in between; none that the mirror still has to write. */
  prune(o: PruneOptions<S>): Promise<number>;

  /**
   * Every change from this call on, of every process: of this one at once, of others within 20 ms, or soon after 50 ms where
   * several servers share a database. Ends when the index is closed. @throws WatchLaggedError when the consumer is more than 10,000 changes behind
   */
  watch(o?: WatchOptions<S>): AsyncIterableIterator<StateTransition<D, S>>;

  /** Holds every entry, counter, checksum and key against every record, on a thread of its own. Changes nothing. */
  verify(o?: AbortOptions): Promise<VerifyReport>;

  stats(o?: AbortOptions): Promise<StateStats>;

  /** Waits for the calls under way and the mirror's write, then lets the store go. Idempotent. */
  close(): Promise<void>;
}

// ── control-plane records ───────────────────────────────────────────────────────────────────────────

/** swamp's control-plane contract: bytes under slash-delimited keys. */
export interface ControlPlaneStore extends AsyncDisposable {
  put(key: string, data: Uint8Array, o?: AbortOptions): Promise<void>;
  /** False when the key exists: of any number of callers in any process exactly one gets true. */
  putIfAbsent(key: string, data: Uint8Array, o?: AbortOptions): Promise<boolean>;
  get(key: string, o?: AbortOptions): Promise<Uint8Array | null>;
  /** Deleting what is not there is no error. */
  delete(key: string, o?: AbortOptions): Promise<void>;
  /** All keys that start with `prefix`, in byte order. */
  list(prefix: string, o?: AbortOptions): Promise<string[]>;
  close(): Promise<void>;
}

// ── runs and their reaping ──────────────────────────────────────────────────────────────────────────

/** Who runs it: what of a process identity the record knows. */
export type RunOwner = Partial<ProcessIdentity>;

export interface RunRecord {
  id: string;
  owner: RunOwner;
  /** The last heartbeat that the owner wrote, when it writes any. */
  heartbeatAt?: number;
  /** Where the source has one: what `end` compares. */
  revision?: number;
}

/** The runs to look after: swamp's own tracker, or `runsOf(stateIndex)`. */
export interface RunSource {
  running(): AsyncIterable<RunRecord>;
  /** Ends the run unless it has changed since `from` was read; false when it had. */
  end(id: string, from: RunRecord, reason: string): Promise<boolean>;
}

export interface ReapReport {
  reaped: RunRecord[];
  kept: { run: RunRecord; verdict: Verdict; why: string }[];
  /** True when the signal ended it after the first run was ended: the lists say what was done. */
  aborted?: true;
}

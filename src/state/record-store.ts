/**
 * What a store of records must be able to do: the seam between what a state index promises and where its rows lie.
 * A store compares and sets, lists and counts; it knows nothing of lifecycles, patches, index functions or sources.
 */
import type { Position } from "./cursor.ts";
import type { VerifyProblem } from "./model.ts";
import type { RowDraft, StoredRow } from "./row.ts";
import type { Registration } from "./secondary.ts";

/** How many of the latest changes a store keeps for watchers. */
export const CHANGES_KEPT = 10_000;

export interface Scope {
  readonly signal?: AbortSignal | undefined;
  /** When the caller stops waiting, on the clock of `performance.now()`. */
  readonly until: number;
  /** Told of each commit that answered this caller, where somebody wants to know. */
  readonly onCommit?: ((commit: CommitTimes, waitedMs: number) => void) | undefined;
  /**
   * For what can be done while the disk is waited for, and would else be done by everybody at once after it. May be called
   * once the store has all that was asked of it in this turn, if it has not answered by then.
   */
  meanwhile?: (() => void) | undefined;
}

/** What a group commit took. */
export interface CommitTimes {
  /** Requests in it. */
  readonly batch: number;
  /** Of the commit itself: the wait for the disk, where it is waited for. */
  readonly flushMs: number;
}

export interface RowChange {
  /** The row that is replaced; null: there must be none of that id. */
  readonly base: StoredRow | null;
  readonly next: RowDraft;
  /** Only the keys are filled in: no watcher and no mirror is told. */
  readonly quiet?: true;
  /** Of an import: what {@link RecordStore.standing} said. */
  readonly tombstone?: Tombstone | null;
}

export interface WriteOptions {
  /** The epoch that the rows were made in; null where it does not matter. */
  readonly epoch: number | null;
  /** What their keys were made for: by the time they are written the store's may be another. */
  readonly registration: Registration;
  /**
   * Stored together with the changes, when all of them were applied; a watermark of null leaves the one that is there. From
   * an index's first mark on, what is pruned there leaves a tombstone.
   */
  readonly mark?: { readonly name: string; readonly watermark: string | null };
}

/** Of a record that was pruned: how it was. */
export interface Tombstone {
  readonly state: string;
  readonly since: number;
  readonly origin: string | null;
  readonly sum: number;
}

/** What there is of an id: its record; or how that was when it was pruned; or nothing. */
export interface Standing {
  readonly row: StoredRow | null;
  readonly tombstone: Tombstone | null;
}

/** Both ends exclusive; the rows come by (since, rec), in one snapshot. */
export interface PageQuery {
  /** Null: by state alone. */
  readonly secondary: number | null;
  readonly key: string;
  readonly states: readonly string[];
  readonly from: Position;
  readonly to: Position;
  readonly reverse: boolean;
  readonly limit: number;
}

/** A change as it was logged. */
export interface StoredChange {
  readonly seq: number;
  readonly previous: string | null;
  readonly row: StoredRow;
}

/** How far somebody has followed the changes. Only the store that gave it can say more. */
export interface ChangeMark {
  readonly seq: number;
  /** Behind `seq`, and followed all the same: where changes become visible in another order than that of their numbers. */
  readonly seen?: ReadonlySet<number>;
}

/** The right to deliver to the mirror. */
export interface MirrorRight {
  /** False once it is lost: somebody else may have it by now. */
  readonly held: boolean;
  release(): Promise<void>;
}

export interface RecordStore {
  /** How it numbers the indexes now, and in which epoch it is, as far as this process knows. */
  readonly registration: Registration;
  readonly epoch: number;
  /** Brings the registration up to date: another process may have added an index, or dropped one. */
  refresh(scope: Scope): Promise<void>;
  /** Now, by the clock that all who share the store go by. Epoch milliseconds. */
  now(): number;

  get(id: string, scope: Scope): Promise<StoredRow | null>;
  /** The row as this process wrote it lately, if it remembers; by now it may be another, or gone. */
  recall(id: string): StoredRow | undefined;
  page(query: PageQuery, scope: Scope): Promise<StoredRow[]>;
  counts(scope: Scope): Promise<ReadonlyMap<string, number>>;

  /**
   * Applies each change whose base is still what is stored, all in one transaction; the others are null in the answer.
   * All are null when the epoch or the registration is not that of the options any more: then both are up to date afterwards.
   * Point of no return: the transaction takes the request.
   */
  write(changes: readonly RowChange[], options: WriteOptions, scope: Scope): Promise<(StoredRow | null)[]>;
  /** Removes up to `limit` records, the oldest first; none that the mirror still has to write. */
  prune(
    o: { state: string; before: number; keep: number; limit: number },
    scope: Scope,
  ): Promise<{ pruned: number; more: boolean }>;
  beginEpoch(scope: Scope): Promise<number>;
  /** As stored, whoever began it. */
  currentEpoch(scope: Scope): Promise<number>;

  /** What there is of each id, in their order: for imports, which know nothing yet. */
  standing(ids: readonly string[], scope: Scope): Promise<Standing[]>;
  watermark(name: string, scope: Scope): Promise<string | null>;

  /** Records whose keys are yet to be filled in. */
  unkeyed(limit: number, scope: Scope): Promise<StoredRow[]>;
  /** Secondary indexes that older records are not in yet, or are in though they were given up. */
  readonly unbuilt: readonly number[];
  setBuilt(secondary: readonly number[], scope: Scope): Promise<void>;

  /** The latest change as of this call: whatever this process asks for later lies behind it. */
  lastChange(scope: Scope): Promise<ChangeMark>;
  /** What has changed behind `after`, and how far that looked; null when some of it is gone. */
  changes(
    after: ChangeMark,
    limit: number,
    scope: Scope,
  ): Promise<{ changes: StoredChange[]; upTo: ChangeMark } | null>;
  /** Calls `listener` after commits of any process; returns the way to stop. `keepAlive`: the process stays for it. */
  subscribe(listener: () => void, o: { keepAlive: boolean }): () => void;

  outbox(after: number, limit: number, scope: Scope): Promise<StoredChange[]>;
  outboxStats(scope: Scope): Promise<{ pending: number; oldestAt: number | null }>;
  delivered(sequences: readonly number[], scope: Scope): Promise<void>;
  /** The right to deliver, which one process has at a time and loses when it dies; null while another has it. */
  lockMirror(scope: Scope): Promise<MirrorRight | null>;

  inspect(signal: AbortSignal | undefined): Promise<{ records: number; problems: VerifyProblem[] }>;
  close(): Promise<void>;
}

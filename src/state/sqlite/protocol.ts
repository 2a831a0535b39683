/** What the calling thread asks of the writer, and what it gets back. All of it survives a structured clone. */
import type { CommitTimes, Tombstone } from "../record-store.ts";
import type { RowDraft, StoredRow } from "../row.ts";
import type { Failure } from "./failure.ts";

/** The row that a change replaces, as the caller saw it: the change is refused when it is not that one any more. */
export type Base = Pick<StoredRow, "rec" | "revision" | "sum" | "state" | "since" | "keys">;

export interface Change {
  /** Null: there must be no record of that id. */
  readonly base: Base | null;
  readonly next: RowDraft;
  /** Only the keys are filled in: nobody is told. */
  readonly quiet?: boolean | undefined;
  /** An import's: the tombstone that was seen, null for none; refused when it is another by now. */
  readonly tombstone?: Pick<Tombstone, "sum"> | null | undefined;
}

export interface WriteBody {
  readonly kind: "write";
  readonly index: number;
  /** The secondary indexes that the keys were computed for. */
  readonly generation: number;
  /** The epoch that the rows were made in; null where that does not matter. */
  readonly epoch: number | null;
  readonly changes: readonly Change[];
  /** Stored with the changes when all of them were applied; null leaves the watermark that is there. */
  readonly mark?: { readonly name: string; readonly watermark: string | null } | undefined;
}

export interface RegisterBody {
  readonly kind: "register";
  readonly name: string;
  readonly lifecycle: string;
  /** Secondary indexes that the caller has the function of, and those that it gives up. */
  readonly functions: readonly string[];
  readonly dropped: readonly string[];
  /** True: from now on every change goes into the outbox; false: no more; null: as it is. */
  readonly mirrored: boolean | null;
}

export interface PruneBody {
  readonly kind: "prune";
  readonly index: number;
  readonly state: string;
  /** Only what entered its state before this. */
  readonly before: number;
  /** Leave this many of the latest. */
  readonly keep: number;
  readonly limit: number;
}

export type Body =
  | WriteBody
  | RegisterBody
  | PruneBody
  | { readonly kind: "describe"; readonly index: number }
  | { readonly kind: "built"; readonly index: number; readonly secondary: readonly number[] }
  | { readonly kind: "epoch" }
  | { readonly kind: "delivered"; readonly index: number; readonly sequences: readonly number[] };

/** A state index as the store describes it. */
export interface Description {
  readonly index: number;
  readonly generation: number;
  readonly mirrored: boolean;
  /** Number of the index that lists by state. */
  readonly listing: number;
  readonly secondary: readonly { readonly name: string; readonly number: number }[];
  /** Numbers of those in which some records are not yet as they should be. */
  readonly unbuilt: readonly number[];
}

export interface WriteResult {
  /** Per change: the record's number, null where nothing was done. */
  readonly outcomes: readonly (number | null)[];
  /** The epoch that the store is in. */
  readonly epoch: number;
  /** The secondary indexes are others by now; nothing was done. */
  readonly redescribed?: Description;
}

export interface Request {
  readonly slot: number;
  readonly body: Body;
}

export type Result =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly failure: Failure }
  /** It was given up before its turn; nothing was done. */
  | { readonly ok: null };

export interface Reply {
  readonly slot: number;
  readonly result: Result;
}

/** What goes to the writer's thread, and comes from it. */
export type ToWriter =
  | { readonly requests: readonly Request[] }
  | { readonly flushed: true }
  | { readonly close: true };
export type FromWriter =
  /** Another process has the store; it goes on trying. */
  | { readonly waiting: true }
  | { readonly opened: true }
  | { readonly replies: readonly Reply[]; readonly commit?: CommitTimes | null }
  | { readonly closed: true }
  | { readonly failed: Failure };

/**
 * Where the index's heavy work runs: sweeps and commits go to one worker thread, so that neither a listing nor a flush
 * ever holds the event loop; where no worker can start they run here, in slices.
 */

import { StorageFullError } from "../errors.ts";
import { isDiskFull } from "../ffi/file-system.ts";
import type { FilePlace } from "./reconcile.ts";
import type { PendingPut } from "./store.ts";
import type { SweepResult, SweepTarget } from "./sweep.ts";

export interface SweepCallbacks {
  signal?: AbortSignal;
  onFiles?: (files: number, read: number) => void;
}

/** One place to look at again, and the directory that it lies in. */
export interface AppliedPlace {
  place: FilePlace;
  dir: string;
  /** To be read, whatever its stamp says. */
  written: boolean;
}

export interface ApplyResult {
  symlinks: AppliedPlace[];
  unreadable: { at: AppliedPlace; path: string; errno: string }[];
  deferred: AppliedPlace[];
  read: number;
  changed: number;
  /** Per root, by how much the number of valid definitions changed. */
  counts: number[];
}

export interface IndexEngine {
  /** Its thread has ended by an error, whatever it is asked for fails, and another may take its place. */
  readonly hasEnded: boolean;
  /** Begins to come up: there will be work soon. */
  prepare?(): void;
  /** Durable when it resolves. */
  commit(puts: PendingPut[]): Promise<void>;
  /** Its changes are committed when it resolves. */
  sweep(target: SweepTarget, callbacks: SweepCallbacks): Promise<SweepResult>;
  apply(places: readonly AppliedPlace[], callbacks: SweepCallbacks): Promise<ApplyResult>;
  /** Ends what runs at its next pause. */
  close(): Promise<void>;
}

/** What LMDB says when there is no room left for a commit; any other error as it is. */
export function asStorageError(path: string, error: unknown): unknown {
  const { message = "", code } = (error ?? {}) as { message?: string; code?: unknown };
  const isFull =
    code === "ENOSPC" ||
    /MDB_MAP_FULL|No space left/.test(message) ||
    // Of a write that was cut short.
    (/Input\/output error/.test(message) && isDiskFull(path));
  return isFull ? new StorageFullError(path, { cause: error }) : error;
}

/** How an environment of ours is opened in LMDB, in the thread that owns it and in its workers alike. */
import { statSync } from "node:fs";
import { join } from "node:path";
import type { RootDatabase, RootDatabaseOptionsWithPath } from "lmdb";
import { IndexUnavailableError } from "../errors.ts";
import { loadLmdb } from "./load.ts";

export interface EnvironmentLimits {
  /** Bytes of address space, not of memory or disk. Default 64 GiB (a value that is outgrown is raised by lmdb). */
  mapSize?: number | undefined;
  /** How many named databases may be open. Default 16. */
  maxDbs?: number | undefined;
}

/** The file that LMDB keeps in the directory of an environment. */
export const DATA_FILE = "data.mdb";

/**
 * The options for `lmdb.open` on the environment at `path`, a directory.
 * - `noSubdir: false` always: lmdb takes a path with a dot for a file otherwise.
 * - The map is as large as it will ever be from the start: growing it swaps the map under the other threads.
 * - `maxReaders`: a slot is held by each thread and by each suspended iterator.
 * - No `noSync` (an unflushed commit can take the file with it), no `cache` (entries of another thread's writes).
 */
export function environmentOptions(path: string, limits: EnvironmentLimits = {}): RootDatabaseOptionsWithPath {
  return {
    path,
    noSubdir: false,
    mapSize: limits.mapSize ?? 64 * 2 ** 30,
    maxDbs: limits.maxDbs ?? 16,
    maxReaders: 256,
  };
}

/**
 * Opens, in a worker thread, the environment that the main thread of this process owns at `path` (see
 * `OwnedEnvironment.path`). LMDB shares one environment among the threads of a process: a `transactionSync` here is
 * seen by the main thread after `root.resetReadTxn()` there, and at the latest in its next turn.
 *
 * The mistake everyone makes: ending the worker first. Call and await `root.close()` in the worker, then end it, then
 * close the owner. An environment that a dead thread left open is flushed when the process ends, over whatever a new
 * owner has written meanwhile.
 *
 * @throws IndexUnavailableError where there is no environment.
 */
export async function openSharedInWorker(path: string, limits: EnvironmentLimits = {}): Promise<RootDatabase> {
  if (statSync(join(path, DATA_FILE), { throwIfNoEntry: false }) === undefined) {
    throw new IndexUnavailableError(
      path,
      "there is no environment. Its owner must have opened it before its workers do.",
    );
  }
  const { open } = await loadLmdb();
  return open(environmentOptions(path, limits));
}

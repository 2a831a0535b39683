/** A file lock that a process holds as long as anybody in it needs it: what is exclusive within is settled elsewhere. */
import { dirname } from "node:path";
import { abortable } from "../abort.ts";
import { KeyTable } from "../churn.ts";
import { makeDirectory } from "../directories.ts";
import { acquireFileLock, type FileLock } from "./file-lock.ts";

interface Mutex {
  users: number;
  lock: FileLock | null;
  readonly acquired: Promise<FileLock>;
  readonly stop: AbortController;
}

export interface MutexUse {
  readonly mechanism: FileLock["mechanism"];
  leave(): void;
}

const mutexes = new KeyTable<Mutex>();

/**
 * Waits until this process holds the lock on `path` (which is made, with its directory). Users of one process share
 * it: names that hash to the same file do not wait for each other, and may be nested. Aborted before: rejects with
 * `signal.reason`, and the waiting for the lock ends when nobody else wants it.
 */
export async function useMutex(path: string, signal?: AbortSignal): Promise<MutexUse> {
  signal?.throwIfAborted();
  const mutex = mutexes.get(path) ?? start(path);
  mutex.users++;
  try {
    const { mechanism } = await abortable(mutex.acquired, signal);
    return { mechanism, leave: () => leave(path, mutex) };
  } catch (error) {
    leave(path, mutex);
    throw error;
  }
}

function start(path: string): Mutex {
  const stop = new AbortController();
  const mutex: Mutex = { users: 0, lock: null, acquired: acquire(path, stop.signal), stop };
  mutex.acquired.then(
    (lock) => {
      mutex.lock = lock;
      if (mutex.users === 0) lock.release(); // It came in the instant in which the last one gave up.
    },
    () => {}, // Whoever waits for it is told.
  );
  mutexes.set(path, mutex);
  return mutex;
}

/** A constant: an abort without a reason makes a DOMException, which costs more than the lock. */
const NOBODY_WAITS = new Error("nobody waits for the mutex any more");

function leave(path: string, mutex: Mutex): void {
  mutex.users--;
  if (mutex.users > 0) return;
  if (mutexes.get(path) === mutex) mutexes.delete(path);
  mutex.stop.abort(NOBODY_WAITS);
  mutex.lock?.release();
}

async function acquire(path: string, signal: AbortSignal): Promise<FileLock> {
  try {
    return await acquireFileLock(path, { signal });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    makeDirectory(dirname(path));
    return acquireFileLock(path, { signal });
  }
}

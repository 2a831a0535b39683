/**
 * The one lock primitive of the library: an exclusive lock on a file that nothing else reads or copies.
 *
 * The kernel releases it when the process dies, however it dies, and keeps it across PID namespaces and containers that
 * share the directory. So **a held lock means alive**: it gives ownership of an index slot, the mutex of a name, and the
 * liveness of a process, without heartbeats and without PIDs. Two locks on one file exclude each other within one
 * process too.
 *
 * Never write into a lock file, and never copy, read or rename it while it is held (in the degraded mechanism, closing
 * any other descriptor of it drops the lock). Whoever removes a lock file must hold it, and unlinks before it releases.
 */
import { type AbortOptions, delay } from "../abort.ts";
import { checkOptions, checkPath } from "../arguments.ts";
import { InvalidArgumentError } from "../errors.ts";
import { libc } from "../ffi/libc.ts";
import { flockFile, probeFlock, unflock } from "./flock.ts";
import { probeSqliteLock, sqliteLockFile, sqliteUnlock } from "./sqlite-lock.ts";

/** A lock that is held until `release()`, or until the process ends. */
export interface FileLock {
  readonly path: string;
  /** `flock` through the FFI; `sqlite` without one, which is degraded: see sqlite-lock.ts. They exclude each other. */
  readonly mechanism: "flock" | "sqlite";
  /** Idempotent. The file stays. */
  release(): void;
}

export interface AcquireOptions extends AbortOptions {
  maxWaitMs?: number | undefined;
}

/**
 * Takes the lock on `path` if nobody holds it, creating the file (not its directory); null when somebody does. Never
 * waits (7 µs on Node, 24 µs on Deno, 0.4 ms where degraded). After locking, `path` still is the file locked. In the
 * degraded mechanism, two that try at the same instant may both get null.
 *
 * @throws UnsupportedFileSystemError where the file system has no locks; the system's error where `path` cannot be opened.
 */
export function tryFileLock(path: string): FileLock | null {
  checkPath("path", path);
  const c = libc();
  if (c === null) {
    const database = sqliteLockFile(path);
    return database === null ? null : held(path, "sqlite", () => sqliteUnlock(database));
  }
  const fd = flockFile(c, path);
  return fd === null ? null : held(path, "flock", () => unflock(c, fd));
}

/**
 * Waits for the lock, and wakes within milliseconds of its release: it asks again after 1, 2, then every 4 ms, since no
 * system call waits for a lock without a thread of its own. Null when it was not free within `maxWaitMs` (default: no
 * limit). Not fair: who asks first after a release has it.
 *
 * Aborted before the lock is taken: rejects with `signal.reason`, and nothing is held. Point of no return: taking it.
 */
export function acquireFileLock(path: string, options?: AbortOptions): Promise<FileLock>;
export function acquireFileLock(path: string, options: AcquireOptions): Promise<FileLock | null>;
export async function acquireFileLock(path: string, options: AcquireOptions = {}): Promise<FileLock | null> {
  checkOptions(options);
  const { signal, maxWaitMs = Number.POSITIVE_INFINITY } = options;
  if (!(maxWaitMs >= 0)) throw new InvalidArgumentError("maxWaitMs", maxWaitMs, "milliseconds, 0 or more");
  const start = performance.now();
  for (let pause = 1; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    signal?.throwIfAborted();
    const lock = tryFileLock(path);
    if (lock !== null) return lock;
    const left = maxWaitMs - (performance.now() - start);
    if (left <= 0) return null;
    await delay(Math.min(pause, left), signal);
  }
}

/**
 * Whether somebody (this process included) holds the lock, without taking it, so that nobody else's `tryFileLock`
 * fails for it. (It does take it for an instant where degraded, and where the kernel has no open file description locks.)
 */
export function probeFileLock(path: string): "held" | "free" | "absent" {
  checkPath("path", path);
  const c = libc();
  return c === null ? probeSqliteLock(path) : probeFlock(c, path);
}

const LONGEST_PAUSE_MS = 4;

function held(path: string, mechanism: FileLock["mechanism"], unlock: () => void): FileLock {
  let released = false;
  return {
    path,
    mechanism,
    release() {
      if (released) return;
      released = true;
      unlock();
    },
  };
}

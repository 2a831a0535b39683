/** The locks under which a repository writes: that of a name, for who claims it; that of an id, for who changes its file. */
import { join } from "node:path";
import { sha256 } from "../digest.ts";
import { NameLockTimeoutError } from "../errors.ts";
import { type NameLock, withNameLock } from "../lock/index.ts";
import { enterLine } from "../lock/line.ts";
import { type MutexUse, useMutex } from "../lock/mutex.ts";
import type { RepositoryContext } from "./context.ts";
import { named } from "./write-errors.ts";

const DEFAULT_MAX_WAIT_MS = 60_000;

/**
 * Runs `work` under the lock of a name. Aborted while it waits, it rejects with the reason and `work` never starts. Point
 * of no return: the start of `work`.
 *
 * @throws NameLockTimeoutError; NameLockLostError, when `work` let it through; DefinitionWriteError or StorageFullError
 * where the lock's files cannot be written.
 */
export async function withName<T, R>(
  { lockDir, lock }: RepositoryContext<T>,
  name: string,
  work: (held: NameLock) => Promise<R>,
  signal: AbortSignal | undefined,
): Promise<R> {
  let entered = false;
  const enter = (held: NameLock): Promise<R> => {
    entered = true;
    return work(held);
  };
  try {
    return await withNameLock(lockDir, name, enter, { ...lock, signal });
  } catch (error) {
    throw entered ? error : named(lockDir, error);
  }
}

/**
 * Runs `work` under the lock of an id: who changes or removes its file excludes all others that do, in this process and
 * in every other. A save that moves a file takes several steps, and two of them at once would leave the id in two files
 * with different content (the test of three processes that rename one definition shows it).
 *
 * One of 256 lock files is chosen by a hash of the id. They are apart from those of names: a rename holds both, the id's
 * first, so that no circle can close.
 *
 * Aborted while it waits, it rejects with the reason and `work` never starts. Point of no return: the start of `work`.
 *
 * @throws NameLockTimeoutError when somebody holds it for longer than `maxWaitMs`.
 */
export async function withId<T, R>(
  { lockDir, lock }: RepositoryContext<T>,
  id: string,
  work: () => Promise<R>,
  signal: AbortSignal | undefined,
): Promise<R> {
  const hash = sha256(id).toString("hex").slice(0, 2);
  const path = join(lockDir, `.id-${hash}`);
  let leaveLine: (() => void) | undefined;
  const enter = async (either: AbortSignal): Promise<MutexUse> => {
    leaveLine = await enterLine(`${path}\0${id}`, either);
    return useMutex(path, either);
  };
  try {
    const mutex = await waitAtMost(path, lock.maxWaitMs, enter, signal);
    try {
      return await work();
    } finally {
      mutex.leave();
    }
  } finally {
    leaveLine?.();
  }
}

/**
 * Runs `work` when nobody else in this process asks for the name: those who wait for a name need not each take the lock's
 * files to learn that there is nothing left to do. Aborted while it waits, it rejects with the reason.
 *
 * @throws NameLockTimeoutError
 */
export async function inLineForName<T, R>(
  { lockDir, lock }: RepositoryContext<T>,
  name: string,
  work: () => Promise<R>,
  signal: AbortSignal | undefined,
): Promise<R> {
  const path = join(lockDir, name);
  const leaveLine = await waitAtMost(path, lock.maxWaitMs, (either) => enterLine(`resolve\0${path}`, either), signal);
  try {
    return await work();
  } finally {
    leaveLine();
  }
}

/** `wait` gets a signal that aborts with the caller's, or with a NameLockTimeoutError; no timer or listener outlives it. */
async function waitAtMost<R>(
  path: string,
  maxWaitMs: number | undefined,
  wait: (either: AbortSignal) => Promise<R>,
  signal: AbortSignal | undefined,
): Promise<R> {
  signal?.throwIfAborted();
  const limit = maxWaitMs ?? DEFAULT_MAX_WAIT_MS;
  const stop = new AbortController();
  const onAbort = (): void => stop.abort(signal?.reason);
  signal?.addEventListener("abort", onAbort, { once: true });
  const timer = setTimeout(() => stop.abort(new NameLockTimeoutError(path, limit, null)), limit);
  try {
    return await wait(stop.signal);
  } catch (error) {
    throw named(path, error);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
}

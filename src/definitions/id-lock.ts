/**
 * Who changes or removes the file of an id excludes all others that do, in this process and in every other.
 *
 * A save that moves a file takes several steps, and two of them at once could leave an id in two files with different
 * content: shown by the test of two processes that rename one definition. One of 256 lock files is chosen by a hash of
 * the id. They are apart from those of names: a rename holds both, the id's first, so that no circle can close.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { NameLockTimeoutError } from "../errors.ts";
import { enterLine } from "../lock/line.ts";
import { type MutexUse, useMutex } from "../lock/mutex.ts";

const DEFAULT_MAX_WAIT_MS = 60_000;

/**
 * Aborted while it waits, it rejects with the reason and `work` never starts. Point of no return: the start of `work`.
 *
 * @throws NameLockTimeoutError when somebody holds the lock for longer than `maxWaitMs` (default 60 s).
 */
export async function withIdLock<R>(
  lockDir: string,
  id: string,
  work: () => Promise<R>,
  { signal, maxWaitMs = DEFAULT_MAX_WAIT_MS }: { signal?: AbortSignal | undefined; maxWaitMs?: number | undefined },
): Promise<R> {
  const hash = createHash("sha256").update(id).digest("hex").slice(0, 2);
  const path = join(lockDir, `.id-${hash}`);
  signal?.throwIfAborted();
  const stop = new AbortController();
  const onAbort = (): void => stop.abort(signal?.reason);
  signal?.addEventListener("abort", onAbort, { once: true });
  const timer = setTimeout(() => stop.abort(new NameLockTimeoutError(path, maxWaitMs, null)), maxWaitMs);
  let leaveLine: (() => void) | undefined;
  let mutex: MutexUse;
  try {
    leaveLine = await enterLine(`${path}\0${id}`, stop.signal);
    mutex = await useMutex(path, stop.signal);
  } catch (error) {
    leaveLine?.();
    throw error;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
  try {
    return await work();
  } finally {
    mutex.leave();
    leaveLine();
  }
}

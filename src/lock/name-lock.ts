/**
 * The lock of a name: one holder at a time among all processes that share the directory.
 *
 * Three things, taken in this order and given back in the reverse one:
 * 1. a place in the line of this process for the name;
 * 2. the mutex, a file lock on one of 256 files `.mutex-{00…ff}` chosen by a hash of the name: among processes of this
 *    library it alone decides, it ends with the process, and it leaves no file per name behind;
 * 3. swamp's file, `{name}.lock`, for swamp processes of today.
 *
 * What cannot be promised against such swamp processes: they judge a holder by its PID alone (one in another container
 * looks dead to them, or alive), take over by renaming over the file, and unlink it without looking whose it is. The
 * holder then learns of it by {@link NameLock.verify}, but between that and its write nothing holds them off.
 */
import { join, resolve } from "node:path";
import type { AbortOptions } from "../abort.ts";
import { checkFunction, checkOptions, checkPath } from "../arguments.ts";
import { sha256 } from "../digest.ts";
import { InvalidArgumentError, NameLockTimeoutError } from "../errors.ts";
import { readHolder, takeHolderFile } from "./holder-file.ts";
import { enterLine } from "./line.ts";
import { useMutex } from "./mutex.ts";
import { observeWait } from "./observe.ts";

export interface NameLockOptions extends AbortOptions {
  /** The file is renewed every third of it, and taken over when it was seen unchanged for so long. Default 30 s. */
  ttlMs?: number | undefined;
  /** How long to wait for the lock. Default 60 s: longer than a TTL, so that a left-over lock does not fail a call. */
  maxWaitMs?: number | undefined;
}

export interface NameLock {
  /** swamp's file. */
  readonly path: string;
  /** Aborts, with a `NameLockLostError`, when it is noticed that somebody else took the lock over. */
  readonly lost: AbortSignal;
  /**
   * Call it right before writing. Looks at the file, whatever time has passed (the event loop may have been blocked).
   *
   * @throws NameLockLostError when somebody took the lock over: nothing may be written.
   */
  verify(): void;
}

/**
 * Runs `fn` while this process holds the lock of `name` in `dir` (`{root}/.auto-definition-create`; made when missing),
 * and gives the lock back when it has settled. The waiting is in order within a process, and wakes within milliseconds
 * of a release elsewhere. Calling it inside `fn` for the same name waits for itself until `maxWaitMs`.
 *
 * Aborted before `fn` is called (the point of no return): rejects with `signal.reason`; no file, timer or lock is left.
 * Afterwards the signal does nothing here: the call settles as `fn` does.
 *
 * @throws NameLockTimeoutError with the holder; InvalidArgumentError; the system's error where `dir` cannot be written.
 */
export async function withNameLock<R>(
  dir: string,
  name: string,
  fn: (lock: NameLock) => R | Promise<R>,
  options: NameLockOptions = {},
): Promise<R> {
  checkPath("dir", dir);
  if (typeof name !== "string" || name === "") throw new InvalidArgumentError("name", name, "a name");
  checkFunction("fn", fn);
  checkOptions(options);
  const { ttlMs = 30_000, maxWaitMs = 60_000, signal } = options;
  if (!(ttlMs > 0 && ttlMs <= 3_600_000))
    throw new InvalidArgumentError("ttlMs", ttlMs, "milliseconds, at most an hour");
  if (!(maxWaitMs >= 0)) throw new InvalidArgumentError("maxWaitMs", maxWaitMs, "milliseconds, 0 or more");
  signal?.throwIfAborted();
  const fileName = lockFileName(name);
  const path = join(resolve(dir), fileName);
  const mutexPath = join(resolve(dir), mutexName(fileName));
  const telemetry = observeWait(path);
  const waiting = waitAtMost(maxWaitMs, signal);
  const held: (() => void)[] = [];
  try {
    held.push(await enterLine(path, waiting.signal));
    const mutex = await useMutex(mutexPath, waiting.signal);
    held.push(mutex.leave);
    const mutexIsProof = mutex.mechanism === "flock";
    const file = await takeHolderFile(path, { ttlMs, workPath: mutexPath, mutexIsProof, signal: waiting.signal });
    held.push(() => file.release());
    waiting.signal.throwIfAborted();
    waiting.end();
    telemetry?.set("tussock.lock.took_over", file.tookOver);
    telemetry?.end();
    return await fn({ path, lost: file.lost, verify: () => file.verify() });
  } catch (error) {
    const reason = error === waiting.timeout ? new NameLockTimeoutError(path, maxWaitMs, readHolder(path)) : error;
    telemetry?.fail(reason);
    throw reason;
  } finally {
    waiting.end();
    giveBack(held);
  }
}

/**
 * The last taken first. A failure (of the disk, in removing the file) is not the call's: what was done under the lock
 * is done, and a file that stays is taken over by the next.
 */
function giveBack(held: (() => void)[]): void {
  for (const each of held.reverse()) {
    try {
      each();
    } catch {
      // See above.
    }
  }
}

/** One signal for the caller's and the deadline, with neither listener nor timer after `end()`. */
function waitAtMost(ms: number, signal: AbortSignal | undefined) {
  const stop = new AbortController();
  const timeout = Symbol("timeout");
  const onAbort = (): void => stop.abort(signal?.reason);
  signal?.addEventListener("abort", onAbort, { once: true });
  const timer = ms < 2 ** 31 ? setTimeout(() => stop.abort(timeout), ms) : undefined;
  const end = (): void => {
    signal?.removeEventListener("abort", onAbort);
    clearTimeout(timer);
  };
  return { signal: stop.signal, timeout, end };
}

const LONGEST_NAME_BYTES = 200;
const ILLEGAL = process.platform === "win32" ? /[<>:"\\|?*\0-\x1f]/ : /\0/;

/** swamp's name for it, where that is a legal filename; else a hash. */
function lockFileName(name: string): string {
  const flat = name.replaceAll("/", "--");
  const plain = Buffer.byteLength(flat) <= LONGEST_NAME_BYTES && !ILLEGAL.test(flat);
  return `${plain ? flat : `sha256-${sha256(name).toString("hex")}`}.lock`;
}

/** Every process must choose the same: part of the protocol. By the file's name, since two names may share a file. */
function mutexName(fileName: string): string {
  return `.mutex-${sha256(fileName).toString("hex").slice(0, 2)}`;
}

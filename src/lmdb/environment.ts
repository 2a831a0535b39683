/**
 * Owning and opening an LMDB environment safely.
 *
 * lmdb 3.5.6 loses acknowledged commits when another process opens an environment while one is committing (LMDB
 * ITS#9496: the opener writes the transaction counter back; a read-only opener does it too), and its reader table
 * confuses processes of different PID namespaces. Therefore an environment here has **one owner at a time**, under a
 * file lock that ends with the process. Nothing else may open the directory's files while it is owned: no second
 * process, no `mdb_stat`. (Reading them, as a backup does, is harmless: LMDB's own record locks may fall off, ours not.)
 *
 * An environment is a cache. One that is damaged, foreign, or was left unclean twice in a row is set aside with one
 * warning, and its user starts with an empty one.
 */
import type { RootDatabase } from "lmdb";
import { type AbortOptions, abortable, delay } from "../abort.ts";
import { IndexUnavailableError, InvalidArgumentError, TussockError, UnsupportedFileSystemError } from "../errors.ts";
import { fileSystemOf } from "../ffi/file-system.ts";
import type { FileLock } from "../lock/file-lock.ts";
import { missingPermission } from "../permissions.ts";
import { type Lmdb, loadLmdb } from "./load.ts";
import { openSlot } from "./open-slot.ts";
import { addOpened, identify, isStillThere, type Opened, openedIn, removeOpened } from "./opened.ts";
import type { EnvironmentLimits } from "./shared.ts";
import {
  describe,
  differenceFrom,
  type EnvironmentIdentity,
  writeClosedSession,
  writeCondemned,
} from "./side-files.ts";
import { prepareDirectory, releaseSlot, removeOldAsides, takeSlot } from "./slots.ts";

export { type EnvironmentLimits, environmentOptions, openSharedInWorker } from "./shared.ts";
export type { EnvironmentIdentity } from "./side-files.ts";

export interface OpenEnvironmentOptions extends EnvironmentLimits, AbortOptions {
  /** The directory of the index, used for nothing else; it is made. Must be on a local disk. */
  dir: string;
  /** How many environments may lie in it, for as many processes at once. Default 4. */
  slots?: number | undefined;
  /** What the content depends on (schema, keys, roots …). An environment with another identity is not opened. */
  identity: EnvironmentIdentity;
  /**
   * False: never the environment that somebody else in this process has open, but the next free slot. For users that
   * keep in memory what is not yet written. Default true.
   */
  shared?: boolean | undefined;
  /** Told once for each environment that is set aside. Default: `process.emitWarning`. */
  warn?: ((message: string) => void) | undefined;
}

export interface OwnedEnvironment extends AsyncDisposable {
  /** The directory of the index, resolved. */
  readonly dir: string;
  /** `temporary` when other processes held every slot: it starts empty and is removed at `close()`. */
  readonly slot: number | "temporary";
  /** The environment's own directory: what a worker of this process passes to `openSharedInWorker`. */
  readonly path: string;
  /** `sqlite` is degraded: a process that reads its own lock file loses the lock. */
  readonly lockMechanism: FileLock["mechanism"];
  /** This handle is the first to see an empty environment. (A handle that shares one with an earlier one is not.) */
  readonly fresh: boolean;
  /** Why it is empty: `new`, or what was wrong with the one that was set aside. Null when not fresh. */
  readonly freshReason: string | null;
  /**
   * Write by `transactionSync` with a callback that returns nothing: it rolls back on a throw, and is durable when it
   * returns. One that returns a thenable (`() => db.put(…)`) makes a `close()` in the same turn block the process for
   * ever, and so does `process.exit()` within it. Never mix in `transaction` or `batch`, which do not roll back.
   *
   * Finish every range before `close()`, and pass `snapshot: false` to one that may be paused: a snapshot keeps every
   * page that is replaced meanwhile (40 times the file after 2,000 updates).
   */
  readonly root: RootDatabase;
  /** False when the directory was deleted or replaced under the open handle: writes go nowhere. Close, and open again. */
  isStillThere(): boolean;
  /** What is inside makes no sense: the next to open this slot sets it aside. Close, and open again. */
  condemn(why: string): void;
  /**
   * Idempotent. The last handle of the process waits for what was written, closes LMDB and gives the slot back. Workers
   * must have closed before.
   *
   * @throws IndexUnavailableError when a reader stays open for 10 s; the slot is then kept until the process ends.
   */
  close(): Promise<void>;
}

const CLOSE_DEADLINE_MS = 10_000;

/**
 * Opens a free environment of `dir` (the first with this identity, else the first), or shares the one that this process
 * has open with the same identity. A process that dies, however it dies, frees its slot.
 *
 * Before the file is mapped its size, magic, format version, page size and page counts are checked; its description must
 * match; and it must not have been left unclean twice in a row (killed, or crashed on a damaged page). Otherwise it is
 * renamed to `{slot}.aside-{time}` (the newest is kept), `warn` is called once, and a fresh one is opened.
 *
 * Aborted before the slot is taken (the point of no return): rejects with `signal.reason`; nothing is open or held.
 *
 * @throws UnsupportedFileSystemError on a network file system; IndexUnavailableError where the directory cannot be
 * used, with the cause; InvalidArgumentError.
 */
export async function openOwnedEnvironment(options: OpenEnvironmentOptions): Promise<OwnedEnvironment> {
  const { signal, slots = 4, warn = (message) => process.emitWarning(message, "TussockWarning") } = options;
  if (options.dir === "") throw new InvalidArgumentError("dir", options.dir, "a directory");
  if (!Number.isSafeInteger(slots) || slots < 1) throw new InvalidArgumentError("slots", slots, "an integer from 1");
  signal?.throwIfAborted();
  const fileSystem = fileSystemOf(options.dir);
  if (fileSystem.network) {
    throw new UnsupportedFileSystemError(options.dir, fileSystem.name, "Choose a directory on a local disk.");
  }
  const lmdb = await abortable(lmdbFor(options.dir), signal);
  const description = describe(options.identity, lmdb.version.versionString);
  const key = JSON.stringify(description);
  const share = options.shared !== false;
  for (;;) {
    signal?.throwIfAborted();
    // Nothing is awaited between the look into the registry and the entry made there: no other open can come between.
    const dir = orUnavailable(options.dir, () => prepareDirectory(options.dir));
    const before = openedIn(dir, key, share);
    if (before?.closing) {
      await abortable(before.closing, signal);
    } else if (before !== undefined) {
      return handleOf(before, null);
    } else {
      const { opened, freshReason } = orUnavailable(dir, () => {
        const slot = takeSlot(dir, slots, (path) => differenceFrom(description, path) === null);
        try {
          const { root, freshReason } = openSlot(slot, lmdb.open, description, options, warn);
          const file = identify(slot.path);
          const opened: Opened = { dir, key, share, slot, root, file, handles: 0, condemned: false, closing: null };
          addOpened(opened);
          return { opened, freshReason };
        } catch (error) {
          releaseSlot(slot);
          throw error;
        }
      });
      const handle = handleOf(opened, freshReason);
      if (freshReason !== null && freshReason !== "new") await removeOldAsides(dir);
      return handle;
    }
  }
}

function handleOf(opened: Opened, freshReason: string | null): OwnedEnvironment {
  const { dir, slot, root } = opened;
  opened.handles++;
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closed ??= --opened.handles > 0 ? Promise.resolve() : shutDown(opened);
    return closed;
  };
  return {
    dir,
    slot: slot.number,
    path: slot.path,
    lockMechanism: slot.lock.mechanism,
    fresh: freshReason !== null,
    freshReason,
    root,
    isStillThere: () => isStillThere(opened),
    condemn(why) {
      opened.condemned = true;
      if (isStillThere(opened)) writeCondemned(slot.path, why);
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

async function shutDown(opened: Opened): Promise<void> {
  const { slot, root } = opened;
  const done = (async () => {
    const given = new AbortController();
    const late = delay(CLOSE_DEADLINE_MS, given.signal).then(() => {
      const why = `a reader is open still, ${CLOSE_DEADLINE_MS} ms after close(). End the thread that reads, or the process.`;
      throw new IndexUnavailableError(slot.path, why);
    });
    try {
      await Promise.race([root.close(), late]);
    } finally {
      given.abort();
      late.catch(() => {});
      removeOpened(opened);
    }
    // Whoever removed the directory may have made it again: then the files there are not ours.
    try {
      if (!opened.condemned && isStillThere(opened)) writeClosedSession(slot.path);
    } catch {
      // The disk is full: the next to open it takes this end for an unclean one.
    }
    releaseSlot(slot);
  })();
  opened.closing = done.catch(() => {});
  await done;
}

async function lmdbFor(dir: string): Promise<Lmdb> {
  try {
    return await loadLmdb();
  } catch (error) {
    const permission = missingPermission(error);
    const why =
      permission === null
        ? "lmdb cannot be loaded. Is its binary for this platform installed?"
        : `lmdb cannot be loaded without ${permission}. It needs --allow-ffi, --allow-env and --allow-sys.`;
    throw new IndexUnavailableError(dir, why, { cause: error });
  }
}

function orUnavailable<R>(path: string, work: () => R): R {
  try {
    return work();
  } catch (error) {
    if (error instanceof TussockError) throw error;
    const what = error instanceof Error ? error.message : String(error);
    const why = `${what}. Mend that, or give another directory: what lies there is a cache.`;
    throw new IndexUnavailableError(path, why, { cause: error });
  }
}

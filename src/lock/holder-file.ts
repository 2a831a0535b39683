/**
 * The file that says who holds a name: for swamp processes of today, which know no other lock, and for people.
 *
 * Between processes of this library it decides nothing, because they hold the mutex of the name beside it.
 */
import { closeSync, fstatSync, linkSync, openSync, readFileSync, renameSync, statSync, unlinkSync } from "node:fs";
import { clearInterval, setInterval } from "node:timers";
import { delay } from "../abort.ts";
import { type NameLockHolder, NameLockLostError } from "../errors.ts";
import { type Draft, takeDraft, writeOver } from "./draft.ts";
import {
  firstLook,
  type HolderRecord,
  isStale,
  lookAgain,
  newRecord,
  parseRecord,
  toText,
  type Watched,
} from "./holder-record.ts";

export interface HolderFileOptions {
  ttlMs: number;
  /** Prefix of working files: the path of the mutex that the caller holds, so that no two use them at once. */
  workPath: string;
  /** See `isStale`. */
  mutexIsProof: boolean;
  signal: AbortSignal;
}

/** The file, while this process holds it. */
export class HolderFile {
  readonly path: string;
  /** Whether a file that somebody had left behind was in the way. */
  tookOver = false;
  readonly #lost = new AbortController();
  readonly #record: HolderRecord;
  readonly #draft: Draft;
  readonly #timer: ReturnType<typeof setInterval>;
  #renewedAt = performance.now();

  constructor(path: string, draft: Draft, record: HolderRecord) {
    this.path = path;
    this.#draft = draft;
    this.#record = record;
    this.#timer = setInterval(() => this.#renewInTime(), record.ttlMs / 3).unref();
  }

  /** Aborts, with a {@link NameLockLostError}, when a renewal or `verify` finds that somebody took over. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** Throws when somebody took over, or nobody can tell. Else it is ours, and was renewed within a third of its TTL. */
  verify(): void {
    if (!this.#isMine()) this.#lose();
    this.lost.throwIfAborted();
    if (performance.now() - this.#renewedAt > this.#record.ttlMs / 3) this.#renew();
  }

  /** Removes the file, unless it is somebody else's by now. */
  release(): void {
    clearInterval(this.#timer);
    try {
      if (this.#isMine()) unlink(this.path);
    } finally {
      this.#draft.giveBack();
    }
  }

  /** A disk that fails in the background must not end the process: `verify` is told the same when it asks. */
  #renewInTime(): void {
    try {
      this.#renew();
    } catch {
      // Tried again after another third; others take over when the TTL has passed.
    }
  }

  /** Through the descriptor, not the path: it cannot touch the file of whoever took over meanwhile. */
  #renew(): void {
    if (!this.#isMine()) {
      this.#lose();
      return;
    }
    this.#record.acquiredAt = new Date().toISOString();
    writeOver(this.#draft.fd, toText(this.#record));
    this.#renewedAt = performance.now();
  }

  #isMine(): boolean {
    if (this.lost.aborted || !isAt(this.path, this.#draft.fd)) return false;
    return parseRecord(read(this.path))?.nonce === this.#record.nonce;
  }

  #lose(): void {
    clearInterval(this.#timer);
    this.#lost.abort(new NameLockLostError(this.path, readHolder(this.path)));
  }
}

/**
 * Waits until the file at `path` is ours: looks every 4 ms, by one stat while nothing changes.
 * Aborted before: rejects with `signal.reason`, and leaves no file. Point of no return: the link that makes the file.
 */
export async function takeHolderFile(path: string, options: HolderFileOptions): Promise<HolderFile> {
  const { ttlMs, workPath, mutexIsProof, signal } = options;
  let watched: Watched | null = null;
  let tookOver = false;
  for (let pause = 1; ; pause = Math.min(pause * 2, 4)) {
    signal.throwIfAborted();
    watched = look(path, ttlMs, watched);
    if (watched !== null && isStale(watched, mutexIsProof)) {
      takeAway(path, watched.text, workPath);
      tookOver = true;
      watched = look(path, ttlMs, null);
    }
    const mine = watched === null ? create(path, ttlMs, workPath) : null;
    if (mine !== null) {
      mine.tookOver = tookOver;
      return mine;
    }
    await delay(pause, signal);
  }
}

/** Who the file says holds it; null when there is none, or it does not say. */
export function readHolder(path: string): NameLockHolder | null {
  return parseRecord(read(path));
}

function look(path: string, ttlMs: number, before: Watched | null): Watched | null {
  const lookedAt = performance.now();
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return null;
  const stamp = `${stat.ino}:${stat.mtimeMs}:${stat.size}`;
  if (before?.stamp === stamp) return lookAgain(before, lookedAt);
  const text = read(path);
  return text === null ? null : firstLook(text, stamp, lookedAt, ttlMs);
}

/** By rename, which only one can do; what comes away is looked at, and put back if it is not what was judged. */
function takeAway(path: string, judged: string, workPath: string): void {
  const away = `${workPath}.stale`;
  try {
    renameSync(path, away);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return;
    throw error;
  }
  const text = read(away);
  if (text !== null && text !== judged && link(away, path) === "impossible") openNew(path, text)?.giveBack();
  unlink(away);
}

/** Nobody ever sees the file without its content. Null when somebody was faster. */
function create(path: string, ttlMs: number, workPath: string): HolderFile | null {
  const record = newRecord(ttlMs);
  const text = toText(record);
  const draft = takeDraft(workPath, text);
  const linked = link(draft.path, path);
  if (linked === "done" && isAt(path, draft.fd)) return new HolderFile(path, draft, record);
  draft.giveBack();
  const own = linked === "impossible" ? openNew(path, text) : null;
  return own === null ? null : new HolderFile(path, own, record);
}

/** Two system calls fewer than `rmSync`. */
function unlink(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error;
  }
}

/** `impossible` where the file system has no hard links. */
function link(from: string, to: string): "done" | "exists" | "impossible" {
  try {
    linkSync(from, to);
    return "done";
  } catch (error) {
    const code = codeOf(error);
    if (code === "EEXIST" || code === "ENOENT") return "exists"; // Or `from` went, and with it our claim.
    if (code === "EPERM" || code === "ENOTSUP" || code === "EOPNOTSUPP" || code === "ENOSYS") return "impossible";
    throw error;
  }
}

/** Null when there is one. */
function openNew(path: string, text: string): Draft | null {
  let fd: number;
  try {
    fd = openSync(path, "wx", 0o666);
  } catch (error) {
    if (codeOf(error) === "EEXIST") return null;
    throw error;
  }
  const giveBack = (): void => closeSync(fd);
  try {
    writeOver(fd, text);
  } catch (error) {
    giveBack(); // The file stays, empty: it is taken over when it was that for a TTL.
    throw error;
  }
  return { path, fd, giveBack };
}

function isAt(path: string, fd: number): boolean {
  const named = statSync(path, { bigint: true, throwIfNoEntry: false });
  const open = fstatSync(fd, { bigint: true });
  return named !== undefined && named.ino === open.ino && named.dev === open.dev;
}

function read(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  }
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}

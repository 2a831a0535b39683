/**
 * Files written whole or not at all: into a temporary file first, flushed, then put in place by one system call.
 *
 * What the memory answers (open, write, link, rename) is called synchronously; what waits for the disk (fsync) is not.
 * The calls go through the module's object, so that a test can stop the process, or the world, at each of them.
 */
import fs from "node:fs";
import type { LimitFunction } from "p-limit";
import { codeOf, writing } from "./write-errors.ts";

/** A file is written under this name first: hidden, and never taken for a definition. */
export function temporaryName(): string {
  return `.${crypto.randomUUID()}.tmp`;
}

/** A complete file that nobody sees yet. It must be put in place, or discarded. */
export interface Draft {
  readonly path: string;
  readonly inode: bigint;
  /** Removes it, if it still lies there. Never throws: what is left of it is hidden, and no definition. */
  discard(): void;
}

export interface DraftOptions {
  /** A file whose mode the draft gets, and whose owner, where that is allowed. */
  like?: fs.Stats | undefined;
  /** Bring its content to the disk. */
  flush: boolean;
}

/**
 * Few at once: each holds a descriptor, and a flush of the directory, for which those before them wait, must not stand
 * behind a thousand flushes of files in the runtime's pool of four threads.
 */
const DRAFTS_AT_ONCE = 8;
let draftTurns: Promise<LimitFunction> | undefined;

/** Loaded when something is first written: who only reads is spared a tenth of what importing the library takes. */
function inTurn<R>(write: () => Promise<R>): Promise<R> {
  draftTurns ??= import("p-limit").then(({ default: pLimit }) => pLimit(DRAFTS_AT_ONCE));
  return draftTurns.then((limited) => limited(write));
}

/** Begins a draft when there are few enough. Aborted while it waits, it rejects at once, and `write` never runs. */
export function inDraftTurn<R>(signal: AbortSignal | undefined, write: () => Promise<R>): Promise<R> {
  if (signal === undefined) return inTurn(write);
  return new Promise<R>((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    const begin = async (): Promise<R> => {
      signal.removeEventListener("abort", onAbort);
      signal.throwIfAborted();
      return write();
    };
    inTurn(begin).then(resolve, reject);
  });
}

/** Writes `text` into a temporary file of `dir`. Leaves nothing behind when it fails. */
export async function writeDraft(dir: string, text: string, { like, flush }: DraftOptions): Promise<Draft> {
  const path = `${dir}/${temporaryName()}`;
  const discard = (): void => {
    try {
      fs.unlinkSync(path);
    } catch {}
  };
  return writing(path, async () => {
    const fd = fs.openSync(path, "wx", like === undefined ? 0o666 : like.mode & 0o777);
    try {
      fs.writeFileSync(fd, text);
      if (like !== undefined) takeAfter(fd, like);
      const { ino } = fs.fstatSync(fd, { bigint: true });
      if (flush) await flushDescriptor(fd);
      return { path, inode: ino, discard };
    } catch (error) {
      discard();
      throw error;
    } finally {
      fs.closeSync(fd);
    }
  });
}

function takeAfter(fd: number, like: fs.Stats): void {
  const own = fs.fstatSync(fd);
  if (own.uid !== like.uid || own.gid !== like.gid) {
    try {
      fs.fchownSync(fd, like.uid, like.gid);
    } catch (error) {
      if (codeOf(error) !== "EPERM") throw error;
    }
  }
  // After the owner: a change of owner clears the set-id bits.
  if ((own.mode & 0o7777) !== (like.mode & 0o7777)) fs.fchmodSync(fd, like.mode & 0o7777);
}

/** Puts a file under a further name, unless something is called that: then false. Never overwrites. */
export function linkInto(from: string, to: string): boolean {
  return writing(to, () => {
    try {
      fs.linkSync(from, to);
      return true;
    } catch (error) {
      if (codeOf(error) === "EEXIST") return false;
      if (!NO_LINKS.has(codeOf(error))) throw error;
      return claimInto(from, to);
    }
  });
}

/** File systems without hard links (FAT, some of FUSE): an empty file claims the name, and is replaced at once. */
function claimInto(from: string, to: string): boolean {
  try {
    fs.closeSync(fs.openSync(to, "wx"));
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  }
  fs.renameSync(from, to);
  return true;
}

const NO_LINKS = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"]);

export function replace(from: string, to: string): void {
  writing(to, () => fs.renameSync(from, to));
}

/** Whether there was something to remove. */
export function remove(path: string): boolean {
  return writing(path, () => {
    try {
      fs.unlinkSync(path);
      return true;
    } catch (error) {
      if (codeOf(error) === "ENOENT") return false;
      throw error;
    }
  });
}

/** The inode that `path` itself names (a symbolic link has its own); null when there is nothing. */
export function inodeAt(path: string): bigint | null {
  return fs.lstatSync(path, { bigint: true, throwIfNoEntry: false })?.ino ?? null;
}

/** Brings what was written to the disk. */
export function flushDescriptor(fd: number): Promise<void> {
  return new Promise((resolve, reject) => {
    fs.fsync(fd, (error) => (error ? reject(error) : resolve()));
  });
}

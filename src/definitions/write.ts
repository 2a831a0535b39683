/**
 * Files written whole or not at all: into a temporary file first, flushed, then put in place by one system call.
 *
 * What the memory answers (open, write, link, rename) is called synchronously; what waits for the disk (fsync) is not.
 * The calls go through the module's object, so that a test can stop the process, or the world, at each of them.
 */
import fs from "node:fs";
import { dirname } from "node:path";
import pLimit from "p-limit";
import { DefinitionWriteError, StorageFullError, TussockError, UnsafePathError } from "../errors.ts";

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
const limited = pLimit(8);

/** Begins a draft when there are few enough. Aborted while it waits, it rejects at once, and `write` never runs. */
export function inDraftTurn<R>(signal: AbortSignal | undefined, write: () => Promise<R>): Promise<R> {
  if (signal === undefined) return limited(write);
  return new Promise<R>((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    const begin = async (): Promise<R> => {
      signal.removeEventListener("abort", onAbort);
      signal.throwIfAborted();
      return write();
    };
    limited(begin).then(resolve, reject);
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
      if (flush) await sync(fd);
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

/** Removes `dir` and its parents as long as they are empty, up to `root` exclusive; returns the one that remains. */
export function removeEmptyDirectories(dir: string, root: string): string {
  let at = dir;
  while (at !== root && at.startsWith(`${root}/`)) {
    try {
      fs.rmdirSync(at);
    } catch (error) {
      if (codeOf(error) !== "ENOENT") return at;
    }
    at = at.slice(0, at.lastIndexOf("/"));
  }
  return at;
}

/**
 * The directory of `type` below `root`, made where it is missing. `changed` lists the directories that got a new entry.
 *
 * @throws UnsafePathError where a symbolic link or a file stands in the way: what is written there would not lie in the
 * root, or would not be found under this type.
 */
export function makeTypeDirectory(root: string, type: string): { dir: string; changed: string[] } {
  const changed: string[] = [];
  return writing(`${root}/${type}`, () => {
    makeDirectory(root, changed);
    let dir = root;
    for (const part of type.split("/")) {
      dir = `${dir}/${part}`;
      if (!isPlainDirectory(dir)) makeDirectory(dir, changed);
    }
    return { dir, changed };
  });
}

/** `mkdir -p`; `changed` gets the directories that have a new entry by it. */
export function makeDirectory(path: string, changed: string[]): void {
  if (fs.statSync(path, { throwIfNoEntry: false })?.isDirectory()) return;
  const parent = dirname(path);
  if (parent !== path) makeDirectory(parent, changed);
  try {
    fs.mkdirSync(path);
    changed.push(parent);
  } catch (error) {
    if (codeOf(error) !== "EEXIST" || !fs.statSync(path).isDirectory()) throw error;
  }
}

/** Whether the directory of `type` still is what {@link makeTypeDirectory} made of it. */
export function hasTypeDirectory(root: string, type: string): boolean {
  let dir = root;
  return type.split("/").every((part) => {
    dir = `${dir}/${part}`;
    return isPlainDirectory(dir);
  });
}

/** False when there is nothing. */
function isPlainDirectory(path: string): boolean {
  const stat = fs.lstatSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return false;
  if (stat.isSymbolicLink()) throw new UnsafePathError(path, "a symbolic link stands where a type's directory belongs");
  if (!stat.isDirectory()) throw new UnsafePathError(path, "a file stands where a type's directory belongs");
  return true;
}

const flushes = new Map<string, { running: Promise<void>; next: Promise<void> | null }>();

/**
 * Brings a directory's entries to the disk. All that ask while one flush runs share the next: a flush covers what was
 * done before it began.
 */
export function flushDirectory(dir: string): Promise<void> {
  const under = flushes.get(dir);
  if (under !== undefined) {
    under.next ??= under.running.catch(() => {}).then(() => startFlush(dir));
    return under.next;
  }
  return startFlush(dir);
}

function startFlush(dir: string): Promise<void> {
  const running = flushNow(dir);
  const state = { running, next: null };
  flushes.set(dir, state);
  const forget = (): void => {
    if (flushes.get(dir) === state && state.next === null) flushes.delete(dir);
  };
  running.then(forget, forget);
  return running;
}

async function flushNow(dir: string): Promise<void> {
  let fd: number;
  try {
    fd = fs.openSync(dir, "r");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return; // Removed since, and with it what was to be kept.
    throw error;
  }
  try {
    await sync(fd);
  } catch (error) {
    if (!NO_DIRECTORY_SYNC.has(codeOf(error))) throw error;
  } finally {
    fs.closeSync(fd);
  }
}

/** What file systems say that cannot flush a directory; they order its entries themselves, or not at all. */
const NO_DIRECTORY_SYNC = new Set(["EINVAL", "EBADF", "EISDIR", "ENOTSUP"]);

function sync(fd: number): Promise<void> {
  return new Promise((resolve, reject) => {
    fs.fsync(fd, (error) => (error ? reject(error) : resolve()));
  });
}

export function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException | null)?.code ?? "";
}

/** Runs `work`, and names what the system says against it. */
export function writing<R>(path: string, work: () => R): R;
export function writing<R>(path: string, work: () => Promise<R>): Promise<R>;
export function writing<R>(path: string, work: () => R | Promise<R>): R | Promise<R> {
  try {
    const result = work();
    return result instanceof Promise ? result.catch((error) => Promise.reject(named(path, error))) : result;
  } catch (error) {
    throw named(path, error);
  }
}

/** The library's error for what the system says; anything else as it is. */
export function named(path: string, error: unknown): unknown {
  const code = codeOf(error);
  if (error instanceof TussockError || !/^E[A-Z0-9]+$/.test(code)) return error;
  if (code === "ENOSPC" || code === "EDQUOT") return new StorageFullError(path, { cause: error });
  if (code === "ENAMETOOLONG") return new UnsafePathError(path, "the path is too long");
  return new DefinitionWriteError(path, code, { cause: error });
}

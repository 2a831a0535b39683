/**
 * Files that are linked to a name while it is held, and unlinked after. They are kept: ext4 passes over inodes that were
 * freed a moment ago, one by one, so that a new file for each lock costs 30 to 400 µs, and slows whoever else creates.
 */
import { closeSync, fstatSync, ftruncateSync, openSync, rmSync, writeSync } from "node:fs";

/** A file with a single name, holding a text. */
export interface Draft {
  readonly path: string;
  readonly fd: number;
  /** Closes it, and keeps it for the next. */
  giveBack(): void;
}

/** Kept for each work path: more are made when more names are held at once, and removed again. */
const KEPT = 4;

const used = new Map<string, Set<number>>();

/** `{workPath}.{n}` with the text in it. The caller holds the lock on `workPath`, so nobody else takes it meanwhile. */
export function takeDraft(workPath: string, text: string): Draft {
  const numbers = used.get(workPath) ?? new Set();
  let number = 0;
  while (numbers.has(number)) number++;
  const path = `${workPath}.${number}`;
  const fd = openSingle(path);
  try {
    writeOver(fd, text);
  } catch (error) {
    closeSync(fd);
    rmSync(path, { force: true });
    throw error;
  }
  used.set(workPath, numbers.add(number));
  const giveBack = (): void => {
    closeSync(fd);
    if (number >= KEPT) rmSync(path, { force: true });
    numbers.delete(number);
    if (numbers.size === 0) used.delete(workPath);
  };
  return { path, fd, giveBack };
}

/** Replaces the content of the file. As bytes: Deno 2.9 ignores the position of a string, and appends. */
export function writeOver(fd: number, text: string): void {
  const bytes = Buffer.from(text);
  writeSync(fd, bytes, 0, bytes.length, 0);
  if (fstatSync(fd).size > bytes.length) ftruncateSync(fd, bytes.length);
}

/** A crash may have left the file with a second name, a lock's: then that one keeps it, and a new one is made. */
function openSingle(path: string): number {
  try {
    const fd = openSync(path, "r+");
    if (fstatSync(fd).nlink === 1) return fd;
    closeSync(fd);
    rmSync(path, { force: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
  return openSync(path, "wx+", 0o666);
}

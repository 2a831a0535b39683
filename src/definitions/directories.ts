/** The directories of types: made, checked, flushed and removed. */
import fs from "node:fs";
import { KeyTable } from "../churn.ts";
import { makeDirectory } from "../directories.ts";
import { UnsafePathError } from "../errors.ts";
import { flushDescriptor } from "./write.ts";
import { codeOf, writing } from "./write-errors.ts";

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

const flushes = new KeyTable<{ running: Promise<void>; next: Promise<void> | null }>();

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
    await flushDescriptor(fd);
  } catch (error) {
    if (!NO_DIRECTORY_SYNC.has(codeOf(error))) throw error;
  } finally {
    fs.closeSync(fd);
  }
}

/** What file systems say that cannot flush a directory; they order its entries themselves, or not at all. */
const NO_DIRECTORY_SYNC = new Set(["EINVAL", "EBADF", "EISDIR", "ENOTSUP"]);

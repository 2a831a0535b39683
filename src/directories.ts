/**
 * Making directories, one step at a time: Node's own recursive mkdir never returns, and blocks its thread, where the kernel
 * says ENOENT of a parent that is there, as in `/proc` (Node 24).
 */
import fs from "node:fs";
import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";

/** `mkdir -p`; `changed` gets the directories that have a new entry by it. @throws the system's error */
export function makeDirectory(path: string, changed: string[] = []): void {
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

/** The same, off this thread. */
export async function makeDirectoryLater(path: string): Promise<void> {
  try {
    await makeOne(path);
  } catch (error) {
    const parent = dirname(path);
    if (codeOf(error) !== "ENOENT" || parent === path) throw error;
    await makeDirectoryLater(parent);
    await makeOne(path);
  }
}

async function makeOne(path: string): Promise<void> {
  try {
    await mkdir(path);
  } catch (error) {
    // A system that may not be written says so of a directory that is there, too.
    if (codeOf(error) === "ENOENT" || !(await isDirectory(path))) throw error;
  }
}

async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch {
    return false;
  }
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}

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

/** Others may remove what has just been made, again and again; a kernel that makes none says the same each time. */
const ATTEMPTS = 100;

/** The same, off this thread, and also while others remove the directories above that are empty. */
export async function makeDirectoryLater(path: string): Promise<void> {
  const parent = dirname(path);
  for (let attempt = 1; ; attempt++) {
    try {
      return await mkdir(path);
    } catch (error) {
      const code = codeOf(error);
      const found = code === "ENOENT" ? "nothing" : await look(path);
      // A file system that may not be written refuses before it says that the directory is there.
      if (found === "directory") return;
      const goes = code === "ENOENT" ? parent !== path : code === "EEXIST" && found === "nothing";
      if (!goes || attempt === ATTEMPTS) throw error;
      if (code === "ENOENT" && (await look(parent)) === "nothing") await makeDirectoryLater(parent);
    }
  }
}

async function look(path: string): Promise<"directory" | "nothing" | "something else"> {
  try {
    return (await stat(path)).isDirectory() ? "directory" : "something else";
  } catch (error) {
    return codeOf(error) === "ENOENT" ? "nothing" : "something else";
  }
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}

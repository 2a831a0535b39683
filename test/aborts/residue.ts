/** What a call may leave behind: in the process, on the disk, and elsewhere. */
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { expect } from "vitest";
import { isDeno } from "../support/spawn.ts";
import { turns } from "./call.ts";

/** How many there are of each: open descriptors by what they lead to, threads, timers that keep the process alive. */
export type Residue = Map<string, number>;

/** A worker's thread and descriptors go a moment after it was ended, as does what a shared sweep has open. */
const GOES_WITHIN_MS = 5_000;

export async function residue(elsewhere: () => Promise<string[]>): Promise<Residue> {
  const all: Residue = new Map();
  const add = (what: string): void => {
    all.set(what, (all.get(what) ?? 0) + 1);
  };
  for (const what of await elsewhere()) add(what);
  if (process.platform === "linux") {
    // A line ends with the inode where the socket has no name.
    const pairs = isDeno ? readFileSync("/proc/self/net/unix", "utf8") : "";
    for (const fd of readdirSync("/proc/self/fd")) {
      const path = pathOf(fd, pairs);
      if (path !== null) add(path);
    }
    // Deno's own threads come and go.
    if (!isDeno) for (const _ of readdirSync("/proc/self/task")) add("a thread");
  }
  for (const kind of process.getActiveResourcesInfo()) if (kind === "Timeout") add("a timer");
  return all;
}

/**
 * Null: the directory that is being read, the two that Deno keeps of each worker that loaded a native module, and the pairs
 * of sockets by which its threads wake each other.
 */
function pathOf(fd: string, pairs: string): string | null {
  try {
    const path = readlinkSync(`/proc/self/fd/${fd}`);
    const inode = /^socket:\[(\d+)\]$/.exec(path)?.[1];
    if (isDeno && inode !== undefined && pairs.includes(` ${inode}\n`)) return null;
    return isDeno && /^anon_inode:\[(eventfd|eventpoll)\]$/.test(path) ? null : path;
  } catch {
    return null;
  }
}

/** Waits until nothing is there that was not there before; fails with what stays. */
export async function expectNothingLeft(before: Residue, elsewhere: () => Promise<string[]>): Promise<void> {
  const giveUpAt = performance.now() + GOES_WITHIN_MS;
  for (;;) {
    const left = [...(await residue(elsewhere))]
      .filter(([what, count]) => count > (before.get(what) ?? 0))
      .map(([what]) => what);
    if (left.length === 0 || performance.now() > giveUpAt) {
      expect(left).toEqual([]);
      return;
    }
    await turns(10);
  }
}

/** What has come, gone or changed from one look to the next. */
export function changesBetween(before: unknown, after: unknown): string[] {
  if (isDeepStrictEqual(before, after)) return [];
  const [old = {}, now = {}] = [before, after].map((seen) => Object(seen) as Record<string, unknown>);
  const changed = Object.keys({ ...old, ...now }).filter((key) => !isDeepStrictEqual(old[key], now[key]));
  return changed.length > 0 ? changed : [`${before} has become ${after}`];
}

/** All files below a directory with their content, and all directories, which end in a slash. */
export function treeOf(dir: string): Record<string, string> {
  const tree: Record<string, string> = {};
  if (!existsSync(dir)) return tree;
  for (const entry of readdirSync(dir, { withFileTypes: true, recursive: true })) {
    const path = join(entry.parentPath, entry.name);
    const name = path.slice(dir.length + 1);
    if (entry.isDirectory()) tree[`${name}/`] = "";
    else tree[name] = readFileSync(path, "utf8");
  }
  return tree;
}

/** The environments that this process owns: shared by everybody in it who opens the same one, and counted. */
import { statSync } from "node:fs";
import { join } from "node:path";
import type { RootDatabase } from "lmdb";
import { DATA_FILE } from "./shared.ts";
import { writeEndedSession } from "./side-files.ts";
import type { Slot } from "./slots.ts";

export interface Opened {
  readonly dir: string;
  /** The description of the environment: only who wants the very same shares it. */
  readonly key: string;
  readonly share: boolean;
  readonly slot: Slot;
  readonly root: RootDatabase;
  /** Device and inode of the data file when it was opened. */
  readonly file: string | null;
  handles: number;
  condemned: boolean;
  /** While the last handle is being closed. Never rejects. */
  closing: Promise<void> | null;
}

/** On globalThis: two copies of the library in one process must not wait for each other's lock. */
const KEY = Symbol.for("tussock.environments.1");

function registry(): Set<Opened> {
  const global = globalThis as { [KEY]?: Set<Opened> };
  global[KEY] ??= new Set();
  return global[KEY];
}

/** One that can be shared, else one that is just being closed and worth waiting for. */
export function openedIn(dir: string, key: string, share: boolean): Opened | undefined {
  const same = [...registry()].filter((opened) => opened.dir === dir && opened.key === key);
  const usable = (opened: Opened): boolean => opened.share && !opened.condemned && isStillThere(opened);
  const open = share ? same.find((opened) => opened.closing === null && usable(opened)) : undefined;
  return open ?? same.find((opened) => opened.closing !== null);
}

export function isStillThere({ slot, file }: Opened): boolean {
  return identify(slot.path) === file;
}

/** The data file of the environment at `path`, null when there is none. */
export function identify(path: string): string | null {
  const stat = statSync(join(path, DATA_FILE), { bigint: true, throwIfNoEntry: false });
  return stat === undefined ? null : `${stat.dev}:${stat.ino}`;
}

export function addOpened(opened: Opened): void {
  if (registry().size === 0) process.on("exit", onExit).on("uncaughtExceptionMonitor", onCrash);
  registry().add(opened);
}

export function removeOpened(opened: Opened): void {
  registry().delete(opened);
  if (registry().size === 0) process.off("exit", onExit).off("uncaughtExceptionMonitor", onCrash);
}

let crashed = false;

function onCrash(): void {
  crashed = true;
}

/**
 * A process that ends without closing has still ended in order: lmdb flushes and closes at exit as well. But an
 * exception that nobody caught may have come from a damaged page, and would come again.
 */
function onExit(): void {
  if (crashed) return;
  for (const { slot, condemned } of registry()) {
    if (condemned) continue;
    try {
      writeEndedSession(slot.path);
    } catch {
      // The directory is gone, or the disk is full: counted as an unclean end, which is safe.
    }
  }
}

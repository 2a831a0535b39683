/**
 * The directory of an index: a few slots, each a whole environment with a lock beside it.
 *
 * ```
 * {dir}/.nosync, CACHEDIR.TAG      "do not sync", "do not back up"
 * {dir}/0.lock                     held by the process that owns slot 0
 * {dir}/0/                         data.mdb, lock.mdb, environment.json, session.json
 * {dir}/temporary-{uuid}[.lock]    of a process that found every slot taken
 * {dir}/0.aside-{milliseconds}/    the last environment that could not be used
 * ```
 */
import { readdirSync, realpathSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { makeDirectory } from "../directories.ts";
import { type FileLock, tryFileLock } from "../lock/file-lock.ts";
import { areOurs } from "./side-files.ts";

export interface Slot {
  readonly number: number | "temporary";
  /** The environment's directory; it need not exist yet. */
  readonly path: string;
  readonly lock: FileLock;
}

const ASIDE = /\.aside-(\d+)$/;
const TEMPORARY = /^temporary-[0-9a-f-]{36}$/;
const LOCK = ".lock";

/** A sync service that meets this file should leave the directory alone: the index is of this machine only. */
export const NO_SYNC_FILE = ".nosync";

/** https://bford.info/cachedir/ */
const CACHE_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# A cache: it can be deleted at any time.\n";

/** Makes the directory and its markers; returns its real path. */
export function prepareDirectory(dir: string): string {
  makeDirectory(dir);
  writeIfAbsent(join(dir, NO_SYNC_FILE), "A cache of this machine: do not sync it. It can be deleted at any time.\n");
  writeIfAbsent(join(dir, "CACHEDIR.TAG"), CACHE_TAG);
  return realpathSync(dir);
}

/**
 * A slot that nobody holds: the first that `suits`, else the first, else a temporary one. Who came for one thing does
 * not take the place of who comes for another and is away just now.
 */
export function takeSlot(dir: string, slots: number, suits: (path: string) => boolean): Slot {
  const numbers = Array.from({ length: slots }, (_, number) => number);
  const suiting = numbers.filter((number) => suits(join(dir, String(number))));
  for (const number of [...suiting, ...numbers]) {
    const path = join(dir, String(number));
    const lock = tryFileLock(path + LOCK);
    if (lock !== null) return { number, path, lock };
  }
  removeAbandoned(dir);
  for (;;) {
    const path = join(dir, `temporary-${crypto.randomUUID()}`);
    const lock = tryFileLock(path + LOCK); // Null when somebody took it for abandoned before we had locked it.
    if (lock !== null) return { number: "temporary", path, lock };
  }
}

/** Gives the slot back; a temporary one leaves nothing. The environment must be closed. */
export function releaseSlot(slot: Slot): void {
  if (slot.number === "temporary") removeLocked(slot.path);
  slot.lock.release();
}

/** Temporary slots whose process has died. */
function removeAbandoned(dir: string): void {
  for (const name of readdirSync(dir)) {
    const path = join(dir, name.endsWith(LOCK) ? name.slice(0, -LOCK.length) : name);
    if (!TEMPORARY.test(path.slice(dir.length + 1))) continue;
    const lock = tryFileLock(path + LOCK);
    if (lock === null) continue;
    removeLocked(path);
    lock.release();
  }
}

function removeLocked(path: string): void {
  rmSync(path, { recursive: true, force: true });
  rmSync(path + LOCK, { force: true });
}

/** Moves what lies at the slot's path out of the way, so that nothing is lost that a person may want to look at. */
export function setAside(slot: Slot): void {
  if (slot.number === "temporary") {
    rmSync(slot.path, { recursive: true, force: true });
    return;
  }
  for (let stamp = Date.now(); ; stamp++) {
    try {
      renameSync(slot.path, `${slot.path}.aside-${stamp}`);
      return;
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code;
      if (code !== "EEXIST" && code !== "ENOTEMPTY" && code !== "ENOTDIR") throw error;
    }
  }
}

/**
 * Keeps the newest of what was set aside: an index that breaks again and again must not fill the disk. What somebody else
 * has made is for nobody here to remove.
 */
export async function removeOldAsides(dir: string): Promise<void> {
  const stampOf = (name: string): number => Number(ASIDE.exec(name)?.[1] ?? Number.NaN);
  const asides = readdirSync(dir, { withFileTypes: true })
    .filter((entry) => ASIDE.test(entry.name) && entry.isDirectory() && areOurs(readdirSync(join(dir, entry.name))))
    .map(({ name }) => name);
  asides.sort((a, b) => stampOf(b) - stampOf(a));
  for (const name of asides.slice(1)) await rm(join(dir, name), { recursive: true, force: true });
}

function writeIfAbsent(path: string, text: string): void {
  try {
    writeFileSync(path, text, { flag: "wx" });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

/** Lists one directory of definitions. */
import { type Dirent, readdirSync } from "node:fs";
import { DefinitionReadError } from "../errors.ts";
import { errnoOf } from "../permissions.ts";
import { sortByBytes } from "./order.ts";
import { readStamp, STAMP_BYTES, stampSize } from "./stamp.ts";

export const DEFINITION_SUFFIX = ".yaml";

/** What a directory holds. */
export interface Listing {
  /** All `*.yaml` that are not directories: files, symbolic links, and whatever else will be a problem. */
  files: string[];
  /** Those of `files` that are not known to be regular files: symbolic links above all. */
  special: string[];
  /** Sub-directories; symbolic links to directories are not among them. */
  directories: string[];
  /** `*.yaml` and directories whose name is not UTF-8, with U+FFFD in place of what is wrong: no path leads to them. */
  badFilenames: string[];
}

/**
 * One `readdir`, in byte order of name. A directory that has gone is `"absent"`; so is one that has become a file.
 *
 * @throws DefinitionReadError for every other failure: absence is only ever concluded from a listing that succeeded
 */
export function listDirectory(dir: string): Listing | "absent" {
  const sorter = new EntrySorter(dir);
  try {
    for (const entry of readdirSync(dir, { withFileTypes: true })) sorter.add(entry);
  } catch (error) {
    if (isGone(error)) return "absent";
    throw asReadError(dir, error);
  }
  const { listing } = sorter;
  return {
    files: withoutRepeats(sortByBytes(listing.files)),
    special: withoutRepeats(sortByBytes(listing.special)),
    directories: withoutRepeats(sortByBytes(listing.directories)),
    badFilenames: withoutRepeats(sortByBytes(listing.badFilenames)),
  };
}

/** A name that is given up and taken again while it is listed may be listed twice (POSIX leaves it open); two that are not UTF-8 may read alike. */
function withoutRepeats(sorted: string[]): string[] {
  return sorted.some((name, at) => name === sorted[at - 1]) ? [...new Set(sorted)] : sorted;
}

/** A directory of several thousand names, in most file systems. */
const LARGE_BYTES = 128 * 1024;

/** Whether the directory with this stamp holds so many names that listing it, or watching it, takes its time. */
export function isLarge(stamp: Uint8Array): boolean {
  return stampSize(stamp, 0) > LARGE_BYTES;
}

/** The same of what lies at a path; false where no directory does. */
export function isLargeDirectory(dir: string, followLink: boolean): boolean {
  return readStamp(dir, followLink, scratch, 0) === "directory" && isLarge(scratch);
}

/** Sorts the entries of one directory by what they are, as they come. */
export class EntrySorter {
  readonly listing: Listing = { files: [], special: [], directories: [], badFilenames: [] };
  readonly #dir: string;
  readonly #doubtful = new Set<string>();

  constructor(dir: string) {
    this.#dir = dir;
  }

  add(entry: Dirent): void {
    const { name } = entry;
    const { listing } = this;
    const isDirectory = entry.isDirectory();
    if (!isDirectory && !name.endsWith(DEFINITION_SUFFIX)) return;
    if (name.includes("\ufffd") && this.#isBad(name)) {
      listing.badFilenames.push(name);
    } else if (isDirectory) {
      listing.directories.push(name);
    } else {
      listing.files.push(name);
      if (!entry.isFile()) listing.special.push(name);
    }
  }

  /** Either U+FFFD is the name's own, or it stands for bytes that are not UTF-8; then this name leads nowhere, or elsewhere. */
  #isBad(name: string): boolean {
    if (this.#doubtful.has(name)) return true;
    this.#doubtful.add(name);
    return readStamp(`${this.#dir}/${name}`, false, scratch, 0) === "absent";
  }
}

const scratch = new Uint8Array(STAMP_BYTES);

export function isGone(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException).code;
  return code === "ENOENT" || code === "ENOTDIR";
}

export function asReadError(path: string, error: unknown): unknown {
  if (error instanceof DefinitionReadError) return error;
  const errno = errnoOf(error);
  return errno === "UNKNOWN" ? error : new DefinitionReadError(path, errno, { cause: error });
}

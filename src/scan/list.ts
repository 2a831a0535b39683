/** Lists one directory of definitions. */
import { type Dirent, readdirSync } from "node:fs";
import { DefinitionReadError } from "../errors.ts";
import { sortByBytes } from "./order.ts";
import { readStamp, STAMP_BYTES } from "./stamp.ts";

export const DEFINITION_SUFFIX = ".yaml";

/** What a directory holds, in byte order of name. */
export interface Listing {
  /** All `*.yaml` that are not directories: files, symbolic links, and whatever else will be a problem. */
  files: string[];
  /** Those of `files` that are symbolic links. */
  symlinks: string[];
  /** Sub-directories; symbolic links to directories are not among them. */
  directories: string[];
  /** `*.yaml` and directories whose name is not UTF-8, with U+FFFD in place of what is wrong: no path leads to them. */
  badFilenames: string[];
}

/**
 * One `readdir`. A directory that has gone is `"absent"`; so is one that has become a file.
 *
 * @throws DefinitionReadError for every other failure: absence is only ever concluded from a listing that succeeded
 */
export function listDirectory(dir: string): Listing | "absent" {
  const entries = readEntries(dir);
  if (entries === null) return "absent";
  const listing: Listing = { files: [], symlinks: [], directories: [], badFilenames: [] };
  let doubtful: Set<string> | null = null;
  for (const entry of entries) {
    const { name } = entry;
    const isDirectory = entry.isDirectory();
    if (!isDirectory && !name.endsWith(DEFINITION_SUFFIX)) continue;
    if (name.includes("\ufffd")) {
      // Either the name's own, or in place of bytes that are not UTF-8; then nothing, or something else, has this name.
      doubtful ??= new Set();
      if (doubtful.has(name) || readStamp(`${dir}/${name}`, false, scratch, 0) === "absent") {
        listing.badFilenames.push(name);
        continue;
      }
      doubtful.add(name);
    }
    if (isDirectory) {
      listing.directories.push(name);
    } else {
      listing.files.push(name);
      if (entry.isSymbolicLink()) listing.symlinks.push(name);
    }
  }
  sortByBytes(listing.files);
  sortByBytes(listing.symlinks);
  sortByBytes(listing.directories);
  sortByBytes(listing.badFilenames);
  return listing;
}

const scratch = new Uint8Array(STAMP_BYTES);

function readEntries(dir: string): Dirent[] | null {
  try {
    return readdirSync(dir, { withFileTypes: true });
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "UNKNOWN";
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw new DefinitionReadError(dir, code, { cause: error });
  }
}

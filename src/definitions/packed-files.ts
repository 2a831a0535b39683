/**
 * Files as the index stores them, packed end to end in one piece of memory: what one thread has read changes hands as it is,
 * and the one that writes makes no object for any of them.
 */
import { fileKey, isWhole, relativePath } from "./keys.ts";
import { Scratch } from "./packing.ts";
import { listedName } from "./reconcile.ts";
import { type FileRecord, mostBytes, writeCandidate, writeFile, writePlace } from "./records.ts";

/** Of each file, one behind the other: its key in `files`, and its records in `files`, `names` and `ids`. An empty one is none. */
export const KEY = 0;
export const FILE = 1;
export const CANDIDATE = 2;
export const PLACE = 3;
const PARTS = 4;

export interface PackedFiles {
  bytes: Buffer;
  /** Where the parts of each file begin; last, the end of all. */
  starts: Uint32Array;
}

export function countOf({ starts }: PackedFiles): number {
  return (starts.length - 1) / PARTS;
}

export function startOf({ starts }: PackedFiles, file: number, part: number): number {
  return starts[file * PARTS + part] as number;
}

export function endOf({ starts }: PackedFiles, file: number, part: number): number {
  return starts[file * PARTS + part + 1] as number;
}

/** What most definitions take; more is made room for. */
const BYTES_PER_FILE = 1024;

export class FilePacker {
  readonly #to: Scratch;
  readonly #starts: Uint32Array;
  #count = 0;

  /** `most`: how many files will come at most. */
  constructor(most: number) {
    this.#to = new Scratch(most * BYTES_PER_FILE);
    this.#starts = new Uint32Array(most * PARTS + 1);
  }

  add(file: FileRecord): void {
    const { filename } = file;
    const relative = relativePath(file.type, filename);
    const whole = isWhole(relative);
    // All of it lies in one piece: it is reserved at once.
    const to = this.#to;
    const bytes = to.reserve(mostBytes(file, relative));
    const starts = this.#starts;
    let part = this.#count++ * PARTS;
    starts[part++] = to.at;
    if (whole) {
      bytes[to.at] = file.root;
      to.at += 1 + bytes.write(relative, to.at + 1, "utf8");
    } else {
      to.at += fileKey(file.root, relative).copy(bytes, to.at);
    }
    starts[part++] = to.at;
    writeFile(to, file, whole ? null : relative);
    starts[part++] = to.at;
    if (listedName(file, filename) !== null) writeCandidate(to, file);
    starts[part++] = to.at;
    if (file.kind === "entry") writePlace(to, file.root, filename, file.name, file.id);
    starts[part] = to.at;
  }

  /** All that was added; nothing may be added after. */
  take(): PackedFiles {
    return { bytes: this.#to.end(), starts: this.#starts.slice(0, this.#count * PARTS + 1) };
  }
}

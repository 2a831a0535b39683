/** The work of a scan in pieces that either thread can do: list one directory, or examine some files of one. */
import { opendirSync } from "node:fs";
import { type ExaminedEntry, type ExamineOptions, examineFile } from "./examine.ts";
import { asReadError, EntrySorter, isGone } from "./list.ts";
import { STAMP_BYTES } from "./stamp.ts";

export interface Task {
  dir: string;
  /** Filenames, with `/` between them: one string crosses threads at the cost of a copy. Null: list the directory. */
  names: string | null;
  /** The listing has them as regular files. */
  regular: boolean;
}

export type TaskResult = Listed | Batch;

export interface Listed {
  /** Each the `names` of a task: regular files, and whatever else. */
  chunks: string[];
  special: string[];
  /** In all of them. */
  files: number;
  directories: string[];
  badFilenames: string[];
  /** The directory was gone before it could be listed. */
  vanished: boolean;
}

/** What came of the files of one task, in columns. */
export interface Batch {
  /** One of the kinds below for each name. */
  kinds: Uint8Array;
  /** A stamp for each name. */
  stamps: Uint8Array;
  /** One after the other: of an entry what {@link packEntry} says, of a problem its kind, message, line and column. */
  values: unknown[];
}

/** What a task that is ended early has come to. */
export const EMPTY: Batch = { kinds: new Uint8Array(0), stamps: new Uint8Array(0), values: [] };

export const SKIPPED = 0;
export const ENTRY = 1;
export const PROBLEM = 2;
export const DEFERRED = 3;
export const VANISHED = 4;

/** About a millisecond of work: short enough to be thrown away, long enough to be worth a message. */
const CHUNK_FILES = 256;

/** Does the work and stops for breath after each small step; ended early, it leaves nothing open. */
export function runTask(task: Task, options: ExamineOptions): Generator<undefined, TaskResult> {
  return task.names === null ? list(task.dir) : examine(task.dir, task.names.split("/"), task.regular, options);
}

function* list(dir: string): Generator<undefined, Listed> {
  const sorter = new EntrySorter(dir);
  const { files, special, directories, badFilenames } = sorter.listing;
  try {
    // Not readdir: that cannot stop for breath in a large directory.
    const handle = opendirSync(dir, { bufferSize: 1024 });
    try {
      for (let entry = handle.readSync(); entry !== null; entry = handle.readSync()) {
        sorter.add(entry);
        yield;
      }
    } finally {
      handle.closeSync();
    }
  } catch (error) {
    if (!isGone(error)) throw asReadError(dir, error);
    return { chunks: [], special: [], files: 0, directories: [], badFilenames: [], vanished: true };
  }
  const specials = new Set(special);
  const regular = special.length === 0 ? files : files.filter((name) => !specials.has(name));
  return {
    chunks: inChunks(regular),
    special: inChunks(special),
    files: files.length,
    directories,
    badFilenames,
    vanished: false,
  };
}

function inChunks(names: readonly string[]): string[] {
  const chunks: string[] = [];
  for (let at = 0; at < names.length; at += CHUNK_FILES) chunks.push(names.slice(at, at + CHUNK_FILES).join("/"));
  return chunks;
}

function* examine(
  dir: string,
  names: readonly string[],
  regular: boolean,
  options: ExamineOptions,
): Generator<undefined, Batch> {
  const kinds = new Uint8Array(names.length);
  const stamps = new Uint8Array(names.length * STAMP_BYTES);
  const values: unknown[] = [];
  for (const [i, name] of names.entries()) {
    const examined = examineFile(`${dir}/${name}`, options, regular);
    switch (examined.kind) {
      case "entry":
        kinds[i] = ENTRY;
        stamps.set(examined.stamp, i * STAMP_BYTES);
        packEntry(examined, options, values);
        break;
      case "problem":
        kinds[i] = PROBLEM;
        stamps.set(examined.stamp, i * STAMP_BYTES);
        values.push(examined.problemKind, examined.message, examined.line, examined.column);
        break;
      case "deferred":
        kinds[i] = DEFERRED;
        break;
      case "absent":
        kinds[i] = VANISHED;
        break;
      case "directory":
        kinds[i] = SKIPPED;
    }
    yield;
  }
  return { kinds, stamps, values };
}

/** Its id, name and declared type, and with documents the JSON of its document or, where that is null, the document. */
function packEntry(entry: ExaminedEntry, options: ExamineOptions, into: unknown[]): void {
  into.push(entry.id, entry.name, entry.declaredType);
  if (!options.documents) return;
  into.push(entry.documentJson);
  if (entry.documentJson === null) into.push(entry.document);
}

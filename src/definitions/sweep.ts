/** Compares a type's directories with the index, file by file, and mends the index. Runs on whichever thread has the time. */
import { DefinitionReadError } from "../errors.ts";
import { type ExamineOptions, examineFile } from "../scan/examine.ts";
import { listDirectory } from "../scan/list.ts";
import { compareUtf8 } from "../scan/order.ts";
import { isRacyStamp, readStamp, STAMP_BYTES, sameStamp, wallClockNs } from "../scan/stamp.ts";
import { BulkLoad } from "./bulk-load.ts";
import { readDirectory, type UnknownDirectory } from "./bulk-read.ts";
import { fileKey, relativePath } from "./keys.ts";
import { type CountChange, type FilePlace, reconcile } from "./reconcile.ts";
import { FILE_STAMP_AT, type FileRecord, isRacyFile, isSymlinkFile } from "./records.ts";
import type { DefinitionStore, StoredFile } from "./store.ts";

export interface SweepTarget {
  type: string;
  typeId: number;
  /** The type's directory in each root; null where there is known to be none. */
  dirs: readonly (string | null)[];
}

/** A directory as it was when it was listed. */
export interface ListedDirectory {
  /** Taken before the listing: a change during it changes the stamp. */
  stamp: Uint8Array;
  /** The stamp was too young to prove anything later. */
  racy: boolean;
  directories: string[];
  /** Valid definitions in it. */
  count: number;
}

export interface SweepResult {
  /** Per root; null where there is no such directory. */
  dirs: (ListedDirectory | null)[];
  symlinks: { root: number; filename: string }[];
  unreadable: UnreadableFile[];
  /** Files that only the caller's own parser can judge. */
  deferred: { root: number; filename: string }[];
  files: number;
  read: number;
  changed: number;
  removed: number;
  problems: number;
}

export interface UnreadableFile {
  root: number;
  filename: string;
  path: string;
  errno: string;
}

/** Lets other work in: `due` is asked often and must cost nothing; `pause` commits and yields. */
export interface Breather {
  due(): boolean;
  pause(): Promise<void>;
}

export interface SweepOptions {
  signal?: AbortSignal;
  onFiles?: (files: number, read: number) => void;
}

/** What came of one file. */
export type Outcome = "unchanged" | "changed" | "removed" | "problem";

export interface Applied {
  outcome: Outcome;
  read: boolean;
  symlink: boolean;
  count: CountChange;
  /** The caller's own parser must judge this file. */
  deferred: boolean;
}

/**
 * Looks at one file and brings the index in line with it; reads it only where its stamp has changed or is too young.
 * Throws DefinitionReadError when the disk is at fault; the index then stays as it was.
 */
export function applyFile(store: DefinitionStore, place: FilePlace, dir: string, options: ExamineOptions): Applied {
  return applyStored(
    store,
    place,
    dir,
    options,
    store.files.peek(fileKey(place.root, relativePath(place.type, place.filename))),
  );
}

const scratch = new Uint8Array(STAMP_BYTES);

function applyStored(
  store: DefinitionStore,
  place: FilePlace,
  dir: string,
  options: ExamineOptions,
  stored: Buffer | undefined,
): Applied {
  const path = `${dir}/${place.filename}`;
  if (stored !== undefined && !isRacyFile(stored) && !isSymlinkFile(stored)) {
    const kind = readStamp(path, false, scratch, 0);
    if (kind === "file" && sameStamp(stored, FILE_STAMP_AT, scratch, 0)) return UNCHANGED;
  }
  const known = stored !== undefined;
  const examined = examineFile(path, options);
  if (examined.kind === "absent" || examined.kind === "directory") {
    // A link to a directory may come to lead to a file.
    const symlink = examined.kind === "directory";
    if (!known) return { ...UNCHANGED, symlink };
    return { outcome: "removed", read: false, symlink, deferred: false, count: reconcile(store, place, null) };
  }
  if (examined.kind === "deferred") return { ...UNCHANGED, deferred: true };
  const file: FileRecord = { ...examined, root: place.root, type: place.type, filename: place.filename };
  const count = reconcile(store, place, file);
  const outcome = examined.kind === "problem" ? "problem" : "changed";
  return { outcome, read: true, symlink: examined.symlink, deferred: false, count };
}

const UNCHANGED: Applied = { outcome: "unchanged", read: false, symlink: false, deferred: false, count: 0 };

export function emptySweepResult(): SweepResult {
  return {
    dirs: [],
    symlinks: [],
    unreadable: [],
    deferred: [],
    files: 0,
    read: 0,
    changed: 0,
    removed: 0,
    problems: 0,
  };
}

/** One full comparison of a type. Aborted, it leaves the index right as far as it came. */
export async function sweepType(
  store: DefinitionStore,
  target: SweepTarget,
  options: ExamineOptions,
  breather: Breather,
  o: SweepOptions = {},
): Promise<SweepResult> {
  const result = emptySweepResult();
  for (let root = 0; root < target.dirs.length; root++) {
    result.dirs.push(await sweepDirectory(store, target, root, options, breather, result, o));
  }
  await breather.pause();
  return result;
}

async function sweepDirectory(
  store: DefinitionStore,
  target: SweepTarget,
  root: number,
  options: ExamineOptions,
  breather: Breather,
  result: SweepResult,
  o: SweepOptions,
): Promise<ListedDirectory | null> {
  const dir = target.dirs[root] ?? null;
  const stamp = new Uint8Array(STAMP_BYTES);
  const listedAt = wallClockNs();
  // Not followed: a type's directory is never reached through a symbolic link; only a root may be one.
  const present = dir !== null && readStamp(dir, target.type === "", stamp, 0) === "directory";
  const listing = present ? listDirectory(dir) : "absent";
  const names = listing === "absent" ? [] : listing.files;
  const special = new Set(listing === "absent" ? [] : listing.special);
  const listed: ListedDirectory = {
    stamp,
    racy: isRacyStamp(stamp, 0, listedAt),
    directories: listing === "absent" ? [] : listing.directories,
    count: 0,
  };

  const visit = (filename: string, stored: StoredFile | null): void => {
    const place: FilePlace = { root, type: target.type, typeId: target.typeId, filename };
    result.files++;
    try {
      const applied =
        dir === null
          ? { ...UNCHANGED, outcome: "removed" as const, count: reconcile(store, place, null) }
          : applyStored(store, place, dir, options, stored?.value);
      if (applied.read) result.read++;
      if (applied.deferred) result.deferred.push({ root, filename });
      if (applied.symlink) result.symlinks.push({ root, filename });
      if (applied.outcome === "changed") result.changed++;
      else if (applied.outcome === "removed") result.removed++;
      else if (applied.outcome === "problem") result.problems++;
      const was = stored !== null && stored.value[0] === 0 ? 1 : 0;
      listed.count += was + applied.count;
    } catch (error) {
      if (!(error instanceof DefinitionReadError)) throw error;
      reconcile(store, place, null);
      result.unreadable.push({ root, filename, path: error.path, errno: error.errno });
    }
  };

  const bad = new Set(listing === "absent" ? [] : listing.badFilenames);
  for (const filename of bad)
    reconcile(
      store,
      { root, type: target.type, typeId: target.typeId, filename },
      badFilename(root, target.type, filename),
    );

  // Both lists are in byte order: whatever only one of them has, came or went.
  const stored = new StoredPages(store, root, target.type === "" ? "" : `${target.type}/`);
  let at = 0;
  let old = stored.next();
  if (old === null && dir !== null && names.length >= BULK_FILES) {
    await breather.pause();
    const load = new BulkLoad(store, {
      root,
      type: target.type,
      typeId: target.typeId,
      files: names.length,
      alone: isUnknown(store, target),
    });
    const directory: UnknownDirectory = { dir, root, type: target.type, names, special };
    listed.count = await readDirectory(directory, load, options, result, () =>
      breather.due() ? breathe(breather, result, o) : null,
    );
    at = names.length;
  }
  while (old !== null || at < names.length) {
    if (breather.due()) await breathe(breather, result, o);
    const filename = names[at];
    const order =
      old === null ? 1 : filename === undefined ? -1 : compareUtf8(old.relative.slice(stored.prefix.length), filename);
    if (order < 0 && old !== null) {
      const gone = old.relative.slice(stored.prefix.length);
      if (!bad.has(gone)) visit(gone, old);
      old = stored.next();
    } else if (filename !== undefined) {
      visit(filename, order === 0 ? old : null);
      at++;
      if (order === 0) old = stored.next();
    }
  }
  return listing === "absent" ? null : listed;
}

/** From this many new files on, the order in which they are written matters. */
const BULK_FILES = 512;

async function breathe(breather: Breather, result: SweepResult, o: SweepOptions): Promise<void> {
  await breather.pause();
  o.signal?.throwIfAborted();
  o.onFiles?.(result.files, result.read);
}

/** Nothing of the type is in the index, in any root. */
function isUnknown(store: DefinitionStore, { type, dirs }: SweepTarget): boolean {
  const prefix = type === "" ? "" : `${type}/`;
  return dirs.every((_, root) => store.filesUnder(root, prefix, { limit: 1, nested: false }).length === 0);
}

function badFilename(root: number, type: string, filename: string): FileRecord {
  return {
    kind: "problem",
    problemKind: "bad-filename",
    message: "the file's name is not UTF-8; rename it",
    line: 0,
    column: 0,
    root,
    type,
    filename,
    stamp: new Uint8Array(STAMP_BYTES),
    symlink: false,
    racy: false,
  };
}

/** The stored files of one directory, a page at a time; what is swept meanwhile lies behind. */
class StoredPages {
  readonly prefix: string;
  readonly #store: DefinitionStore;
  readonly #root: number;
  #page: StoredFile[] = [];
  #at = 0;
  #done = false;

  constructor(store: DefinitionStore, root: number, prefix: string) {
    this.prefix = prefix;
    this.#store = store;
    this.#root = root;
  }

  next(): StoredFile | null {
    if (this.#at === this.#page.length && !this.#done) {
      const after = this.#page.at(-1)?.relative;
      this.#page = this.#store.filesUnder(this.#root, this.prefix, {
        ...(after === undefined ? {} : { after }),
        limit: PAGE,
        nested: false,
      });
      this.#at = 0;
      this.#done = this.#page.length < PAGE;
    }
    return this.#page[this.#at++] ?? null;
  }
}

const PAGE = 1000;

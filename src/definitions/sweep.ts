/** Compares a type's directories with the index, file by file, and mends the index. Runs on whichever thread has the time. */
import { DefinitionReadError } from "../errors.ts";
import { type ExamineOptions, examineFile } from "../scan/examine.ts";
import { isLarge, type Listing, listDirectory } from "../scan/list.ts";
import { compareUtf8 } from "../scan/order.ts";
import { isRacyStamp, readStamp, STAMP_BYTES, sameStamp, wallClockNs } from "../scan/stamp.ts";
import { readDirectory } from "./bulk-read.ts";
import { fileKey, relativePath } from "./keys.ts";
import { type FilesSeen, type LookTask, lookAtFiles } from "./reader-work.ts";
import { type CountChange, type FilePlace, reconcile } from "./reconcile.ts";
import { FILE_STAMP_AT, type FileRecord, isEntryFile, isRacyFile, isSymlinkFile } from "./records.ts";
import { SecondReader } from "./second-reader.ts";
import { Shares } from "./shares.ts";
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

export interface SweepBreather extends Breather {
  /** Nobody has other work for this thread than what its engine is asked for: it may sleep, and hold a transaction. */
  readonly hasThread: boolean;
  /** Somebody else waits for the thread, so that what holds it had better end soon. */
  isAwaited(): boolean;
  /** So many new files are worth a commit. */
  readonly filesPerCommit: number;
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
 * Looks at one file and brings the index in line with it; reads it only where its stamp has changed or is too young, or
 * where it is known to have been `written` to.
 * Throws DefinitionReadError when the disk is at fault; the index then stays as it was.
 */
export function applyFile(
  store: DefinitionStore,
  place: FilePlace,
  dir: string,
  options: ExamineOptions,
  written: boolean,
): Applied {
  return applyStored(
    store,
    place,
    dir,
    options,
    store.files.peek(fileKey(place.root, relativePath(place.type, place.filename))),
    written,
  );
}

const scratch = new Uint8Array(STAMP_BYTES);

/** A look at the file that was taken before: by whichever thread, since the sweep began. */
interface Seen {
  stamps: Uint8Array;
  offset: number;
  isFile: boolean;
}

function applyStored(
  store: DefinitionStore,
  place: FilePlace,
  dir: string,
  options: ExamineOptions,
  stored: Buffer | undefined,
  written: boolean,
  seen?: Seen,
): Applied {
  const path = `${dir}/${place.filename}`;
  if (!written && stored !== undefined && !isRacyFile(stored) && !isSymlinkFile(stored)) {
    const isFile = seen?.isFile ?? readStamp(path, false, scratch, 0) === "file";
    if (isFile && sameStamp(stored, FILE_STAMP_AT, seen?.stamps ?? scratch, seen?.offset ?? 0)) return UNCHANGED;
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
  breather: SweepBreather,
  o: SweepOptions = {},
): Promise<SweepResult> {
  const result = emptySweepResult();
  for (let root = 0; root < target.dirs.length; root++) {
    const sweep = new DirectorySweep(store, target, root, { options, breather, result, callbacks: o });
    result.dirs.push(await sweep.run());
  }
  await breather.pause();
  return result;
}

/** Compares one directory, as it is listed now, with what is stored of it. */
class DirectorySweep {
  readonly #store: DefinitionStore;
  readonly #target: SweepTarget;
  readonly #root: number;
  readonly #dir: string | null;
  readonly #options: ExamineOptions;
  readonly #breather: SweepBreather;
  readonly #result: SweepResult;
  readonly #callbacks: SweepOptions;

  constructor(
    store: DefinitionStore,
    target: SweepTarget,
    root: number,
    o: { options: ExamineOptions; breather: SweepBreather; result: SweepResult; callbacks: SweepOptions },
  ) {
    this.#store = store;
    this.#target = target;
    this.#root = root;
    this.#dir = target.dirs[root] ?? null;
    this.#options = o.options;
    this.#breather = o.breather;
    this.#result = o.result;
    this.#callbacks = o.callbacks;
  }

  async run(): Promise<ListedDirectory | null> {
    const { type } = this.#target;
    const dir = this.#dir;
    const stamp = new Uint8Array(STAMP_BYTES);
    const listedAt = wallClockNs();
    // Not followed: a type's directory is never reached through a symbolic link; only a root may be one.
    const present = dir !== null && readStamp(dir, type === "", stamp, 0) === "directory";
    const prefix = type === "" ? "" : `${type}/`;
    const isNew = this.#store.filesUnder(this.#root, prefix, { limit: 1, nested: false }).length === 0;
    // It comes up while the directory is listed.
    const second = present && isLarge(stamp) ? this.#startSecond() : null;
    try {
      const listing = present ? listDirectory(dir) : "absent";
      const { files, directories, badFilenames } = listing === "absent" ? NOTHING : listing;
      // One that has the name of another on paper is not told apart from it.
      const called = badFilenames.length === 0 ? null : new Set(files);
      for (const filename of badFilenames) {
        if (called?.has(filename) !== true) this.#reconcile(filename, badFilename(this.#root, type, filename));
      }
      const count =
        listing !== "absent" && dir !== null && isNew && files.length >= BULK_FILES
          ? await this.#readNew(dir, listing, second)
          : await this.#compare(listing === "absent" ? NOTHING : listing, prefix, second);
      return listing === "absent" ? null : { stamp, racy: isRacyStamp(stamp, 0, listedAt), directories, count };
    } finally {
      await second?.stop();
    }
  }

  #startSecond(): SecondReader | null {
    return this.#breather.hasThread ? SecondReader.start(this.#options) : null;
  }

  /** The number of valid definitions; so does {@link DirectorySweep.#compare}. */
  #readNew(dir: string, { files, special }: Listing, second: SecondReader | null): Promise<number> {
    const { type, typeId } = this.#target;
    const breather = this.#breather;
    return readDirectory(
      { dir, root: this.#root, type, typeId, names: files, special: new Set(special) },
      {
        store: this.#store,
        examine: this.#options,
        // Not every file system tells how large a directory is.
        second: second ?? (files.length >= FILES_WORTH_A_THREAD ? this.#startSecond() : null),
        result: this.#result,
        readWithin: breather.hasThread,
        isAwaited: () => breather.isAwaited(),
        filesPerCommit: breather.filesPerCommit,
        isPauseDue: () => breather.due(),
        pause: () => this.#breathe(),
      },
    );
  }

  async #compare(listing: Listing, prefix: string, second: SecondReader | null): Promise<number> {
    const { files, directories } = listing;
    const before = this.#storedFiles(prefix, files.length, directories);
    const looks = this.#looks(files, second);
    let known = 0;
    let count = 0;
    for (let at = 0; at < files.length; at++) {
      if (this.#breather.due()) await this.#breathe();
      // Nothing has come: the other thread may have ended, which is known after a turn.
      while (!looks.goTo(at)) await this.#breathe();
      const filename = files[at] as string;
      const value = this.#store.files.peekFile(this.#root, prefix + filename);
      if (value !== undefined) known++;
      count += this.#visit(filename, value, looks);
    }
    return known === before ? count : count + (await this.#removeGone(listing, prefix));
  }

  /**
   * How many files of the directory itself are stored, where they are no more than are listed. (Of those below a directory that
   * is no longer there, each counts: they are not here either.)
   */
  #storedFiles(prefix: string, listed: number, directories: readonly string[]): number {
    const [store, root] = [this.#store, this.#root];
    if (listed < BULK_FILES || prefix.length > LONGEST_COUNTED)
      return store.filesUnder(root, prefix, { limit: listed + 1, nested: false }).length;
    let files = store.countFilesUnder(root, prefix);
    for (const name of directories) files -= store.countFilesUnder(root, `${prefix}${name}/`);
    return files;
  }

  /** Both lists are in byte order: what only the stored one has is gone. */
  async #removeGone({ files, badFilenames }: Listing, prefix: string): Promise<number> {
    let count = 0;
    const stored = new StoredPages(this.#store, this.#root, prefix);
    const bad = new Set(badFilenames);
    let at = 0;
    for (let old = stored.next(); old !== null; old = stored.next()) {
      if (this.#breather.due()) await this.#breathe();
      const filename = old.relative.slice(prefix.length);
      while (at < files.length && compareUtf8(files[at] as string, filename) < 0) at++;
      // It may have come back.
      if (files[at] !== filename && !bad.has(filename)) count += this.#visit(filename, old.value);
    }
    return count;
  }

  #looks(names: readonly string[], second: SecondReader | null): Looks {
    const dir = this.#dir ?? "";
    return new Looks(
      new Shares<LookTask>(names, {
        second,
        taskOf: (some) => ({ kind: "look", dir, names: some.join("/") }),
        work: lookAtFiles,
      }),
    );
  }

  /** How many valid definitions the file holds: 0 or 1. */
  #visit(filename: string, stored: Buffer | undefined, seen?: Seen): number {
    const root = this.#root;
    const dir = this.#dir;
    const place = this.#place(filename);
    const result = this.#result;
    // Reading others may write over it.
    const was = stored !== undefined && isEntryFile(stored) ? 1 : 0;
    result.files++;
    try {
      const applied =
        dir === null
          ? { ...UNCHANGED, outcome: "removed" as const, count: this.#reconcile(filename, null) }
          : applyStored(this.#store, place, dir, this.#options, stored, false, seen);
      if (applied.read) result.read++;
      if (applied.deferred) result.deferred.push({ root, filename });
      if (applied.symlink) result.symlinks.push({ root, filename });
      if (applied.outcome === "changed") result.changed++;
      else if (applied.outcome === "removed") result.removed++;
      else if (applied.outcome === "problem") result.problems++;
      return was + applied.count;
    } catch (error) {
      if (!(error instanceof DefinitionReadError)) throw error;
      this.#reconcile(filename, null);
      result.unreadable.push({ root, filename, path: error.path, errno: error.errno });
      return 0;
    }
  }

  #place(filename: string): FilePlace {
    const { type, typeId } = this.#target;
    return { root: this.#root, type, typeId, filename };
  }

  #reconcile(filename: string, found: FileRecord | null): CountChange {
    return reconcile(this.#store, this.#place(filename), found);
  }

  async #breathe(): Promise<void> {
    await this.#breather.pause();
    this.#callbacks.signal?.throwIfAborted();
    this.#callbacks.onFiles?.(this.#result.files, this.#result.read);
  }
}

/** What is listed of a directory that is not there. */
const NOTHING: Listing = { files: [], special: [], directories: [], badFilenames: [] };
const FILES_WORTH_A_THREAD = 6_000;
/** Keys of longer paths are shortened, and cannot be counted by what they begin with. */
const LONGEST_COUNTED = 300;
/** From this many new files on, the order in which they are written matters. */
const BULK_FILES = 512;

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

/** What was seen of the files of a listing, one after the other. */
class Looks implements Seen {
  readonly #shares: Shares<LookTask>;
  #share: FilesSeen = { stamps: new Uint8Array(0), areFiles: new Uint8Array(0) };
  /** Of the share's first file. */
  #position = 0;
  #at = 0;

  constructor(shares: Shares<LookTask>) {
    this.#shares = shares;
  }

  /** To be called with 0, 1, 2 …; false when it has to be called again after a turn of the event loop. */
  goTo(position: number): boolean {
    if (position === this.#position + this.#share.areFiles.length) {
      const share = this.#shares.next();
      if (share === null) return false;
      this.#position = position;
      this.#share = share;
    }
    this.#at = position - this.#position;
    return true;
  }

  get stamps(): Uint8Array {
    return this.#share.stamps;
  }

  get offset(): number {
    return this.#at * STAMP_BYTES;
  }

  get isFile(): boolean {
    return this.#share.areFiles[this.#at] === 1;
  }
}

/** The stored files of one directory, a page at a time; what is swept meanwhile lies behind. */
class StoredPages {
  readonly #prefix: string;
  readonly #store: DefinitionStore;
  readonly #root: number;
  #page: StoredFile[] = [];
  #at = 0;
  #done = false;

  constructor(store: DefinitionStore, root: number, prefix: string) {
    this.#prefix = prefix;
    this.#store = store;
    this.#root = root;
  }

  next(): StoredFile | null {
    if (this.#at === this.#page.length && !this.#done) {
      const after = this.#page.at(-1)?.relative;
      this.#page = this.#store.filesUnder(this.#root, this.#prefix, {
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

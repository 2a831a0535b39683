/**
 * Reads a directory that the index knows nothing of yet, on two threads where there is a second one, and puts what comes in few
 * transactions. Since ids come in no order, each commit writes nearly every page of their table anew.
 */
import type { ExamineOptions } from "../scan/examine.ts";
import { nextTurn } from "../slices.ts";
import { BulkLoad } from "./bulk-load.ts";
import { type FilesRead, type ReadTask, readFiles } from "./read-files.ts";
import type { SecondReader } from "./second-reader.ts";
import type { DefinitionStore } from "./store.ts";
import type { SweepResult } from "./sweep.ts";

export interface UnknownDirectory {
  dir: string;
  root: number;
  type: string;
  typeId: number;
  /** In byte order. */
  names: readonly string[];
  /** Those that are not known to be regular files. */
  special: ReadonlySet<string>;
}

export interface BulkOptions {
  store: DefinitionStore;
  examine: ExamineOptions;
  /** It is stopped when the reading settles. */
  second: SecondReader | null;
  result: SweepResult;
  /**
   * How files come into a transaction. `within`: they are read in it, up to so many, unless somebody waits for the thread: see
   * {@link DefinitionStore.isAwaited}. `before`: so many are read first, so that it holds the thread for as short as can be.
   */
  filesPerCommit: { within: number } | { before: number };
  /** Asked often; null when no pause is due. */
  pause: () => Promise<void> | null;
}

/** A millisecond or two of work. */
const FILES_PER_SHARE = 256;
/** So many shares are given to the other thread ahead: what it reads while this one reads a share of its own, and more. */
const SHARES_AHEAD = 8;
/** Nobody is kept waiting for longer than this and a commit, and no commit is for less. */
const LEAST_MS = 20;
/** The other thread takes this long for a share only when something is wrong with it. */
const PATIENCE_MS = 50;

/** Returns how many valid definitions were found; all of them are committed. */
export async function readDirectory(directory: UnknownDirectory, options: BulkOptions): Promise<number> {
  const reading = new Reading(directory, options);
  try {
    while (!reading.isDone) {
      if ("before" in options.filesPerCommit) await reading.ahead(options.filesPerCommit.before);
      reading.commit();
      // Other requests, and the news that the other thread has ended.
      await (options.pause() ?? nextTurn());
    }
    return reading.entries;
  } finally {
    await options.second?.stop();
  }
}

/** Some of the directory's files, and what was read of them, once it was. */
interface Share {
  task: ReadTask;
  read: FilesRead | null;
}

class Reading {
  entries = 0;
  readonly #directory: UnknownDirectory;
  readonly #o: BulkOptions;
  readonly #load: BulkLoad;
  /** Where the next share begins. */
  #next = 0;
  /** In the order of the listing: they are put in it, whichever thread reads them. */
  #shares: Share[] = [];
  /** Those that the other thread has, in order. */
  #given: Share[] = [];

  constructor(directory: UnknownDirectory, o: BulkOptions) {
    this.#directory = directory;
    this.#o = o;
    this.#load = new BulkLoad(o.store, directory.typeId);
  }

  get isDone(): boolean {
    return this.#shares.length === 0 && this.#next === this.#directory.names.length;
  }

  /** Reads so many files, a share in each turn of the event loop. */
  async ahead(files: number): Promise<void> {
    for (let shares = Math.ceil(files / FILES_PER_SHARE); shares > 0; shares--) {
      if (!this.#readHere()) return;
      await (this.#o.pause() ?? nextTurn());
    }
  }

  /** One durable transaction. */
  commit(): void {
    const { store, filesPerCommit } = this.#o;
    const startedAt = performance.now();
    store.transaction(() => {
      if ("before" in filesPerCommit) {
        while (this.#putNext() > 0);
        return;
      }
      for (let files = 0; files < filesPerCommit.within; ) {
        if (store.isAwaited && performance.now() - startedAt > LEAST_MS) return;
        this.#give();
        this.#takeFromOther();
        const put = this.#putNext();
        files += put;
        if (put === 0 && !this.#readHere() && !this.#waitForOther()) return;
      }
    });
  }

  /** Reads the next share on this thread; false when none is left. */
  #readHere(): boolean {
    const share = this.#lost() ?? this.#share();
    if (share === null) return false;
    share.read = readFiles(share.task, this.#o.examine);
    return true;
  }

  /** The other thread has ended before its time: what it has left is done here. */
  #lost(): Share | undefined {
    if (this.#o.second?.hasEnded !== true) return undefined;
    this.#takeFromOther();
    return this.#given.shift();
  }

  #give(): void {
    const { second } = this.#o;
    if (second === null || !second.isReady || second.hasEnded) return;
    while (this.#given.length < SHARES_AHEAD) {
      const share = this.#share();
      if (share === null) return;
      second.give(share.task);
      this.#given.push(share);
    }
  }

  #takeFromOther(): void {
    for (;;) {
      const read = this.#given.length === 0 ? null : (this.#o.second?.take() ?? null);
      const share = read === null ? undefined : this.#given.shift();
      if (share === undefined) return;
      share.read = read;
    }
  }

  /** False when there is nothing to wait for, or nothing has come. */
  #waitForOther(): boolean {
    return this.#given.length > 0 && this.#o.second?.wait(PATIENCE_MS) === true;
  }

  #share(): Share | null {
    const { dir, root, type, names, special } = this.#directory;
    const taken = names.slice(this.#next, this.#next + FILES_PER_SHARE);
    if (taken.length === 0) return null;
    this.#next += taken.length;
    const specials = special.size === 0 ? [] : [...taken.keys()].filter((i) => special.has(taken[i] as string));
    const share: Share = { task: { dir, root, type, names: taken.join("/"), special: specials }, read: null };
    this.#shares.push(share);
    return share;
  }

  /** The next share, where it has been read: how many files were in it. */
  #putNext(): number {
    const read = this.#shares[0]?.read ?? null;
    if (read === null) return 0;
    this.#shares.shift();
    this.#load.put(read.packed);
    this.#count(read);
    return read.files;
  }

  #count(read: FilesRead): void {
    const { root } = this.#directory;
    const { result } = this.#o;
    result.files += read.files;
    result.read += read.entries + read.problems;
    result.changed += read.entries;
    result.problems += read.problems;
    for (const filename of read.symlinks) result.symlinks.push({ root, filename });
    for (const filename of read.deferred) result.deferred.push({ root, filename });
    for (const unreadable of read.unreadable) result.unreadable.push({ root, ...unreadable });
    this.entries += read.entries;
  }
}

/**
 * Reads a directory that the index knows nothing of yet, on two threads where there is a second one, and puts what comes in few
 * transactions. Since ids come in no order, each commit writes nearly every page of their table anew.
 */
import type { ExamineOptions } from "../scan/examine.ts";
import { nextTurn } from "../slices.ts";
import { BulkLoad } from "./bulk-load.ts";
import { type FilesRead, type ReadTask, readFiles } from "./reader-work.ts";
import type { SecondReader } from "./second-reader.ts";
import { FILES_PER_SHARE, Shares } from "./shares.ts";
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
   * Whether the transaction is open while files are read, as long as nobody waits for the thread. Else they are read before, so
   * that it holds the thread for as short as can be.
   */
  readWithin: boolean;
  isAwaited: () => boolean;
  /** So many at most. */
  filesPerCommit: number;
  /** Asked often. */
  isPauseDue: () => boolean;
  /** Lets others in. Rejects when nobody wants the directory any more. */
  pause: () => Promise<void>;
}

/** Nobody is kept waiting for longer than this and a commit, and no commit is for less. */
const LEAST_MS = 10;

/** Returns how many valid definitions were found; all of them are committed. */
export async function readDirectory(directory: UnknownDirectory, options: BulkOptions): Promise<number> {
  const reading = new Reading(directory, options);
  try {
    while (!reading.isDone) {
      // Other requests, and the news that the other thread has ended; above all, whether this is still wanted.
      await options.pause();
      if (!options.readWithin) await reading.readAhead();
      reading.commit();
    }
    return reading.entries;
  } finally {
    await options.second?.stop();
  }
}

class Reading {
  entries = 0;
  readonly #root: number;
  readonly #o: BulkOptions;
  readonly #load: BulkLoad;
  readonly #shares: Shares<ReadTask>;

  constructor({ dir, root, type, typeId, names, special }: UnknownDirectory, o: BulkOptions) {
    this.#root = root;
    this.#o = o;
    this.#load = new BulkLoad(o.store, typeId);
    this.#shares = new Shares<ReadTask>(names, {
      second: o.second,
      taskOf(some) {
        const specials = special.size === 0 ? [] : [...some.keys()].filter((i) => special.has(some[i] as string));
        return { kind: "read", dir, root, type, names: some.join("/"), special: specials };
      },
      work: (task) => readFiles(task, o.examine),
    });
  }

  get isDone(): boolean {
    return this.#shares.areDone;
  }

  /** Reads what is worth a commit, a share in each turn of the event loop. */
  async readAhead(): Promise<void> {
    for (let shares = Math.ceil(this.#o.filesPerCommit / FILES_PER_SHARE); shares > 0; shares--) {
      if (!this.#shares.doOne()) return;
      await (this.#o.isPauseDue() ? this.#o.pause() : nextTurn());
    }
  }

  /** One durable transaction. */
  commit(): void {
    const { store, filesPerCommit, readWithin, isAwaited } = this.#o;
    const startedAt = performance.now();
    store.transaction(() => {
      if (!readWithin) {
        for (let read = this.#shares.nextDone(); read !== null; read = this.#shares.nextDone()) this.#put(read);
        return;
      }
      for (let files = 0; files < filesPerCommit; ) {
        if (isAwaited() && performance.now() - startedAt > LEAST_MS) break;
        const read = this.#shares.next();
        if (read === null) break;
        this.#put(read);
        files += read.files;
      }
      this.#shares.giveAhead();
    });
  }

  #put(read: FilesRead): void {
    const root = this.#root;
    const { result } = this.#o;
    this.#load.put(read.packed);
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

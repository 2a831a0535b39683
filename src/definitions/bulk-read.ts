/** Reads a directory that the index knows nothing of yet, on two threads where there is a second one. */

import type { ProblemKind } from "../errors.ts";
import { DefinitionReadError } from "../errors.ts";
import { type Examined, type ExamineOptions, examineFile } from "../scan/examine.ts";
import { WorkerPool } from "../scan/pool.ts";
import { ReaderStoppedError } from "../scan/reader.ts";
import { isRacyStamp, STAMP_BYTES, wallClockNs } from "../scan/stamp.ts";
import { type Batch, DEFERRED, ENTRY, PROBLEM, SKIPPED } from "../scan/task.ts";
import { nextTurn } from "../slices.ts";
import type { BulkLoad } from "./bulk-load.ts";
import type { SweepResult } from "./sweep.ts";

export interface UnknownDirectory {
  dir: string;
  root: number;
  type: string;
  /** In byte order. */
  names: readonly string[];
  /** Those that are not known to be regular files. */
  special: ReadonlySet<string>;
}

/** A second thread costs 30 ms to start; this many files take that long to read. */
const FILES_WORTH_A_THREAD = 6_000;
/** Two milliseconds of work: other requests, and what the other thread has read, wait no longer. */
const FILES_HERE = 256;
/** Read there in one go: what one takes in the time of a pause here. */
const FILES_THERE = 1_024;
/** So many times as many are read ahead there, so that it has work during a commit here: at about 600 bytes a file. */
const GOES_AHEAD = 24;

/** `pause` is asked often; it returns null when no pause is due. Returns how many valid definitions were found. */
export async function readDirectory(
  directory: UnknownDirectory,
  load: BulkLoad,
  options: ExamineOptions,
  result: SweepResult,
  pause: () => Promise<void> | null,
): Promise<number> {
  const taker = new Taker(directory, load, result, options.documents);
  const { names } = directory;
  let next = 0;
  const take = (count: number): readonly string[] => {
    next += count;
    return names.slice(next - count, next);
  };

  const pool = secondThread(names.length, options);
  /** One of the two has failed: the other ends, too, before this settles. */
  let isOver = false;
  const there = async (pool: WorkerPool): Promise<void> => {
    if (!(await pool.ready)) return;
    const ahead: Promise<ReadThere>[] = [];
    for (;;) {
      while (ahead.length < GOES_AHEAD && next < names.length) {
        const reading = readThere(pool, directory, take(FILES_THERE));
        reading.catch(() => {}); // Thrown when it is its turn.
        ahead.push(reading);
      }
      const read = await ahead.shift();
      if (read === undefined || isOver) return;
      taker.takeRead(read, options);
    }
  };
  const here = async (): Promise<void> => {
    while (!isOver && next < names.length) {
      for (const name of take(FILES_HERE)) taker.examine(name, options);
      // Other requests, and what the other thread has read.
      await (pause() ?? nextTurn());
    }
  };
  const readers = pool === null ? [here()] : [there(pool), here()];
  try {
    await Promise.all(readers);
    load.commit();
    return taker.entries;
  } finally {
    isOver = true;
    await pool?.stop();
    await Promise.allSettled(readers);
  }
}

/** What the other thread has read of some names; null where it could not. */
interface ReadThere {
  names: readonly string[];
  regular: readonly string[];
  startedAt: number;
  batch: Batch | null;
}

async function readThere(
  pool: WorkerPool,
  { dir, special }: UnknownDirectory,
  names: readonly string[],
): Promise<ReadThere> {
  const regular = special.size === 0 ? names : names.filter((name) => !special.has(name));
  const startedAt = wallClockNs();
  try {
    const batch = (await pool.run({ dir, names: regular.join("/"), regular: true })) as Batch;
    return { names, regular, startedAt, batch };
  } catch (error) {
    // One unreadable file ends the task: here each is tried by itself.
    if (!(error instanceof DefinitionReadError || error instanceof ReaderStoppedError)) throw error;
    return { names, regular: [], startedAt, batch: null };
  }
}

/** It comes up while the first one reads already. */
function secondThread(files: number, options: ExamineOptions): WorkerPool | null {
  if (files < FILES_WORTH_A_THREAD || "Deno" in globalThis || process.env["TUSSOCK_NO_WORKERS"]) return null;
  const { parse: _, ...plain } = options;
  return new WorkerPool(1, plain);
}

/** Takes in what was read, from whichever thread. */
class Taker {
  readonly #directory: UnknownDirectory;
  readonly #load: BulkLoad;
  readonly #result: SweepResult;
  readonly #documents: boolean;
  entries = 0;

  constructor(directory: UnknownDirectory, load: BulkLoad, result: SweepResult, documents: boolean) {
    this.#documents = documents;
    this.#directory = directory;
    this.#load = load;
    this.#result = result;
  }

  examine(filename: string, options: ExamineOptions): void {
    const { dir, root, special } = this.#directory;
    const path = `${dir}/${filename}`;
    try {
      this.#take(filename, examineFile(path, options, !special.has(filename)));
    } catch (error) {
      if (!(error instanceof DefinitionReadError)) throw error;
      this.#result.files++;
      this.#result.unreadable.push({ root, filename, path: error.path, errno: error.errno });
    }
  }

  takeRead({ names, regular, startedAt, batch }: ReadThere, options: ExamineOptions): void {
    if (batch !== null) this.#takeBatch(regular, batch, startedAt);
    const left =
      batch === null
        ? names
        : names.length === regular.length
          ? []
          : names.filter((n) => this.#directory.special.has(n));
    for (const name of left) this.examine(name, options);
  }

  #takeBatch(names: readonly string[], batch: Batch, startedAt: number): void {
    const { values, stamps, kinds } = batch;
    let at = 0;
    for (const [i, filename] of names.entries()) {
      const stamp = stamps.subarray(i * STAMP_BYTES, (i + 1) * STAMP_BYTES);
      const facts = { stamp, symlink: false, racy: isRacyStamp(stamp, 0, startedAt) };
      switch (kinds[i]) {
        case ENTRY: {
          const [id, name, declaredType] = [
            values[at++] as string,
            values[at++] as string,
            values[at++] as string | null,
          ];
          const documentJson = this.#documents ? (values[at++] as string | null) : null;
          if (this.#documents && documentJson === null) at++;
          this.#take(filename, { kind: "entry", id, name, declaredType, documentJson, ...facts });
          break;
        }
        case PROBLEM: {
          const [problemKind, message] = [values[at++] as ProblemKind, values[at++] as string];
          const [line, column] = [values[at++] as number, values[at++] as number];
          this.#take(filename, { kind: "problem", problemKind, message, line, column, ...facts });
          break;
        }
        case DEFERRED:
          this.#take(filename, { kind: "deferred", ...facts });
          break;
        case SKIPPED:
          this.#take(filename, { kind: "directory" });
          break;
        default:
          this.#take(filename, { kind: "absent" });
      }
    }
  }

  #take(filename: string, examined: Examined): void {
    const { root, type } = this.#directory;
    const result = this.#result;
    result.files++;
    if (examined.kind === "absent") return;
    if (examined.kind === "deferred") {
      result.deferred.push({ root, filename });
      return;
    }
    // A link to a directory may come to lead to a file.
    if (examined.kind === "directory" || examined.symlink) result.symlinks.push({ root, filename });
    if (examined.kind === "directory") return;
    this.#load.add({ ...examined, root, type, filename });
    if (this.#load.isDue) this.#load.commit();
    result.read++;
    if (examined.kind === "problem") result.problems++;
    else {
      result.changed++;
      this.entries++;
    }
  }
}

/** The abortable scan of a directory of definitions. */
import { resolve } from "node:path";
import type { AbortOptions } from "../abort.ts";
import { checkObject, checkOptions, checkPath } from "../arguments.ts";
import { InvalidArgumentError } from "../errors.ts";
import { environmentVariable } from "../permissions.ts";
import { DEFAULT_KEYS, type DefinitionKeys, type ScanResult } from "./model.ts";
import type { Parse } from "./parse.ts";
import { type RunOptions, type ScanProgress, ScanRun } from "./run.ts";

export type { ScanProgress } from "./run.ts";

export interface ScanOptions extends AbortOptions {
  /** Whether to enter sub-directories. Symbolic links to directories never are. Default: true. */
  recursive?: boolean;
  /**
   * Worker threads, each of which reads one file at a time, started at once. Default: none up to about 5,000 files, which
   * are read sooner than workers start; beyond, 2 on Node and 1 on Deno.
   */
  concurrency?: number;
  /** Symbolic links that lead out of this directory are problems. Default: `dir`. */
  boundary?: string;
  /** `document`: each valid definition comes with its document. Default: `header`. */
  content?: "header" | "document";
  keys?: DefinitionKeys;
  /**
   * Replaces the YAML parser, for files that are not of the common form on which all parsers agree. Runs on the calling
   * thread. What it throws is a problem of kind `syntax`.
   */
  parse?: Parse;
  /** Larger files are problems of kind `too-large`. Default: 1 MiB. */
  maxFileBytes?: number;
  /** Called after each directory listed and each few hundred files read. What it throws ends the scan. */
  onProgress?: (progress: ScanProgress) => void;
}

const DEFAULT_MAX_FILE_BYTES = 1024 * 1024;
const MAX_CONCURRENCY = 64;

/**
 * Reads every definition file (`*.yaml`) below `dir`, and yields what it finds in no particular order: entries, and
 * problems in place of files that are no valid definition. `entry.type` is the directory below `dir`, `entry.root` is
 * `dir` itself, absolute.
 *
 * A `dir` that does not exist is empty. What vanishes during the scan is left out, and counted in the progress. Files are
 * read on worker threads when there are more than a few; where these cannot start, on this one, for at most 5 ms in a
 * turn (listing a large directory on Deno takes longer). The scan runs no more than about a thousand files ahead of its
 * caller.
 *
 * Nothing is opened or started before the first `next()`. There is no point of no return: aborted at any time, it rejects
 * with `signal.reason`; left by `break` or `return()`, it ends; and either way no handle, timer, listener or worker is
 * left when that has settled.
 *
 * @throws InvalidArgumentError (at once) for an option that cannot be used
 * @throws DefinitionReadError (from `next()`) for what is wrong with the disk, not a file: `dir` is a file (ENOTDIR), a
 * directory or file may not be read (EACCES), no descriptor becomes free within a second (EMFILE), EIO
 */
export function scan(dir: string, options: ScanOptions = {}): AsyncIterableIterator<ScanResult> {
  return new Scan(new ScanRun(checked(dir, options)));
}

class Scan implements AsyncIterableIterator<ScanResult> {
  readonly #run: ScanRun;
  #started = false;

  constructor(run: ScanRun) {
    this.#run = run;
  }

  next(): Promise<IteratorResult<ScanResult, undefined>> {
    if (!this.#started) {
      this.#started = true;
      this.#run.start();
    }
    return this.#run.take();
  }

  async return(): Promise<IteratorResult<ScanResult, undefined>> {
    this.#started = true;
    await this.#run.stop();
    return { done: true, value: undefined };
  }

  async throw(error: unknown): Promise<IteratorResult<ScanResult, undefined>> {
    await this.return();
    throw error;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

function checked(dir: string, options: ScanOptions): RunOptions {
  checkOptions(options, "parse", "onProgress");
  const { concurrency } = options;
  const { recursive = true, content = "header", keys = DEFAULT_KEYS } = options;
  const { maxFileBytes = DEFAULT_MAX_FILE_BYTES, boundary, parse, onProgress, signal } = options;
  checkPath("dir", dir);
  if (boundary !== undefined) checkPath("boundary", boundary);
  if (
    concurrency !== undefined &&
    !(Number.isInteger(concurrency) && concurrency >= 1 && concurrency <= MAX_CONCURRENCY)
  ) {
    throw new InvalidArgumentError("concurrency", concurrency, `a whole number from 1 to ${MAX_CONCURRENCY}`);
  }
  if (!Number.isSafeInteger(maxFileBytes) || maxFileBytes < 1) {
    throw new InvalidArgumentError("maxFileBytes", maxFileBytes, "a whole number of bytes, 1 or more");
  }
  if (content !== "header" && content !== "document") {
    throw new InvalidArgumentError("content", content, '"header" or "document"');
  }
  checkObject("keys", keys);
  for (const part of ["id", "name", "type"] as const) {
    if (typeof keys[part] !== "string") throw new InvalidArgumentError(`keys.${part}`, keys[part], "a string");
  }
  return {
    dir: resolve(dir),
    boundary: resolve(boundary ?? dir),
    recursive,
    workers: environmentVariable("TUSSOCK_NO_WORKERS") ? 0 : (concurrency ?? defaultConcurrency()),
    eager: concurrency !== undefined,
    keys: { id: keys.id, name: keys.name, type: keys.type },
    parse,
    maxFileBytes,
    documents: content === "document",
    maxDocumentBytes: Number.POSITIVE_INFINITY,
    onProgress,
    signal,
  };
}

/** Starting a worker holds Deno's main thread for 25 ms. */
function defaultConcurrency(): number {
  return "Deno" in globalThis ? 1 : 2;
}

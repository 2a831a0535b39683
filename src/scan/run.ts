/** One scan under way: which tasks there are, who does them, and how far they may run ahead of the caller. */
import { realpathSync } from "node:fs";
import pLimit, { type LimitFunction } from "p-limit";
import { abortable, type Deferred, deferred, delay } from "../abort.ts";
import { Underway } from "../churn.ts";
import { DefinitionReadError } from "../errors.ts";
import { type Operation, operation } from "../telemetry/index.ts";
import type { ExamineOptions } from "./examine.ts";
import { asReadError, isLargeDirectory } from "./list.ts";
import type { ScanResult } from "./model.ts";
import { loadParser } from "./parse.ts";
import { WorkerPool } from "./pool.ts";
import { InlineReader, type Reader, ReaderStoppedError } from "./reader.ts";
import { Results } from "./results.ts";
import { readStamp, STAMP_BYTES } from "./stamp.ts";
import type { Batch, Listed, Task, TaskResult } from "./task.ts";
import { unpack } from "./unpack.ts";

export interface ScanProgress {
  directories: number;
  /** Files examined. */
  files: number;
  entries: number;
  problems: number;
  /** Files and directories that were listed, but gone when they were to be read. */
  vanished: number;
}

/** As the caller gave them, checked. */
export interface RunOptions extends Omit<ExamineOptions, "boundary" | "deferParsing"> {
  dir: string;
  boundary: string;
  recursive: boolean;
  workers: number;
  /** Start the workers at once, not when there turn out to be many files. */
  eager: boolean;
  signal: AbortSignal | undefined;
  onProgress: ((progress: ScanProgress) => void) | undefined;
}

interface Job {
  task: Task;
  type: string;
  /** Needs the full parser on this thread: the caller's, which cannot cross, or ours, where there are no workers. */
  parsing?: boolean;
}

/** Up to so many files, workers take longer to start and warm up than this thread to read. */
const INLINE_FILES = 5_000;
/** Results that may wait for the caller; beyond, no task starts. */
const MAX_WAITING = 1_024;
/** The last wait for a descriptor; 1, 2, 4 … ms before it, a second in all. */
const MAX_PAUSE_MS = 512;

export class ScanRun {
  readonly results = new Results<ScanResult>();
  readonly progress: ScanProgress = { directories: 0, files: 0, entries: 0, problems: 0, vanished: 0 };
  readonly #options: RunOptions;
  readonly #examine: ExamineOptions;
  readonly #inline: InlineReader;
  readonly #limit: LimitFunction = pLimit(1);
  readonly #ending = new AbortController();
  readonly #active = new Underway();
  #reader: Reader;
  #pool: WorkerPool | null = null;
  #poolReady: Promise<void> | null = null;
  #room: Deferred<void> | null = null;
  #pending = 0;
  #files = 0;
  #ended: Promise<void> | null = null;
  #telemetry: Operation | null = null;
  readonly #onAbort = (): void => this.#fail(this.#options.signal?.reason);

  constructor(options: RunOptions) {
    this.#options = options;
    const { keys, parse, maxFileBytes, documents, maxDocumentBytes } = options;
    this.#examine = { keys, parse, maxFileBytes, documents, maxDocumentBytes, boundary: null };
    this.#inline = new InlineReader(this.#examine);
    this.#reader = this.#inline;
  }

  start(): void {
    const { signal, dir } = this.#options;
    this.#telemetry = scanning.start();
    if (signal?.aborted) {
      this.#onAbort();
      return;
    }
    signal?.addEventListener("abort", this.#onAbort, { once: true });
    try {
      const kind = readStamp(dir, true, scratch, 0);
      if (kind !== "directory" && kind !== "absent") throw new DefinitionReadError(dir, "ENOTDIR");
      if (kind === "absent") {
        void this.#finish();
        return;
      }
      this.#examine.boundary = realPath(this.#options.boundary);
    } catch (error) {
      this.#fail(error);
      return;
    }
    this.results.onTaken = () => this.#makeRoom();
    this.#add({ task: { dir, names: null, regular: false }, type: "" });
  }

  /** What the caller gets next. After an abort nothing is handed out any more, however much is ready. */
  take(): Promise<IteratorResult<ScanResult, undefined>> {
    const { signal } = this.#options;
    if (signal?.aborted && this.#ended !== null) return this.#refuse(signal.reason);
    return this.results.take();
  }

  async #refuse(reason: unknown): Promise<IteratorResult<ScanResult, undefined>> {
    await this.#ended;
    this.results.fail(reason);
    return this.results.take();
  }

  /** The caller wants no more. Settles when no work is left. */
  async stop(): Promise<void> {
    this.results.drop();
    await this.#finish();
    this.results.leave();
  }

  #finish(): Promise<void> {
    return this.#end(() => {
      this.#telemetry?.set("tussock.scan.files", this.progress.files);
      this.#telemetry?.set("tussock.scan.problems", this.progress.problems);
      this.#telemetry?.end();
      const { signal } = this.#options;
      if (signal?.aborted) this.results.fail(signal.reason);
      else this.results.close();
    });
  }

  #fail(error: unknown): void {
    if (this.#ended === null) this.results.drop();
    void this.#end(() => {
      this.#telemetry?.fail(error);
      this.results.fail(error);
    });
  }

  /** Stops all work, waits until none is left, and then reports. Only the first call counts. */
  #end(report: () => void): Promise<void> {
    this.#ended ??= this.#quiesce().then(report);
    return this.#ended;
  }

  async #quiesce(): Promise<void> {
    this.#options.signal?.removeEventListener("abort", this.#onAbort);
    this.#limit.clearQueue();
    this.#ending.abort(new ReaderStoppedError());
    this.#room?.reject(this.#ending.signal.reason);
    await Promise.allSettled([this.#inline.stop(), this.#pool?.stop(), this.#active.over()]);
  }

  // ── tasks ─────────────────────────────────────────────────────────────────────────────────────────────────────

  #add(job: Job): void {
    this.#pending++;
    this.#limit(() => this.#active.track(this.#do(job))).then(
      () => {
        if (--this.#pending === 0) void this.#finish();
      },
      (error) => this.#fail(error),
    );
  }

  async #do(job: Job): Promise<void> {
    // It may have left the line just before that was cleared.
    if (this.#ended !== null) return;
    await this.#roomForMore();
    if (job.task.names === null && (this.#options.eager || isLargeDirectory(job.task.dir, true)))
      await this.#startWorkers();
    const result = await this.#read(job);
    if (this.#ended !== null) return;
    if ("chunks" in result) this.#acceptListing(job, result);
    else this.#acceptBatch(job, result);
    this.#options.onProgress?.({ ...this.progress });
  }

  /** Meets a shortage of descriptors by fewer files at once, and by patience. */
  async #read(job: Job): Promise<TaskResult> {
    for (let pause = 1; ; ) {
      const reader = job.parsing ? this.#inline : this.#reader;
      try {
        if (!job.parsing) return await reader.run(job.task);
        if (this.#options.parse === undefined) await abortable(loadParser(), this.#ending.signal);
        return await this.#inline.run(job.task, false);
      } catch (error) {
        if (error instanceof ReaderStoppedError && this.#ended === null && reader !== this.#inline) {
          this.#reader = this.#inline;
        } else if (isShortage(error) && pause <= MAX_PAUSE_MS) {
          this.#limit.concurrency = Math.max(1, this.#limit.concurrency >> 1);
          await delay(pause, this.#ending.signal);
          pause *= 2;
        } else {
          throw error;
        }
      }
    }
  }

  #acceptListing({ task, type }: Job, listed: Listed): void {
    if (listed.vanished) {
      if (type !== "") this.progress.vanished++;
      return;
    }
    this.progress.directories++;
    for (const name of listed.badFilenames) {
      const path = `${task.dir}/${name}`;
      const message = "the name is not UTF-8; rename it";
      this.progress.problems++;
      this.results.push({ ok: false, problem: { path, root: this.#options.dir, kind: "bad-filename", message } });
    }
    this.#files += listed.files;
    if (this.#files > INLINE_FILES) void this.#startWorkers();
    for (const names of listed.chunks) this.#add({ task: { dir: task.dir, names, regular: true }, type });
    for (const names of listed.special) this.#add({ task: { dir: task.dir, names, regular: false }, type });
    if (!this.#options.recursive) return;
    for (const name of listed.directories) {
      this.#add({
        task: { dir: `${task.dir}/${name}`, names: null, regular: false },
        type: type === "" ? name : `${type}/${name}`,
      });
    }
  }

  #acceptBatch({ task, type }: Job, batch: Batch): void {
    const deferred = unpack(task, type, batch, this.#options, this.results, this.progress);
    if (deferred.length === 0) return;
    this.#add({ task: { dir: task.dir, names: deferred.join("/"), regular: false }, type, parsing: true });
  }

  // ── back-pressure ─────────────────────────────────────────────────────────────────────────────────────────────

  async #roomForMore(): Promise<void> {
    while (this.results.waiting > MAX_WAITING) {
      this.#room ??= deferred();
      await this.#room.promise;
    }
  }

  #makeRoom(): void {
    if (this.#room === null || this.results.waiting > MAX_WAITING / 2) return;
    this.#room.resolve();
    this.#room = null;
  }

  // ── workers ───────────────────────────────────────────────────────────────────────────────────────────────────

  /** Settles when they have started or turned out not to. Until then the scan goes on without them. */
  #startWorkers(): Promise<void> {
    this.#poolReady ??= this.#tryWorkers();
    return this.#poolReady;
  }

  async #tryWorkers(): Promise<void> {
    if (this.#options.workers === 0) return;
    const { parse, ...examine } = this.#examine;
    const pool = new WorkerPool(this.#options.workers, { ...examine, deferParsing: parse !== undefined });
    this.#pool = pool;
    if ((await pool.ready) && this.#ended === null) {
      this.#reader = pool;
      this.#limit.concurrency = pool.size;
    } else {
      await pool.stop();
    }
  }
}

const scratch = new Uint8Array(STAMP_BYTES);

function isShortage(error: unknown): boolean {
  return error instanceof DefinitionReadError && (error.errno === "EMFILE" || error.errno === "ENFILE");
}

function realPath(path: string): string {
  try {
    return realpathSync.native(path);
  } catch (error) {
    throw asReadError(path, error);
  }
}

const scanning = operation("tussock.scan", "Scans of directories of definitions", []);

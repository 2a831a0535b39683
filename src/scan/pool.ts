/** The workers of one scan. */
import { closeSync, constants, existsSync, openSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { type Deferred, deferred, delay } from "../abort.ts";
import { DefinitionReadError } from "../errors.ts";
import type { ExamineOptions } from "./examine.ts";
import { type Reader, ReaderStoppedError } from "./reader.ts";
import type { Task, TaskResult } from "./task.ts";

/** What a worker is started with; the caller's parser cannot be among it. */
export interface WorkerOptions {
  examine: Omit<ExamineOptions, "parse">;
  /** Not 0: drop the task under way. */
  stopping: Int32Array;
}

/** What a worker says: first that it is ready, then one answer to each task. */
export type WorkerMessage =
  | "ready"
  | "stopped"
  | { result: TaskResult }
  | { path: string; errno: string }
  | { failure: string };

/** A worker under way to its next stop is waited for so long, and then ended where it is. */
const GRACE_MS = 5;
/** What a worker needs to start; Deno's process dies when it has fewer. */
const DESCRIPTORS_PER_WORKER = 16;

interface Member {
  worker: Worker;
  /** Answered in order; the first is under way. */
  tasks: Deferred<TaskResult>[];
  gone: boolean;
}

export class WorkerPool implements Reader {
  /** Whether the workers have started. Where they cannot (a bundle without their file, no descriptors left), it is false. */
  readonly ready: Promise<boolean>;
  readonly #members: Member[] = [];
  readonly #stopping = new Int32Array(new SharedArrayBuffer(4));
  #stopped: Promise<void> | null = null;

  constructor(size: number, examine: WorkerOptions["examine"]) {
    this.ready = this.#startAll(size, { examine, stopping: this.#stopping });
  }

  /** From the first call of `stop` on, before the promise of it is known. */
  get #isStopping(): boolean {
    return Atomics.load(this.#stopping, 0) !== 0;
  }

  get size(): number {
    return this.#members.length;
  }

  async #startAll(size: number, options: WorkerOptions): Promise<boolean> {
    // Asked first, since Deno reports a program that is not there on standard error, whoever listens for it.
    if (!existsSync(workerFile()) || !canOpen(size * DESCRIPTORS_PER_WORKER)) return false;
    try {
      // One by one: a thread that boots cannot be ended before it has booted, which takes two at once three times as long.
      while (this.#members.length < size) if (this.#isStopping || !(await this.#start(options))) return false;
      return true;
    } catch {
      return false;
    }
  }

  #start(options: WorkerOptions): Promise<boolean> {
    const worker = new Worker(workerFile(), { workerData: options, resourceLimits: { maxYoungGenerationSizeMb: 64 } });
    const member: Member = { worker, tasks: [], gone: false };
    this.#members.push(member);
    const started = deferred<boolean>();
    member.worker.on("message", (message: WorkerMessage) => {
      if (message === "ready") {
        this.#restIfIdle(member);
        started.resolve(true);
      } else {
        this.#answer(member, message);
      }
    });
    const lose = (): void => {
      started.resolve(false);
      member.gone = true;
      for (const task of member.tasks.splice(0)) task.reject(new ReaderStoppedError());
    };
    member.worker.on("error", lose);
    member.worker.on("exit", lose);
    return started.promise;
  }

  /** A scan whose caller has stopped asking must not keep the process alive; one that is being stopped must. */
  #restIfIdle(member: Member): void {
    if (!this.#isStopping && member.tasks.length === 0) member.worker.unref();
  }

  #answer(member: Member, message: Exclude<WorkerMessage, "ready">): void {
    const task = member.tasks.shift();
    this.#restIfIdle(member);
    if (message === "stopped") task?.reject(new ReaderStoppedError());
    else if ("result" in message) task?.resolve(message.result);
    else if ("errno" in message) task?.reject(new DefinitionReadError(message.path, message.errno));
    else task?.reject(new Error(message.failure));
  }

  /** By the worker that has least to do, after what it has to do. */
  run(task: Task): Promise<TaskResult> {
    const member = this.#members.reduce<Member | null>(
      (least, each) => (each.gone || (least !== null && least.tasks.length <= each.tasks.length) ? least : each),
      null,
    );
    if (member === null || this.#isStopping) return Promise.reject(new ReaderStoppedError());
    const answer = deferred<TaskResult>();
    member.tasks.push(answer);
    member.worker.ref();
    member.worker.postMessage(task);
    return answer.promise;
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  /** First asks, since a worker that is ended between open and close leaves the descriptor open on Deno. */
  async #stop(): Promise<void> {
    Atomics.store(this.#stopping, 0, 1);
    const busy = this.#members.flatMap(({ tasks }) => tasks.map(({ promise }) => promise));
    if (busy.length > 0) {
      const grace = new AbortController();
      await Promise.race([Promise.allSettled(busy), delay(GRACE_MS, grace.signal).catch(() => {})]);
      grace.abort();
    }
    await Promise.all(this.#members.map(({ worker }) => worker.terminate()));
  }
}

function canOpen(count: number): boolean {
  const open: number[] = [];
  try {
    for (let i = 0; i < count; i++) open.push(openSync("/", constants.O_RDONLY));
    return true;
  } catch {
    return false;
  } finally {
    for (const fd of open) closeSync(fd);
  }
}

function workerFile(): URL {
  return import.meta.url.endsWith(".ts")
    ? new URL("./worker.ts", import.meta.url)
    : new URL("./scan-worker.js", import.meta.url);
}

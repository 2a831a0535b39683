/** The workers of one scan. */
import { existsSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { type Deferred, deferred } from "../abort.ts";
import { DefinitionReadError } from "../errors.ts";
import type { ExamineOptions } from "./examine.ts";
import { type Reader, ReaderStoppedError } from "./reader.ts";
import type { Task, TaskResult } from "./task.ts";

/** What a worker is started with; the caller's parser cannot be among it. */
export type WorkerOptions = Omit<ExamineOptions, "parse">;

/** What a worker says: first that it is ready, then one answer to each task. */
export type WorkerMessage = "ready" | { result: TaskResult } | { path: string; errno: string } | { failure: string };

interface Member {
  worker: Worker;
  task: Deferred<TaskResult> | null;
}

export class WorkerPool implements Reader {
  /** Whether the workers have started. Where they cannot (a bundle without their file, no descriptors left), it is false. */
  readonly ready: Promise<boolean>;
  readonly #idle: Member[] = [];
  readonly #members: Member[] = [];
  #stopping: Promise<void> | null = null;

  constructor(size: number, options: WorkerOptions) {
    const starting: Promise<boolean>[] = [];
    try {
      // Asked first, since Deno reports a program that is not there on standard error, whoever listens for it.
      if (!existsSync(workerFile())) throw new Error("there is no worker program beside this file");
      for (let i = 0; i < size; i++) starting.push(this.#start(options));
    } catch {
      starting.push(Promise.resolve(false));
    }
    this.ready = Promise.all(starting).then((started) => started.every(Boolean));
  }

  get size(): number {
    return this.#members.length;
  }

  #start(options: WorkerOptions): Promise<boolean> {
    const member: Member = { worker: new Worker(workerFile(), { workerData: options }), task: null };
    this.#members.push(member);
    const started = deferred<boolean>();
    member.worker.on("message", (message: WorkerMessage) => {
      if (message === "ready") {
        this.#rest(member);
        started.resolve(true);
      } else {
        this.#answer(member, message);
      }
    });
    const lose = (): void => {
      started.resolve(false);
      member.task?.reject(new ReaderStoppedError());
      member.task = null;
      if (this.#idle.includes(member)) this.#idle.splice(this.#idle.indexOf(member), 1);
    };
    member.worker.on("error", lose);
    member.worker.on("exit", lose);
    return started.promise;
  }

  /** A scan whose caller has stopped asking must not keep the process alive. */
  #rest(member: Member): void {
    member.worker.unref();
    this.#idle.push(member);
  }

  #answer(member: Member, message: Exclude<WorkerMessage, "ready">): void {
    const { task } = member;
    member.task = null;
    this.#rest(member);
    if ("result" in message) task?.resolve(message.result);
    else if ("errno" in message) task?.reject(new DefinitionReadError(message.path, message.errno));
    else task?.reject(new Error(message.failure));
  }

  run(task: Task): Promise<TaskResult> {
    const member = this.#idle.pop();
    if (member === undefined || this.#stopping !== null) return Promise.reject(new ReaderStoppedError());
    member.task = deferred();
    member.worker.ref();
    member.worker.postMessage(task);
    return member.task.promise;
  }

  stop(): Promise<void> {
    this.#stopping ??= Promise.all(this.#members.map(({ worker }) => worker.terminate())).then(() => {});
    return this.#stopping;
  }
}

function workerFile(): URL {
  return import.meta.url.endsWith(".ts")
    ? new URL("./worker.ts", import.meta.url)
    : new URL("./scan-worker.js", import.meta.url);
}

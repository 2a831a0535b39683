/** The engine on a worker thread. Started at first use: a process that only looks at files never pays for it. */
import { Worker } from "node:worker_threads";
import { type Deferred, deferred } from "../abort.ts";
import { DefinitionReadError, IndexUnavailableError } from "../errors.ts";
import { forget, Gate, shutAtExit } from "../gate.ts";
import type { ExamineOptions } from "../scan/examine.ts";
import { nextTurn } from "../slices.ts";
import {
  type AppliedPlace,
  type ApplyResult,
  asStorageError,
  type IndexEngine,
  type SweepCallbacks,
} from "./engine.ts";
import type { PendingPut } from "./store.ts";
import type { SweepResult, SweepTarget } from "./sweep.ts";
import type { WorkerData, WorkerError, WorkerReply, WorkerRequest } from "./worker-protocol.ts";

interface Waiting {
  resolve(result: unknown): void;
  reject(error: unknown): void;
  onFiles: ((files: number, read: number) => void) | undefined;
  readonly settled: Deferred<void>;
}

type RequestBody =
  | { kind: "commit"; puts: PendingPut[] }
  | { kind: "sweep"; target: SweepTarget }
  | { kind: "apply"; places: readonly AppliedPlace[] }
  | { kind: "close" };

export class WorkerEngine implements IndexEngine {
  readonly #path: string;
  readonly #worker: Worker;
  readonly #gate: Gate;
  readonly #onLost: () => void;
  readonly #waiting = new Map<number, Waiting>();
  #nextId = 1;
  #wasReady = false;
  #failure: unknown = null;

  private constructor(path: string, worker: Worker, gate: Gate, onLost: () => void) {
    this.#path = path;
    this.#worker = worker;
    this.#gate = gate;
    this.#onLost = onLost;
  }

  /** Null where no worker can start. `onLost` is told should the thread end before it is closed. */
  static async start(path: string, examine: ExamineOptions, onLost: () => void): Promise<WorkerEngine | null> {
    const { parse, ...plain } = examine;
    const gate = Gate.memory();
    const data: WorkerData = { path, examine: { ...plain, deferParsing: parse !== undefined }, gate };
    // Deno starts a thread on the caller's, for 20 ms: not in the turn in which the store was opened.
    await nextTurn();
    let worker: Worker;
    try {
      worker = new Worker(workerFile(), {
        workerData: data,
        resourceLimits: { maxYoungGenerationSizeMb: 128 },
      });
    } catch {
      return null;
    }
    const engine = new WorkerEngine(path, worker, new Gate(gate), onLost);
    return (await engine.#ready()) || engine.#holdsLock ? engine : null;
  }

  #ready(): Promise<boolean> {
    return new Promise((resolve) => {
      this.#waiting.set(0, {
        resolve: () => {
          this.#wasReady = true;
          resolve(true);
        },
        reject: () => resolve(false),
        onFiles: undefined,
        settled: deferred(),
      });
      this.#worker.on("message", (reply: WorkerReply) => this.#receive(reply));
      this.#worker.on("error", (error) => this.#fail(error));
      shutAtExit(this.#gate);
      this.#worker.on("exit", () => {
        forget(this.#gate);
        this.#fail(new Error("the worker ended"));
      });
    });
  }

  #receive(reply: WorkerReply): void {
    const waiting = this.#waiting.get(reply.id);
    if (waiting === undefined) return;
    if ("progress" in reply) {
      waiting.onFiles?.(reply.progress.files, reply.progress.read);
      return;
    }
    this.#settle(reply.id);
    if ("error" in reply) waiting.reject(this.#asOurs(reply.error));
    else waiting.resolve(reply.result);
  }

  /** An idle worker must not keep the process alive. */
  #settle(id: number): void {
    this.#waiting.get(id)?.settled.resolve();
    this.#waiting.delete(id);
    if (this.#waiting.size === 0) this.#worker.unref();
  }

  #asOurs(error: WorkerError): unknown {
    const { message, path, errno } = error;
    if (path !== undefined && errno !== undefined) return new DefinitionReadError(path, errno, { cause: error });
    const known = asStorageError(this.#path, error);
    if (known !== error) return known;
    const why = `${message}. Retry; if it goes on, close the index and open it again.`;
    return new IndexUnavailableError(this.#path, why, { cause: error });
  }

  get hasEnded(): boolean {
    return this.#failure !== null && !this.#holdsLock;
  }

  /** It ended within a transaction (out of memory): the next to begin one, in whichever thread, would wait for ever. */
  get #holdsLock(): boolean {
    return this.#gate.isInside;
  }

  #fail(error: unknown): void {
    if (this.#failure === null) {
      const next = this.#holdsLock
        ? " in the midst of a commit. Close the index and open it again."
        : ". Retry: another takes its place.";
      this.#failure = new IndexUnavailableError(this.#path, `its worker thread ended${next}`, { cause: error });
      if (this.#wasReady) this.#onLost();
    }
    for (const [id, waiting] of [...this.#waiting]) {
      this.#settle(id);
      waiting.reject(this.#failure);
    }
  }

  #request<T>(body: RequestBody, o: SweepCallbacks = {}): Promise<T> {
    if (this.#failure !== null) return Promise.reject(this.#failure);
    if (o.signal?.aborted) return Promise.reject(o.signal.reason);
    const id = this.#nextId++;
    return new Promise<T>((resolve, reject) => {
      const onAbort = (): void => this.#post({ id, kind: "abort" });
      const done = (): void => o.signal?.removeEventListener("abort", onAbort);
      o.signal?.addEventListener("abort", onAbort, { once: true });
      this.#waiting.set(id, {
        resolve: (result) => {
          done();
          resolve(result as T);
        },
        reject: (error) => {
          done();
          reject(o.signal?.aborted ? o.signal.reason : error);
        },
        onFiles: o.onFiles,
        settled: deferred(),
      });
      this.#worker.ref();
      this.#post({ ...body, id });
    });
  }

  #post(request: WorkerRequest): void {
    this.#gate.asks();
    this.#worker.postMessage(request);
  }

  commit(puts: PendingPut[]): Promise<void> {
    return this.#request({ kind: "commit", puts });
  }

  sweep(target: SweepTarget, callbacks: SweepCallbacks): Promise<SweepResult> {
    return this.#request({ kind: "sweep", target }, callbacks);
  }

  apply(places: readonly AppliedPlace[], callbacks: SweepCallbacks): Promise<ApplyResult> {
    return this.#request({ kind: "apply", places }, callbacks);
  }

  /** What runs ends at its next pause; the thread ends after it has closed LMDB. */
  async close(): Promise<void> {
    if (this.#failure !== null) return;
    for (const id of this.#waiting.keys()) this.#post({ id, kind: "abort" });
    await Promise.all([...this.#waiting.values()].map((waiting) => waiting.settled.promise));
    await this.#request({ kind: "close" }).catch(() => {});
    this.#failure ??= new IndexUnavailableError(this.#path, "it is closed. Open it again.");
    // Or a process that waits for nothing else would end before its close has.
    this.#worker.ref();
    await this.#worker.terminate();
  }
}

function workerFile(): URL {
  return import.meta.url.endsWith(".ts")
    ? new URL("./worker.ts", import.meta.url)
    : new URL("./definitions-worker.js", import.meta.url);
}

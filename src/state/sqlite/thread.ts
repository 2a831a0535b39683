/** Starting the worker, and what stands in for it where workers cannot start. */
import { existsSync } from "node:fs";
import { setImmediate } from "node:timers";
import { MessageChannel, type MessagePort, Worker } from "node:worker_threads";
import { delay } from "../../abort.ts";
import { forget, Gate, shutAtExit } from "../../gate.ts";
import { environmentVariable } from "../../permissions.ts";
import { nextTurn } from "../../slices.ts";
import type { FromWriter, ToWriter } from "./protocol.ts";
import { type PackedFromWriter, packToWriter, unpackFromWriter } from "./wire.ts";
import { WriterLoop } from "./writer-loop.ts";

export interface WriteTask {
  readonly role: "write";
  readonly dir: string;
  readonly flushed: boolean;
  /** See slots.ts and gate.ts. */
  readonly slots: SharedArrayBuffer;
  readonly gate: SharedArrayBuffer;
}

export type Task = WriteTask | { readonly role: "inspect"; readonly path: string; readonly index: number };

/** The writer as the calling thread sees it. */
export interface WriterHost {
  post(message: ToWriter): void;
  /** Whether it keeps the process alive: only while somebody waits for it. */
  keepAlive(on: boolean): void;
  /** Ends the thread at once. */
  terminate(): Promise<void>;
}

export interface HostEvents {
  message(message: FromWriter): void;
  /** The thread could not start, or died. */
  died(error: unknown): void;
}

/** A bundle may have left the worker's program behind; asked first, since Deno complains of that on standard error. */
export function workersAllowed(): boolean {
  const url = workerUrl();
  return !environmentVariable("TUSSOCK_NO_WORKERS") && url.protocol === "file:" && existsSync(url);
}

function workerUrl(): URL {
  return import.meta.url.endsWith(".ts")
    ? new URL("../worker.ts", import.meta.url)
    : new URL("./state-worker.js", import.meta.url);
}

export function startThread(task: WriteTask, events: HostEvents): WriterHost {
  const { worker, port } = start(task);
  const gate = new Gate(task.gate);
  shutAtExit(gate);
  port.on("message", (message: PackedFromWriter) => events.message(unpackFromWriter(message)));
  worker.once("error", (error) => events.died(error));
  worker.once("exit", () => {
    forget(gate);
    events.died(new Error("the writer's thread ended"));
  });
  return {
    post: (message) => port.postMessage(packToWriter(message)),
    keepAlive: (on) => {
      // The port alone counts; a worker that serves a port needs no reference of its own.
      if (on) port.ref();
      else port.unref();
    },
    terminate: async () => {
      port.close();
      while (!gate.shut()) await delay(1);
      await worker.terminate();
    },
  };
}

export function startInline(task: WriteTask, events: HostEvents): WriterHost {
  const loop = new WriterLoop(task, {
    emit: (message) => events.message(message),
    pull: () => {},
    turn: nextTurn,
  });
  void loop.start();
  return {
    // Not in the turn of whoever closes or waits.
    post: (message) => void setImmediate(() => loop.receive(message)),
    keepAlive: () => {},
    terminate: () => {
      loop.receive({ close: true });
      return loop.ended;
    },
  };
}

/** Runs one task on a thread of its own, and gives back the one message that it answers with. */
export function runTask<T>(task: Task, signal?: AbortSignal): Promise<T> {
  signal?.throwIfAborted();
  const { worker, port } = start(task);
  return new Promise((resolve, reject) => {
    const finish = (settle: () => void): void => {
      signal?.removeEventListener("abort", onAbort);
      port.close();
      worker.terminate().then(settle, settle);
    };
    const onAbort = (): void => finish(() => reject(signal?.reason));
    signal?.addEventListener("abort", onAbort, { once: true });
    port.once("message", (message: T) => finish(() => resolve(message)));
    worker.once("error", (error) => finish(() => reject(error)));
  });
}

function start(task: Task): { worker: Worker; port: MessagePort } {
  // Not the worker's own port: on Deno that one cannot be asked for messages within a turn.
  const { port1, port2 } = new MessageChannel();
  const worker = new Worker(workerUrl(), { workerData: { task, port: port2 }, transferList: [port2] });
  worker.unref();
  return { worker, port: port1 };
}

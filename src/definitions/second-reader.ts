/**
 * A second thread that reads files for this one, or looks at them. What it has done is taken without a turn of the event loop, so
 * that this thread may put it in the midst of a transaction.
 */
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from "node:worker_threads";
import { environmentVariable } from "../permissions.ts";
import type { ExamineOptions } from "../scan/examine.ts";
import type { FilesRead, FilesSeen, ReaderTask } from "./reader-work.ts";

/** What the thread is started with. */
export interface ReaderData {
  examine: Omit<ExamineOptions, "parse">;
  /** Tasks come in, answers go out in the same order. */
  port: MessagePort;
  /** One number: how many answers were sent; -1 until the thread is there. */
  sent: Int32Array;
}

export type ReaderAnswer = { result: FilesRead | FilesSeen } | { failure: string };

export class SecondReader {
  readonly #worker: Worker;
  readonly #port: MessagePort;
  readonly #sent = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  #taken = 0;
  #hasEnded = false;
  #stopped: Promise<unknown> | null = null;

  private constructor({ parse, ...examine }: ExamineOptions) {
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    this.#sent[0] = -1;
    // The caller's parser cannot be brought there.
    const deferParsing = examine.deferParsing === true || parse !== undefined;
    const workerData: ReaderData = { examine: { ...examine, deferParsing }, port: port2, sent: this.#sent };
    const resourceLimits = { maxYoungGenerationSizeMb: 64 };
    this.#worker = new Worker(program(), { workerData, transferList: [port2], resourceLimits });
    this.#worker.on("error", () => {}); // It ends.
    this.#worker.on("exit", () => {
      this.#hasEnded = true;
    });
  }

  /** It comes up in 30 to 50 ms, while this thread goes on. Null where there can be none. Stop it. */
  static start(options: ExamineOptions): SecondReader | null {
    // On Deno two threads together read no faster than one.
    if ("Deno" in globalThis || environmentVariable("TUSSOCK_NO_WORKERS")) return null;
    try {
      return new SecondReader(options);
    } catch {
      return null;
    }
  }

  /** Before, it is not worth giving it anything. */
  get isReady(): boolean {
    return Atomics.load(this.#sent, 0) >= 0;
  }

  /** Whether it will answer nothing any more. Known after a turn of the event loop. */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  give(task: ReaderTask): void {
    this.#port.postMessage(task);
  }

  /** The answer to the first task that has none yet, if it has come. */
  take(): FilesRead | FilesSeen | null {
    if (Atomics.load(this.#sent, 0) <= this.#taken) return null;
    const received = receiveMessageOnPort(this.#port) as { message: ReaderAnswer } | undefined;
    if (received === undefined) return null;
    this.#taken++;
    const { message } = received;
    if ("failure" in message) throw new Error(message.failure);
    const { result } = message;
    if (!("packed" in result)) return result;
    const { bytes, starts } = result.packed;
    // A Buffer crosses threads as a plain array of bytes.
    return { ...result, packed: { bytes: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), starts } };
  }

  /** Sleeps until an answer comes, at most so long. Whether one has come. */
  wait(ms: number): boolean {
    return Atomics.wait(this.#sent, 0, this.#taken, ms) !== "timed-out";
  }

  /** Settles when the thread has ended. */
  async stop(): Promise<void> {
    this.#stopped ??= this.#worker.terminate();
    await this.#stopped;
  }
}

function program(): URL {
  return import.meta.url.endsWith(".ts")
    ? new URL("./reader.ts", import.meta.url)
    : new URL("./definitions-reader.js", import.meta.url);
}

/** Drives the writer, on its thread or inline: takes requests as they come, and waits where it has to. */
import { deferred, delay } from "../../abort.ts";
import { Gate } from "../../gate.ts";
import { failureOf } from "./failure.ts";
import { closeStore, databasePath, type OpenStore, openForWriting } from "./open.ts";
import type { FromWriter, Request, ToWriter } from "./protocol.ts";
import { Slots } from "./slots.ts";
import type { WriteTask } from "./thread.ts";
import { Writer } from "./writer.ts";

/** Between two looks at a lock that another process has: short, since transactions are; uneven, so that none starves. */
const PAUSE_MS = 2;
/** How often a close tries to be alone with the store before it closes all the same. */
const CLOSE_TRIES = 100;

export interface Surroundings {
  emit(message: FromWriter): void;
  /** Hands over what has come meanwhile, to `receive`. */
  pull(): void;
  /** Awaited between two transactions; `answered` requests were in the one before. */
  turn(answered: number): Promise<void>;
}

export class WriterLoop {
  readonly #dir: string;
  readonly #slots: Slots;
  readonly #gate: Gate;
  readonly #surroundings: Surroundings;
  readonly #queue: Request[] = [];
  #store: OpenStore | null = null;
  #writer: Writer | null = null;
  #busy = true;
  #flushed: boolean;
  #closing = false;
  readonly #ended = deferred<void>();

  /** `flushed`: whether the disk is waited for at each commit, which a message may turn on later. */
  constructor({ dir, slots, gate, flushed }: WriteTask, surroundings: Surroundings) {
    this.#dir = dir;
    this.#gate = new Gate(gate);
    this.#flushed = flushed;
    this.#slots = new Slots(slots);
    this.#surroundings = surroundings;
  }

  /** Resolves when the store is closed, or could not be opened. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  /** Opens the store, for as long as it takes, and then serves until it is told to close. */
  async start(): Promise<void> {
    const path = databasePath(this.#dir);
    for (let tries = 0; !this.#closing; tries++) {
      try {
        this.#store = openForWriting(this.#dir, this.#gate);
        break;
      } catch (error) {
        const failure = failureOf(error, path);
        if (failure.kind !== "busy") return this.#end({ failed: failure });
        if (tries === 0) this.#surroundings.emit({ waiting: true });
        await pause();
      }
    }
    if (this.#store === null) return this.#end({ closed: true });
    this.#writer = new Writer(this.#store, path, this.#slots);
    this.#surroundings.emit({ opened: true });
    this.#busy = false;
    await this.#drain();
  }

  receive(message: ToWriter): void {
    if ("requests" in message) this.#queue.push(...message.requests);
    else if ("flushed" in message) this.#flushed = true;
    else this.#closing = true;
    if (!this.#busy) void this.#drain();
  }

  async #drain(): Promise<void> {
    const writer = this.#writer;
    if (writer === null) return;
    this.#busy = true;
    while (this.#queue.length > 0) {
      writer.flushed = this.#flushed;
      const replies = writer.commit(this.#queue, this.#surroundings.pull);
      if (replies !== null) {
        this.#surroundings.emit({ replies, commit: writer.lastCommit });
        await this.#surroundings.turn(replies.length);
        continue;
      }
      const skipped = writer.skip(this.#queue);
      if (skipped.length > 0) this.#surroundings.emit({ replies: skipped });
      if (this.#queue.length > 0) await pause();
    }
    if (this.#closing) await this.#close();
    else this.#busy = false;
  }

  /** Alone with the store if that can be had: then nobody opens it just while the WAL is removed. */
  async #close(): Promise<void> {
    const store = this.#store;
    if (store === null) return;
    this.#store = null;
    this.#writer = null;
    for (let tries = 0; tries < CLOSE_TRIES && !store.guard.lock(); tries++) await pause();
    try {
      closeStore(store);
    } finally {
      this.#end({ closed: true });
    }
  }

  #end(last: FromWriter): void {
    this.#ended.resolve();
    this.#surroundings.emit(last);
  }
}

function pause(): Promise<void> {
  return delay(PAUSE_MS * (0.5 + Math.random()));
}

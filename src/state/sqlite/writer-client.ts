/**
 * The calling thread's end of the writer: gathers the requests of a turn, settles each by its reply, and gives up those
 * that are aborted or late as long as the writer has not taken them.
 */

import { setImmediate } from "node:timers";
import { type Deferred, deferred } from "../../abort.ts";
import { Roll, type Seat } from "../../churn.ts";
import { ClosedError, StateStoreBusyError, StateStoreUnavailableError, WriteDeadlineError } from "../../errors.ts";
import type { CommitTimes, Scope } from "../record-store.ts";
import { toError } from "./failure.ts";
import type { Body, FromWriter, Reply, Request } from "./protocol.ts";
import { Slots } from "./slots.ts";
import type { WriterHost } from "./thread.ts";

/** Requests with the writer at a time; more wait here. */
export const SLOTS = 4_096;
/**
 * So many replies are settled, and requests sent, at a time: the writer works on the first requests of a turn while those
 * who were answered later still prepare theirs.
 */
const CHUNK = 8;
/** Fewer when the writer has nothing to do. */
const FIRST_CHUNK = 3;

/** The longest delay of a timer. */
const LONGEST_TIMER_MS = 2_147_483_647;

export interface SubmitOptions {
  signal?: AbortSignal | undefined;
  /** On the clock of `performance.now()`. */
  until: number;
  onCommit?: Scope["onCommit"];
  meanwhile?: Scope["meanwhile"];
}

class Pending {
  readonly body: Body;
  readonly options: SubmitOptions;
  readonly #resolve: (value: unknown) => void;
  readonly #reject: (reason: unknown) => void;
  readonly #submittedAt = performance.now();
  #onAbort: (() => void) | null = null;
  /** Among those that are yet to be sent. */
  seat: Seat<Pending> | null = null;
  /** -1 until it is sent. */
  slot = -1;
  settled = false;

  constructor(
    body: Body,
    options: SubmitOptions,
    resolve: (value: unknown) => void,
    reject: (reason: unknown) => void,
  ) {
    this.body = body;
    this.options = options;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  listen(onAbort: () => void): void {
    this.#onAbort = onAbort;
    this.options.signal?.addEventListener("abort", onAbort, { once: true });
  }

  waitedMs(): number {
    return performance.now() - this.#submittedAt;
  }

  succeed(value: unknown): void {
    if (this.#end()) this.#resolve(value);
  }

  fail(reason: unknown): void {
    if (this.#end()) this.#reject(reason);
  }

  #end(): boolean {
    if (this.settled) return false;
    this.settled = true;
    if (this.#onAbort !== null) this.options.signal?.removeEventListener("abort", this.#onAbort);
    return true;
  }
}

export class WriterClient {
  readonly #path: string;
  readonly #slots: Slots;
  readonly #free: number[];
  readonly #host: WriterHost;
  /** With the writer, by slot. */
  readonly #sent: (Pending | null)[];
  readonly #waiting = new Roll<Pending>();
  /** Sent, with something to do in the meantime. */
  #meanwhile: Pending[] = [];
  /** Requests that the writer has not answered yet: of the others, some replies may still be unsettled here. */
  #unanswered = 0;
  /** Told of what was committed, before those who asked for it are. */
  onCommit: (() => void) | null = null;
  /** There is a turn at whose end something may be sent; and replies that are yet to be settled. */
  #sending = false;
  #settling = false;
  #deadline: NodeJS.Timeout | undefined;
  #deadlineAt = Number.POSITIVE_INFINITY;
  #failure: Error | null = null;
  #closing: Deferred<void> | null = null;
  #closeSent = false;

  /** `host` has the store open. */
  constructor(path: string, memory: SharedArrayBuffer, host: WriterHost) {
    this.#path = path;
    this.#slots = new Slots(memory);
    this.#free = Array.from({ length: this.#slots.size }, (_, slot) => slot);
    this.#sent = this.#free.map(() => null);
    this.#host = host;
    host.keepAlive(false);
  }

  /**
   * Resolves with what the writer answers, once it is committed.
   *
   * Aborted before the writer takes the request: rejects with `signal.reason`, and nothing was done. Late before that:
   * StateStoreBusyError, and nothing was done. Late after it: WriteDeadlineError.
   */
  submit<T>(body: Body, options: SubmitOptions): Promise<T> {
    if (this.#failure !== null) return Promise.reject(this.#failure);
    if (this.#closing !== null) return Promise.reject(new ClosedError("the state store"));
    if (options.signal?.aborted) return Promise.reject(options.signal.reason);
    return new Promise<T>((resolve, reject) => {
      const pending = new Pending(body, options, resolve as (value: unknown) => void, reject);
      if (options.signal !== undefined) pending.listen(() => this.#giveUp(pending, options.signal?.reason));
      if (this.#waiting.size + this.#underWay === 0) this.#host.keepAlive(true);
      pending.seat = this.#waiting.add(pending);
      this.#watchDeadline(options.until);
      this.#sendSoon();
      // As much work as a chunk of requests: the writer need not wait for the end of the turn.
      if (body.kind === "write" && body.changes.length >= CHUNK) this.#send();
    });
  }

  /** From now on each commit waits for the disk. */
  flush(): void {
    this.#host.post({ flushed: true });
  }

  receive(message: FromWriter): void {
    if ("replies" in message) {
      this.#unanswered -= message.replies.length;
      if (message.replies.some(({ result }) => result.ok)) this.onCommit?.();
      this.#settleInChunks(message.replies, message.commit ?? null, 0);
    } else if ("closed" in message) this.#closing?.resolve();
  }

  /** The thread is gone: nobody knows what became of what it had taken. */
  die(cause: unknown): void {
    this.#failure = new StateStoreUnavailableError(this.#path, "its writer ended. Close the index and open it again", {
      cause,
    });
    for (const pending of this.#unsettled()) {
      const taken = pending.slot >= 0 && !this.#slots.giveUp(pending.slot);
      pending.fail(taken ? this.#unknown(pending, cause) : this.#failure);
      if (pending.slot >= 0) this.#free.push(pending.slot);
    }
    while (this.#waiting.size > 0) this.#waiting.shift();
    this.#sent.fill(null);
    this.#closing?.resolve();
    this.#rest();
  }

  /** Waits for what is under way, then closes the store. */
  async close(): Promise<void> {
    if (this.#closing === null) {
      this.#closing = deferred<void>();
      this.#rest();
    }
    await this.#closing.promise;
    await this.#host.terminate();
  }

  /** In chunks, the last at the end of the turn: everything that is asked for in one turn becomes one transaction. */
  #sendSoon(): void {
    if (!this.#sending) {
      this.#sending = true;
      this.#slots.turnBegins();
      setImmediate(() => {
        this.#sending = false;
        this.#send();
        if (this.#settling) return;
        this.#slots.turnIsOver();
        if (this.#meanwhile.length > 0) setImmediate(() => this.#useWait());
      });
    } else if (this.#free.length > 0 && this.#waiting.size >= (this.#unanswered === 0 ? FIRST_CHUNK : CHUNK)) {
      this.#send();
      this.#slots.turnGoesOn();
    }
  }

  #send(): void {
    const requests: Request[] = [];
    while (this.#waiting.size > 0) {
      const slot = this.#free.pop();
      if (slot === undefined) break;
      const pending = this.#waiting.shift() as Pending;
      pending.slot = slot;
      this.#slots.reset(slot);
      this.#sent[slot] = pending;
      requests.push({ slot, body: pending.body });
      if (pending.options.meanwhile !== undefined) this.#meanwhile.push(pending);
    }
    if (requests.length === 0) return;
    this.#unanswered += requests.length;
    this.#host.post({ requests });
  }

  /** What those who are still waiting can do before they are answered. */
  #useWait(): void {
    const waiting = this.#meanwhile;
    this.#meanwhile = [];
    for (const pending of waiting) if (!pending.settled) pending.options.meanwhile?.();
  }

  /** Between two chunks those who were answered go on; promises do not let them before the turn of the event loop ends. */
  #settleInChunks(replies: readonly Reply[], commit: CommitTimes | null, from: number): void {
    const to = Math.min(from + (from === 0 ? FIRST_CHUNK : CHUNK), replies.length);
    for (const reply of replies.slice(from, to)) this.#settle(reply, commit);
    this.#settling = to < replies.length;
    if (this.#settling) setImmediate(() => this.#settleInChunks(replies, commit, to));
    this.#sendSoon();
    this.#rest();
  }

  #settle({ slot, result }: Reply, commit: CommitTimes | null): void {
    const pending = this.#sent[slot] ?? null;
    if (pending === null) return;
    this.#sent[slot] = null;
    this.#free.push(slot);
    if (commit !== null) pending.options.onCommit?.(commit, pending.waitedMs());
    if (result.ok) pending.succeed(result.value);
    else if (result.ok === false) pending.fail(toError(result.failure, this.#path, pending.waitedMs()));
  }

  /** Rejects with `reason` unless the writer has taken it. */
  #giveUp(pending: Pending, reason: unknown): boolean {
    if (pending.slot < 0 && pending.seat !== null) this.#waiting.remove(pending.seat);
    else if (!this.#slots.giveUp(pending.slot)) return false;
    pending.fail(reason);
    this.#rest();
    return true;
  }

  /** One timer, for the deadline that comes first. */
  #watchDeadline(until: number): void {
    if (until >= this.#deadlineAt) return;
    clearTimeout(this.#deadline);
    this.#deadlineAt = until;
    this.#deadline = setTimeout(() => this.#expire(), Math.min(until - performance.now(), LONGEST_TIMER_MS));
  }

  #expire(): void {
    this.#deadlineAt = Number.POSITIVE_INFINITY;
    const now = performance.now();
    for (const pending of this.#unsettled()) {
      if (pending.settled) continue;
      if (pending.options.until > now) this.#watchDeadline(pending.options.until);
      else if (!this.#giveUp(pending, new StateStoreBusyError(this.#path, pending.waitedMs()))) {
        pending.fail(this.#unknown(pending));
      }
    }
  }

  /** How many requests the writer has. */
  get #underWay(): number {
    return this.#slots.size - this.#free.length;
  }

  #unsettled(): Pending[] {
    return [...this.#waiting, ...this.#sent.filter((pending) => pending !== null)];
  }

  #unknown(pending: Pending, cause?: unknown): WriteDeadlineError {
    const error = new WriteDeadlineError(this.#path, Math.round(pending.waitedMs()));
    if (cause !== undefined) error.cause = cause;
    return error;
  }

  /** When nothing is under way: no timer, nothing that keeps the process alive, and the way free for closing. */
  #rest(): void {
    if (this.#waiting.size > 0 || this.#underWay > 0) return;
    clearTimeout(this.#deadline);
    this.#deadlineAt = Number.POSITIVE_INFINITY;
    this.#host.keepAlive(this.#closing !== null);
    if (this.#closing === null || this.#closeSent) return;
    this.#closeSent = true;
    if (this.#failure === null) this.#host.post({ close: true });
    else this.#closing.resolve();
  }
}

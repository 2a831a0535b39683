/** The keyed queue: who may run when. The lines themselves are in `lines.ts`. */
import { type AbortOptions, abortable, type Deferred, deferred } from "../abort.ts";
import { checkOptions } from "../arguments.ts";
import { Roll } from "../churn.ts";
import { ClosedError, InvalidArgumentError, NestedTransitionError, QueueFullError } from "../errors.ts";
import { Lines } from "./lines.ts";
import type { TransitionQueue, TransitionQueueOptions, TransitionStats } from "./model.ts";
import { enclosing, isInside, runInside } from "./nesting.ts";
import { observeQueue, observeTransition, type TransitionTelemetry } from "./observe.ts";
import { SlowWatch } from "./slow.ts";
import { Transition } from "./transition.ts";

export function createTransitionQueue(options: TransitionQueueOptions = {}): TransitionQueue {
  return new KeyedQueue(options);
}

const QUEUE = "the transition queue";

class KeyedQueue implements TransitionQueue {
  readonly #name: string;
  readonly #concurrency: number;
  readonly #maxPendingPerKey: number;
  readonly #lines = new Lines<Transition>();
  /** All that wait, and all that run, oldest first. */
  readonly #waiting = new Roll<Transition>();
  readonly #running = new Roll<Transition>();
  /** Those of the waiting that hold their keys and lack a slot only, in the order in which they came to that. */
  readonly #lackSlot = new Roll<Transition>();
  readonly #slow: SlowWatch | null;
  /** Aborts when `close` is cut short. */
  readonly #cutShort = new AbortController();
  #closed = false;
  #becameIdle: Deferred<void> | null = null;

  constructor(options: TransitionQueueOptions) {
    checkOptions(options, "onSlow");
    const { slowAfterMs, onSlow } = options;
    this.#name = options.name ?? "";
    this.#concurrency = bound("concurrency", options.concurrency);
    this.#maxPendingPerKey = bound("maxPendingPerKey", options.maxPendingPerKey);
    if (slowAfterMs !== undefined && !(slowAfterMs > 0))
      throw new InvalidArgumentError("slowAfterMs", slowAfterMs, "a number of milliseconds above 0");
    if (slowAfterMs !== undefined && onSlow === undefined)
      throw new InvalidArgumentError("onSlow", onSlow, "a function that is told what slowAfterMs finds");
    this.#slow =
      slowAfterMs === undefined || onSlow === undefined
        ? null
        : new SlowWatch(slowAfterMs, this.#running, ({ keys, waitedMs, places }, runningMs) => {
            const waiting = places.reduce((sum, { line }) => sum + line.length - 1, 0);
            onSlow({ keys, runningMs, waitedMs, waiting });
          });
    observeQueue(this, this.#name);
  }

  get size(): number {
    return this.#waiting.size + this.#running.size;
  }

  depth(key: string): number {
    return this.#lines.depth(key);
  }

  stats(): TransitionStats {
    const now = performance.now();
    const { first: waiter } = this.#waiting;
    const { first: runner } = this.#running;
    return {
      waiting: this.#waiting.size,
      running: this.#running.size,
      keys: this.#lines.size,
      oldestWaiter: waiter === undefined ? null : { keys: waiter.keys, waitedMs: now - waiter.enteredAt },
      longestRunning: runner === undefined ? null : { keys: runner.keys, runningMs: now - runner.startedAt },
    };
  }

  run<R>(
    key: string | readonly string[],
    fn: (signal: AbortSignal) => R | Promise<R>,
    options?: AbortOptions,
  ): Promise<R> {
    const telemetry = observeTransition();
    const result = this.#run(key, fn, options, telemetry);
    return telemetry === null ? result : telemetry.settled(result);
  }

  /** Being one async function is what makes `fn` run in the async context of its caller, not of whoever was before it. */
  async #run<R>(
    key: string | readonly string[],
    fn: (signal: AbortSignal) => R | Promise<R>,
    options: AbortOptions | undefined,
    telemetry: TransitionTelemetry | null,
  ): Promise<R> {
    checkOptions(options);
    const signal = options?.signal;
    const transition = this.#admit(key, fn, signal, telemetry);
    const free = this.#lines.enter(transition) && this.#running.size < this.#concurrency;
    if (free) this.#start(transition);
    // Never in the turn of the call, free or not: one order of events for the caller.
    await (free ? undefined : this.#turn(transition, signal));
    try {
      // What has come since its turn came is still before the start.
      signal?.throwIfAborted();
      if (this.#cutShort.signal.aborted) throw new ClosedError(QUEUE);
      const given = signal ?? this.#cutShort.signal;
      if (telemetry === null) return await runInside(transition, fn, given);
      return await telemetry.run(transition.waitedMs, () => runInside(transition, fn, given));
    } finally {
      this.#release(transition);
    }
  }

  async idle(options?: AbortOptions): Promise<void> {
    checkOptions(options);
    if (options?.signal?.aborted) return Promise.reject(options.signal.reason);
    if (this.size === 0) return Promise.resolve();
    this.#becameIdle ??= deferred();
    return abortable(this.#becameIdle.promise, options?.signal);
  }

  async close(options?: AbortOptions): Promise<void> {
    checkOptions(options);
    const signal = options?.signal;
    signal?.throwIfAborted();
    this.#closed = true;
    // In the instant of the abort: whoever waits must not begin any more.
    const cutShort = (): void => {
      this.#cutShort.abort(signal?.reason);
      for (let next = this.#waiting.first; next !== undefined; next = this.#waiting.first)
        this.#abandon(next, new ClosedError(QUEUE));
    };
    signal?.addEventListener("abort", cutShort, { once: true });
    try {
      await this.idle(options);
    } finally {
      signal?.removeEventListener("abort", cutShort);
      this.#slow?.stop();
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Refuses what must not enter a line. */
  #admit(
    key: unknown,
    fn: unknown,
    signal: AbortSignal | undefined,
    telemetry: TransitionTelemetry | null,
  ): Transition {
    const keys = keysOf(key);
    if (typeof fn !== "function") throw new InvalidArgumentError("fn", fn, "a function");
    let deepest = 0;
    if (telemetry !== null || this.#maxPendingPerKey !== Number.POSITIVE_INFINITY) {
      for (const each of keys) deepest = Math.max(deepest, this.#lines.depth(each));
      telemetry?.entered(this.#name, keys, deepest);
    }
    signal?.throwIfAborted();
    if (this.#closed) throw new ClosedError(QUEUE);
    const outer = enclosing();
    if (isInside(this, outer)) throw new NestedTransitionError(keys);
    if (deepest >= this.#maxPendingPerKey) this.#refuseFullLine(keys);
    return new Transition(keys, this, outer);
  }

  #refuseFullLine(keys: readonly string[]): void {
    for (const key of keys) {
      const waiting = this.#lines.depth(key) - (this.#lines.first(key)?.running ? 1 : 0);
      if (waiting >= this.#maxPendingPerKey) throw new QueueFullError(key, this.#maxPendingPerKey);
    }
  }

  /** Resolves when the transition has its keys and a slot. */
  async #turn(transition: Transition, signal: AbortSignal | undefined): Promise<void> {
    const turn = deferred<void>();
    transition.turn = turn;
    transition.enteredAt = performance.now();
    transition.seat = this.#waiting.add(transition);
    if (transition.ahead === 0) this.#lackASlot(transition);
    if (signal === undefined) return turn.promise;
    const onAbort = (): void => this.#abandon(transition, signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      await turn.promise;
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }

  #start(transition: Transition): void {
    transition.running = true;
    transition.startedAt = performance.now();
    const waited = transition.seat;
    transition.seat = this.#running.add(transition);
    this.#slow?.started();
    if (waited === null) return;
    this.#waiting.remove(waited);
    transition.turn?.resolve();
  }

  /** Leaves the lines without having run; of no effect once its turn has come. */
  #abandon(transition: Transition, reason: unknown): void {
    const { seat, slotSeat } = transition;
    if (transition.running || seat === null || !this.#waiting.remove(seat)) return;
    transition.seat = null;
    if (slotSeat !== null) this.#lackSlot.remove(slotSeat);
    transition.turn?.reject(reason);
    this.#leave(transition);
  }

  #release(transition: Transition): void {
    transition.running = false;
    if (transition.seat !== null) this.#running.remove(transition.seat);
    transition.seat = null;
    this.#leave(transition);
  }

  #leave(transition: Transition): void {
    this.#lines.leave(transition, this.#lackASlot);
    while (this.#lackSlot.size > 0 && this.#running.size < this.#concurrency) {
      const next = this.#lackSlot.shift() as Transition;
      next.slotSeat = null;
      this.#start(next);
    }
    if (this.#becameIdle !== null && this.size === 0) {
      this.#becameIdle.resolve();
      this.#becameIdle = null;
    }
  }

  readonly #lackASlot = (transition: Transition): void => {
    transition.slotSeat = this.#lackSlot.add(transition);
  };
}

function keysOf(key: unknown): readonly string[] {
  if (typeof key === "string") return [key];
  if (!Array.isArray(key) || key.length === 0 || !key.every((each) => typeof each === "string"))
    throw new InvalidArgumentError("key", key, "a string or a non-empty list of strings");
  return [...new Set<string>(key)];
}

function bound(name: string, value: number | undefined): number {
  if (value === undefined || value === Number.POSITIVE_INFINITY) return Number.POSITIVE_INFINITY;
  if (Number.isSafeInteger(value) && value >= 1) return value;
  throw new InvalidArgumentError(name, value, "a whole number of at least 1");
}

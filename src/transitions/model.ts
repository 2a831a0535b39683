/** The transition queue as its users see it. */
import type { AbortOptions } from "../abort.ts";

export interface TransitionQueueOptions {
  /** Says in telemetry which queue it is. */
  name?: string;
  /** How many transitions may run at once over all keys. Default: no bound. */
  concurrency?: number;
  /** How many may wait for one key; one more is refused with `QueueFullError`. Default: no bound. */
  maxPendingPerKey?: number;
  /** A transition that has run for longer is reported to `onSlow`, once, while it still runs. Milliseconds. */
  slowAfterMs?: number;
  onSlow?: (slow: SlowTransition) => void;
}

export interface SlowTransition {
  keys: readonly string[];
  runningMs: number;
  waitedMs: number;
  /** How many wait in the lines of its keys. */
  waiting: number;
}

export interface TransitionStats {
  waiting: number;
  running: number;
  /** Keys that are held or waited for. */
  keys: number;
  oldestWaiter: { keys: readonly string[]; waitedMs: number } | null;
  longestRunning: { keys: readonly string[]; runningMs: number } | null;
}

/**
 * Runs transitions of the same key one at a time, in the order in which they were asked for, and of different keys side
 * by side. In memory, in this process: it orders work, it does not lock anything against other processes.
 *
 * One line for every change of any worker, token or lease is what reports 3984 and 3755 found behind their waits.
 */
export interface TransitionQueue extends AsyncDisposable {
  /**
   * Runs `fn` when all of its keys are free and everybody who asked earlier for any of them is done (when that is now, in
   * the next microtask), and settles as `fn` does, never before. `fn` gets `signal`, or where none was given the queue's own, which aborts
   * when `close` is cut short; a listener that it adds there it must remove. A transition that throws stops none behind it.
   *
   * Point of no return: the start of `fn`. Aborted before, it leaves the lines at once, `fn` never runs and `run` rejects
   * with `signal.reason`; after, `fn` decides.
   *
   * @throws NestedTransitionError inside a running transition of the same queue, which could wait for itself: ask for all
   *   keys in the outer `run`.
   * @throws QueueFullError when a line is at `maxPendingPerKey`.
   * @throws ClosedError after `close`.
   * @throws InvalidArgumentError for a list without a key.
   */
  run<R>(
    key: string | readonly string[],
    fn: (signal: AbortSignal) => R | Promise<R>,
    options?: AbortOptions,
  ): Promise<R>;
  /** How many wait or run. */
  readonly size: number;
  /** How many wait or run for this key. */
  depth(key: string): number;
  stats(): TransitionStats;
  /**
   * Resolves when nothing waits or runs. Not to be awaited inside a transition, which would wait for itself. An abort ends
   * the waiting and changes nothing.
   */
  idle(options?: AbortOptions): Promise<void>;
  /**
   * Takes no more transitions, and resolves when all that were taken have settled. Its point of no return is the call.
   *
   * An abort cuts it short: those that wait reject with `ClosedError` and never run; those that run see the queue's signal
   * abort, and go on until they settle, which `idle` waits for; `close` rejects with `signal.reason` at once.
   */
  close(options?: AbortOptions): Promise<void>;
}

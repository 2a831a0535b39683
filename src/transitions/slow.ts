/** Notices transitions that run for long, with one timer for a whole queue. */
import type { Transition } from "./transition.ts";

export class SlowWatch {
  readonly #afterMs: number;
  readonly #running: Iterable<Transition>;
  readonly #report: (transition: Transition, runningMs: number) => void;
  #timer: ReturnType<typeof setTimeout> | null = null;

  /** `running` in the order in which they started. */
  constructor(
    afterMs: number,
    running: Iterable<Transition>,
    report: (transition: Transition, runningMs: number) => void,
  ) {
    this.#afterMs = afterMs;
    this.#running = running;
    this.#report = report;
  }

  /**
   * A transition has started. The timer stays when it settles in time, so that short ones cost nothing; it ends by itself
   * when it finds nothing to watch, and keeps no process alive.
   */
  started(): void {
    if (this.#timer === null) this.#arm(this.#afterMs);
  }

  stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #arm(ms: number): void {
    this.#timer = setTimeout(() => this.#look(), ms);
    unref(this.#timer);
  }

  #look(): void {
    const now = performance.now();
    this.#timer = null;
    const slow: Transition[] = [];
    for (const transition of this.#running) {
      if (transition.reportedSlow) continue;
      const left = this.#afterMs - (now - transition.startedAt);
      if (left > 0) {
        this.#arm(left);
        break;
      }
      slow.push(transition);
    }
    for (const transition of slow) {
      transition.reportedSlow = true;
      // Each on its own, so that a hook that throws hides no other; what it throws is uncaught, as in any callback.
      queueMicrotask(() => this.#report(transition, now - transition.startedAt));
    }
  }
}

/** Deno's global timers are numbers, as a browser's are. */
function unref(timer: unknown): void {
  if (typeof timer === "object") (timer as { unref?(): void }).unref?.();
  else (globalThis as { Deno?: { unrefTimer?(id: unknown): void } }).Deno?.unrefTimer?.(timer);
}

/** How long the event loop is held: a timer of 1 ms that notes how late it comes. */
import { threadCpu } from "../harness.ts";

export interface LoopDelay {
  /** The longest, in ms. */
  max: number;
  /** CPU time that this thread used during the longest: what is missing, it did not hold the loop for; it waited, or the machine was busy. */
  cpu: number;
}

export class LoopWatch {
  #last = performance.now();
  #lastCpu = threadCpu();
  #worst: LoopDelay = { max: 0, cpu: 0 };
  #timer: ReturnType<typeof setTimeout>;

  constructor() {
    this.#timer = setTimeout(this.#tick, 1);
  }

  readonly #tick = (): void => {
    this.#note();
    this.#timer = setTimeout(this.#tick, 1);
  };

  #note(): void {
    const now = performance.now();
    const cpu = threadCpu();
    const delay = now - this.#last - 1;
    if (delay > this.#worst.max) this.#worst = { max: delay, cpu: cpu - this.#lastCpu };
    this.#last = now;
    this.#lastCpu = cpu;
  }

  stop(): LoopDelay {
    clearTimeout(this.#timer);
    this.#note();
    return this.#worst;
  }
}

/** The longest that the loop is held while `work` runs, and what it still does in the turn after. */
export async function longestHold(work: () => Promise<unknown>): Promise<LoopDelay> {
  const watch = new LoopWatch();
  await work();
  await new Promise((resolve) => setTimeout(resolve, 2));
  return watch.stop();
}

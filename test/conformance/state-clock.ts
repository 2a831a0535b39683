/** What time it is at a store: set where somebody can, else asked of the store, and measured from there. */
import { ok } from "node:assert/strict";
import { stepLeaseLifecycle } from "../../src/state/lifecycle.ts";
import type { Open } from "./state-index.ts";

/** The clock that a store goes by, in the hands of the suite. */
export interface SubjectClock {
  /**
   * Makes it this time for all indexes of the place, in epoch milliseconds; null: the time that it would be by itself. When
   * it has resolved, what is changed from then on carries that time.
   */
  set(time: number | null): Promise<void> | void;
  /**
   * 0, the default: the clock stands still where it was set, and every time is compared to the millisecond. More: it goes on
   * from there by itself, and a time may be so far from what was expected.
   */
  readonly slackMs?: number;
}

/** A clock that is set begins here. */
export const START = 1_800_000_000_000;

/** Of a clock that nobody sets: how far a time may be from what the store's other records say. */
const SLACK_MS = 1_000;

/** What time it is by the store's own clock: that of a record that is made now. */
export async function timeAt(open: Open): Promise<number> {
  const index = await open({ name: "what time it is", lifecycle: stepLeaseLifecycle });
  const { createdAt } = await index.insert({ id: `${Math.random()}`, data: {} });
  const madeAt = performance.now();
  ok(Number.isInteger(createdAt), `${createdAt} is no time in whole milliseconds`);
  await index.close();
  return createdAt + Math.floor(performance.now() - madeAt);
}

export function slackOf(clock: SubjectClock | undefined): number {
  return clock === undefined ? SLACK_MS : (clock.slackMs ?? 0);
}

export class StoreTime {
  /** How far from `now()` a time may be. */
  readonly slackMs: number;
  /** Times to give, relative to `START`, are so far from there: the store's clock cannot be moved, so they are. */
  shift = 0;
  readonly #clock: SubjectClock | undefined;
  #time: number;
  #setAt = performance.now();

  private constructor(clock: SubjectClock | undefined, time: number) {
    this.#clock = clock;
    this.#time = time;
    this.slackMs = slackOf(clock);
  }

  /** `START` by a clock that can be set; `end()` lets it go. */
  static async begin(open: Open, clock: SubjectClock | undefined): Promise<StoreTime> {
    await clock?.set(START);
    const time = new StoreTime(clock, clock === undefined ? await timeAt(open) : START);
    if (clock === undefined) time.shift = time.now() - START;
    return time;
  }

  /** Whether the store gives a change the very time that it is now. */
  get isExact(): boolean {
    return this.slackMs === 0;
  }

  now(): number {
    return this.isExact ? this.#time : this.#time + Math.floor(performance.now() - this.#setAt);
  }

  /** The clock goes by so much; of one that nobody sets, what is given goes the other way. */
  async move(by: number): Promise<void> {
    if (this.#clock === undefined) {
      this.shift -= by;
      return;
    }
    this.#time = this.now() + by;
    await this.#clock.set(this.#time);
    this.#setAt = performance.now();
  }

  /** `time` is that of a change that was begun when it was `from`, and is over. */
  check(time: number, from: number): void {
    const now = this.now();
    const isThen = Number.isInteger(time) && time >= from - this.slackMs && time <= now + this.slackMs;
    ok(isThen, `a change that was made from ${from} to ${now} says ${time} (${this.slackMs} ms allowed)`);
  }

  async end(): Promise<void> {
    await this.#clock?.set(null);
  }
}

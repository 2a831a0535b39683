/** What every `StateIndex` must do, whatever it keeps its records in. */
import type { Lifecycle } from "../../src/state/lifecycle.ts";
import type { IndexFunction, Retention, StateIndex, StateMirror } from "../../src/state/model.ts";
import { type ConformanceCase, keptOn } from "./case.ts";
import { bulk } from "./state-bulk.ts";
import type { SubjectClock } from "./state-clock.ts";
import { following } from "./state-following.ts";
import { listings } from "./state-listings.ts";
import { randomRuns } from "./state-random.ts";
import { sweeps } from "./state-sweeps.ts";
import { writes } from "./state-writes.ts";

export interface SubjectOptions<D, S extends string> {
  name: string;
  lifecycle: Lifecycle<S>;
  indexes?: Record<string, IndexFunction<D, S> | null>;
  /** Default in these cases: false. */
  retention?: Retention | false;
  mirror?: StateMirror<D, S> | false;
  signal?: AbortSignal;
}

export interface StateIndexSubject {
  /** Opens an index on the place, beside those that are open already. */
  open<D, S extends string>(options: SubjectOptions<D, S>): Promise<StateIndex<D, S>>;
  /**
   * The clock that the store goes by, if somebody can set it. Without it times are held against those that the store gives
   * other records, to a second, and no promise says what happens when the clock is set back.
   */
  readonly clock?: SubjectClock;
  /** Lets the place go. Called once, after all indexes were closed. */
  remove?(): Promise<void>;
}

/** Opens on the place that the promise has for itself; what it opens is closed afterwards. */
export type Open = StateIndexSubject["open"];

/** What must hold, and how to see it. */
export type Promises = Record<string, (open: Open, clock: SubjectClock | undefined) => Promise<void>>;

/**
 * The promises of a {@link StateIndex}, for any test runner:
 *
 *     for (const { name, run } of stateIndexConformance(createEmptyPlace)) test(name, run);
 *
 * `create` makes a place without records, for each promise a new one. A clock that belongs to the whole process can be set
 * by one promise at a time: then do not run them side by side.
 */
export function stateIndexConformance(create: () => Promise<StateIndexSubject>): ConformanceCase[] {
  const all: Promises = { ...writes, ...listings, ...bulk, ...sweeps, ...following, ...randomRuns };
  return Object.entries(all).map(([name, keep]) => ({
    name,
    async run() {
      const subject = await create();
      await keptOn(subject, async (opened) => {
        try {
          await keep(async (options) => opened(subject.open({ retention: false, ...options })), subject.clock);
        } finally {
          await subject.clock?.set(null);
        }
      });
    },
  }));
}

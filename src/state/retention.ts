/** Pruning: on demand, and of terminal records that ended long ago, so that they do not pile up for ever. */
import { clearTimeout, setTimeout } from "node:timers";
import { nextTurn } from "../slices.ts";
import type { Kit } from "./kit.ts";
import { DANGLING, isTerminal } from "./lifecycle.ts";
import { checkBound, checkInteger } from "./limits.ts";
import type { PruneOptions, Retention } from "./model.ts";

export const DEFAULT_RETENTION: Retention = { endedForMs: 30 * 24 * 60 * 60 * 1_000 };

const BATCH = 500;
const HOUR_MS = 60 * 60 * 1_000;

/**
 * Removes records, the oldest first, and returns how many. What the mirror has not delivered yet stays.
 * Aborted before the first commit: rejects with the signal's reason. Later: stops, and says how many. So does the closing
 * of the index, with ClosedError in place of the reason.
 */
export async function prune<D, S extends string>(kit: Kit<D, S>, o: PruneOptions<S>): Promise<number> {
  const before = o.endedBefore === undefined ? Number.MAX_SAFE_INTEGER : checkBound("endedBefore", o.endedBefore);
  const keep = o.keep === undefined ? 0 : checkInteger("keep", o.keep);
  let total = 0;
  try {
    for (const state of kit.rules.checkStates(o.states)) {
      for (let more = true; more; ) {
        const batch = await kit.store.prune({ state, before, keep, limit: BATCH }, kit.scope(o.signal));
        total += batch.pruned;
        more = batch.more;
        if (more) await nextTurn();
      }
    }
  } catch (error) {
    if (!kit.isStop(error, o.signal) || total === 0) throw error;
  }
  return total;
}

/** Prunes what has ended long enough ago: soon after the index is opened, then every hour (or oftener for short spans). */
export class RetentionKeeper<D, S extends string> {
  readonly #kit: Kit<D, S>;
  readonly #retention: Retention;
  readonly #stop = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<unknown> = Promise.resolve();

  constructor(kit: Kit<D, S>, retention: Retention) {
    this.#kit = kit;
    this.#retention = { ...retention, endedForMs: checkInteger("retention.endedForMs", retention.endedForMs) };
    this.#schedule(0);
  }

  /** Ends it, after the commit that is under way. */
  async close(): Promise<void> {
    this.#stop.abort();
    clearTimeout(this.#timer);
    await this.#running;
  }

  #schedule(ms: number): void {
    this.#timer = setTimeout(() => {
      this.#running = this.#run();
    }, ms);
    this.#timer.unref(); // No process stays for it.
  }

  async #run(): Promise<void> {
    const { lifecycle } = this.#kit.rules;
    const states = [...lifecycle.states.filter((state) => isTerminal(lifecycle, state)), DANGLING] as const;
    const { endedForMs, keep } = this.#retention;
    try {
      const endedBefore = this.#kit.store.now() - endedForMs;
      await prune(this.#kit, { states, endedBefore, keep, signal: this.#stop.signal });
    } catch {
      // A store that is busy, full or damaged says so to whoever calls; here there is always a next time.
    }
    if (!this.#stop.signal.aborted) this.#schedule(Math.min(HOUR_MS, Math.max(1_000, endedForMs / 4)));
  }
}

/** Brings every type up to date while nobody waits for it, and keeps those fresh that the kernel does not tell of. */
import type { Freshness } from "./freshness.ts";
import type { TypeTree } from "./type-tree.ts";

/** Changes come in bursts: one pass for all of them. */
const SOON_MS = 50;

export class BackgroundSweep {
  readonly #freshness: Freshness;
  readonly #tree: TypeTree;
  readonly #intervalMs: number;
  readonly #beforeEach: () => void;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #running: Promise<void> | null = null;
  #closed = false;
  #again = false;
  #lookupsAtLastSweep = 0;

  /** `beforeEach` is called at the beginning of each pass. */
  constructor(freshness: Freshness, tree: TypeTree, intervalMs: number, beforeEach: () => void) {
    this.#beforeEach = beforeEach;
    this.#freshness = freshness;
    this.#tree = tree;
    this.#intervalMs = intervalMs;
    freshness.onSweepNeeded = () => this.#soon();
  }

  #soon(): void {
    if (this.#running === null) this.#schedule(SOON_MS);
    else this.#again = true;
  }

  /** The first pass begins in a turn of its own: whoever has opened the index asks first. */
  start(): void {
    this.#schedule(0);
  }

  #schedule(ms: number): void {
    if (this.#closed) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#running = this.#pass().finally(() => {
        this.#running = null;
        this.#schedule(this.#again ? SOON_MS : this.#intervalMs);
        this.#again = false;
      });
    }, ms);
    this.#timer.unref();
  }

  /** What fails here is not lost: whoever asks for the type meets the same failure. */
  async #pass(): Promise<void> {
    try {
      this.#beforeEach();
      if (this.#freshness.observations > this.#lookupsAtLastSweep) this.#callForBoundedTypes();
      await this.#freshness.bringAll();
      this.#lookupsAtLastSweep = this.#freshness.observations;
    } catch {
      return;
    }
  }

  /** An in-place edit leaves no trace in a directory's stamp: only a look at each file finds it. */
  #callForBoundedTypes(): void {
    for (const state of this.#tree.types.values()) if (state.swept && state.boundedBecause !== null) state.invalidate();
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#running;
  }
}

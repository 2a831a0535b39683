/** The engine for the life of an index: started at first use, and another in its place when its thread has ended by an error. */
import type { AppliedPlace, ApplyResult, IndexEngine, SweepCallbacks } from "./engine.ts";
import type { PendingPut } from "./store.ts";
import type { SweepResult, SweepTarget } from "./sweep.ts";

export class LastingEngine implements IndexEngine {
  readonly hasEnded = false;
  readonly #start: () => Promise<IndexEngine>;
  #running: Promise<IndexEngine> | null = null;
  #isClosed = false;

  constructor(start: () => Promise<IndexEngine>) {
    this.#start = start;
  }

  prepare(): void {
    this.#living().catch(() => {}); // Whoever has the work is told.
  }

  commit(puts: PendingPut[]): Promise<void> {
    return this.#run((engine) => engine.commit(puts));
  }

  sweep(target: SweepTarget, callbacks: SweepCallbacks): Promise<SweepResult> {
    return this.#run((engine) => engine.sweep(target, callbacks));
  }

  apply(places: readonly AppliedPlace[], callbacks: SweepCallbacks): Promise<ApplyResult> {
    return this.#run((engine) => engine.apply(places, callbacks));
  }

  /** All of it can be done twice. Once more and no further: it may be this very work that ends threads. */
  async #run<T>(work: (engine: IndexEngine) => Promise<T>): Promise<T> {
    const engine = await this.#living();
    try {
      return await work(engine);
    } catch (error) {
      if (this.#isClosed || !engine.hasEnded) throw error;
    }
    return work(await this.#living());
  }

  async #living(): Promise<IndexEngine> {
    for (;;) {
      this.#running ??= this.#start();
      const running = this.#running;
      const engine = await running;
      if (this.#isClosed || !engine.hasEnded) return engine;
      if (this.#running === running) this.#running = null;
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await (await this.#running)?.close();
  }
}

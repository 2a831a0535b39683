/** Commits what the index has learnt, a little later and many changes at a time. */
import type { IndexEngine } from "./engine.ts";
import type { DefinitionStore } from "./store.ts";

const COMMIT_AFTER_MS = 20;
/** LMDB writes a line to the standard error for each attempt. */
const RETRY_AFTER_MS = 1_000;

export class Commits {
  readonly #store: DefinitionStore;
  readonly #engine: () => Promise<IndexEngine>;
  #running: Promise<void> | null = null;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #closed = false;

  constructor(store: DefinitionStore, engine: () => Promise<IndexEngine>) {
    this.#store = store;
    this.#engine = engine;
  }

  /** What a failed commit leaves (a full disk) is still answered from memory, and tried again. */
  soon(ms = COMMIT_AFTER_MS): void {
    if (this.#timer !== null || this.#closed || this.#store.waiting === 0) return;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.flush().catch(() => this.soon(RETRY_AFTER_MS));
    }, ms);
    this.#timer.unref();
  }

  /** Everything known so far is committed when it resolves. */
  async flush(): Promise<void> {
    while (this.#running !== null) await this.#running;
    if (this.#store.waiting === 0) return;
    this.#running = this.#commit().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  async #commit(): Promise<void> {
    const engine = await this.#engine();
    const puts = this.#store.takeWaiting();
    await engine.commit(puts);
    this.#store.dropCommitted(puts);
  }

  /** What cannot be committed at the end is read again at the next start. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.flush().catch(() => {});
  }
}

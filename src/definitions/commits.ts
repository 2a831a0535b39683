/** Commits what the index has learnt, a little later and many changes at a time. */
import { StorageFullError } from "../errors.ts";
import type { IndexEngine } from "./engine.ts";
import type { DefinitionStore } from "./store.ts";

const COMMIT_AFTER_MS = 20;
/** LMDB writes a line to the standard error for each attempt. */
const RETRY_AFTER_MS = 1_000;

export class Commits {
  readonly #store: DefinitionStore;
  readonly #engine: IndexEngine;
  #running: Promise<void> | null = null;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #closed = false;
  /** The disk is known to be full, and nothing has been committed since. */
  isFull = false;

  constructor(store: DefinitionStore, engine: IndexEngine) {
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
    const puts = this.#store.takeWaiting();
    try {
      await this.#engine.commit(puts);
    } catch (error) {
      if (error instanceof StorageFullError) this.noteFull();
      throw error;
    }
    this.isFull = false;
    this.#store.dropCommitted(puts);
  }

  /** There was no room for a commit. Whoever can do without waits until one has succeeded. */
  noteFull(): void {
    this.isFull = true;
    this.soon(RETRY_AFTER_MS);
  }

  /** What cannot be committed at the end is read again at the next start. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.flush().catch(() => {});
  }
}

/** Commits for all who write in one thread: each costs a flush of the disk, whether it holds one change or thousands. */
import { nextTurn } from "../slices.ts";
import type { DefinitionStore, PendingPut } from "./store.ts";

export class SharedCommits {
  readonly #store: DefinitionStore;
  readonly #afterFailure: "keep" | "drop";
  #given: PendingPut[] = [];
  #next: Promise<void> | null = null;

  /**
   * `afterFailure`: whether what could not be committed goes on waiting in the store. Where nobody reads it from there it is
   * dropped, or it would be written later over what is newer: whoever shared the commit is told, and does his work again.
   */
  constructor(store: DefinitionStore, afterFailure: "keep" | "drop") {
    this.#store = store;
    this.#afterFailure = afterFailure;
  }

  /** Lets other work in, then makes durable what waits in the store, and `puts`. All who ask in one turn share a commit. */
  commit(puts: readonly PendingPut[] = []): Promise<void> {
    for (const put of puts) this.#given.push(put);
    this.#next ??= this.#commitNextTurn();
    return this.#next;
  }

  async #commitNextTurn(): Promise<void> {
    await nextTurn();
    this.#next = null;
    const given = this.#given;
    this.#given = [];
    const waiting = this.#store.takeWaiting();
    if (waiting.length + given.length === 0) return;
    let isDone = false;
    try {
      this.#store.commit(given.length === 0 ? waiting : [...waiting, ...given]);
      isDone = true;
    } finally {
      if (isDone || this.#afterFailure === "drop") this.#store.dropCommitted(waiting);
    }
  }
}

/** A store that says when it is in a transaction, for those who outlive its thread. */
import { DefinitionStore } from "./store.ts";
import type { WorkerData } from "./worker-protocol.ts";

export class WatchedStore extends DefinitionStore {
  readonly #committing: WorkerData["committing"];

  private constructor(root: DefinitionStore["root"], committing: WorkerData["committing"]) {
    super(root);
    this.#committing = committing;
  }

  static async open(
    openRoot: () => Promise<DefinitionStore["root"]>,
    committing: WorkerData["committing"],
  ): Promise<WatchedStore> {
    // Opening takes locks, too.
    Atomics.store(committing, 0, 1);
    try {
      return new WatchedStore(await openRoot(), committing);
    } finally {
      Atomics.store(committing, 0, 0);
    }
  }

  override transaction(write: () => void): void {
    Atomics.store(this.#committing, 0, 1);
    try {
      super.transaction(write);
    } finally {
      Atomics.store(this.#committing, 0, 0);
    }
  }
}

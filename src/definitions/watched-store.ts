/** A store whose thread is not to be ended within a transaction: see gate.ts. */
import type { Gate } from "../gate.ts";
import { DefinitionStore } from "./store.ts";

export class WatchedStore extends DefinitionStore {
  readonly #gate: Gate;

  private constructor(root: DefinitionStore["root"], gate: Gate) {
    super(root);
    this.#gate = gate;
  }

  static async open(openRoot: () => Promise<DefinitionStore["root"]>, gate: Gate): Promise<WatchedStore> {
    // Opening takes locks, too.
    gate.enter();
    try {
      return new WatchedStore(await openRoot(), gate);
    } finally {
      gate.leave();
    }
  }

  override transaction(write: () => void): void {
    this.#gate.through(() => super.transaction(write));
  }
}

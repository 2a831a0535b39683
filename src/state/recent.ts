/**
 * The rows that this process wrote last, as it wrote them: the likely base of the next change of the same record, which
 * need not be read again then. Somebody else may have changed it since; compare-and-set finds out, so nothing is ever
 * answered from here.
 */
import { hashOf } from "../churn.ts";
import type { StoredRow } from "./row.ts";

/** A power of two. */
const PAIRS = 1_024;
/** Of JSON. Larger rows are read again: so much is kept at most. */
const MOST_CHARACTERS = 4_096;

export class RecentRows {
  /** Each id has its pair of places, the later row in the first: what is pushed out was written long ago, mostly. */
  readonly #rows: (StoredRow | undefined)[] = new Array(2 * PAIRS).fill(undefined);

  get(id: string): StoredRow | undefined {
    const at = placeOf(id);
    const row = this.#rows[at];
    if (row?.id === id) return row;
    const earlier = this.#rows[at + 1];
    return earlier?.id === id ? earlier : undefined;
  }

  keep(row: StoredRow): void {
    if (row.data.length > MOST_CHARACTERS) {
      this.forget(row.id);
      return;
    }
    const at = placeOf(row.id);
    if (this.#rows[at]?.id !== row.id) this.#rows[at + 1] = this.#rows[at];
    this.#rows[at] = row;
  }

  forget(id: string): void {
    const at = placeOf(id);
    if (this.#rows[at]?.id === id) {
      this.#rows[at] = this.#rows[at + 1];
      this.#rows[at + 1] = undefined;
    } else if (this.#rows[at + 1]?.id === id) {
      this.#rows[at + 1] = undefined;
    }
  }
}

function placeOf(id: string): number {
  return 2 * (hashOf(id) & (PAIRS - 1));
}

/**
 * The rows that this process wrote last, as it wrote them: the likely base of the next change of the same record, which
 * need not be read again then. Somebody else may have changed it since; compare-and-set finds out, so nothing is ever
 * answered from here.
 */
import type { StoredRow } from "../row.ts";

const MOST_ROWS = 1_024;
/** Of JSON. Larger rows are read again: so much is kept at most. */
const MOST_CHARACTERS = 4_096;

export class RecentRows {
  /** The oldest first. */
  readonly #rows = new Map<string, StoredRow>();

  get(id: string): StoredRow | undefined {
    return this.#rows.get(id);
  }

  keep(row: StoredRow): void {
    this.#rows.delete(row.id);
    if (row.data.length > MOST_CHARACTERS) return;
    this.#rows.set(row.id, row);
    if (this.#rows.size <= MOST_ROWS) return;
    for (const oldest of this.#rows.keys()) {
      this.#rows.delete(oldest);
      return;
    }
  }

  forget(id: string): void {
    this.#rows.delete(id);
  }
}

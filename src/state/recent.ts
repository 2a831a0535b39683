/**
 * The rows that this process wrote last, as it wrote them: the likely base of the next change of the same record, which
 * need not be read again then. Somebody else may have changed it since; compare-and-set finds out, so nothing is ever
 * answered from here.
 */
import { KeyTable } from "../churn.ts";
import type { StoredRow } from "./row.ts";

const MOST_ROWS = 1_024;
/** Of JSON. Larger rows are read again: so much is kept at most. */
const MOST_CHARACTERS = 4_096;

export class RecentRows {
  readonly #rows = new KeyTable<StoredRow>();
  /** Ids in the order in which they came; the next to come takes the place of the oldest. */
  readonly #ids: (string | undefined)[] = [];
  #next = 0;

  get(id: string): StoredRow | undefined {
    return this.#rows.get(id);
  }

  keep(row: StoredRow): void {
    if (row.data.length > MOST_CHARACTERS) this.#rows.delete(row.id);
    else if (!this.#rows.replace(row.id, row)) this.#add(row);
  }

  forget(id: string): void {
    this.#rows.delete(id);
  }

  /** The id may have been forgotten and have come again: then what it came with is forgotten early, and read again. */
  #add(row: StoredRow): void {
    const oldest = this.#ids[this.#next];
    if (oldest !== undefined) this.#rows.delete(oldest);
    this.#ids[this.#next] = row.id;
    this.#next = (this.#next + 1) % MOST_ROWS;
    this.#rows.set(row.id, row);
  }
}

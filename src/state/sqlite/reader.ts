/**
 * Reads on a connection of their own, which never wait for a writer and never hold a snapshot between two calls: a
 * listing that pauses pins nothing. Everything that is read is checked before it is believed.
 */
import type { Position } from "../cursor.ts";
import type { PageQuery, StoredChange, Tombstone } from "../record-store.ts";
import { checksum, keysOf, type StoredRow } from "../row.ts";
import { assertRecord, assertSum, changeSum, DamageError, storeSum, sumOf } from "./checks.ts";
import { type Column, type DatabaseSync, prepareReader, Statements } from "./database.ts";
import * as sql from "./sql.ts";

/** A page of one secondary index of one state index. */
export interface IndexedPageQuery extends PageQuery {
  readonly index: number;
  readonly secondary: number;
}

export class Reader {
  readonly #database: DatabaseSync;
  readonly #statements: Statements;

  constructor(database: DatabaseSync) {
    prepareReader(database);
    this.#database = database;
    this.#statements = new Statements(database);
  }

  close(): void {
    this.#database.close();
  }

  /** Changes with every commit of another connection, this process's writer included. */
  dataVersion(): number {
    return Number(this.#statements.one("PRAGMA data_version")?.["data_version"]);
  }

  get(index: number, id: string): StoredRow | null {
    const row = this.#row(index, this.#statements.columns(sql.GET, index, id));
    if (row === null) this.#assertMiss(index, id);
    else if (row.id !== id) throw new DamageError(`the index of ids leads from "${id}" to "${row.id}"`);
    return row;
  }

  page(query: IndexedPageQuery): StoredRow[] {
    const { index, secondary, key, states, from, to, reverse, limit } = query;
    const walks = states.flatMap((state) => [secondary, key, state, from.since, from.rec, to.since, to.rec, limit]);
    const statement = sql.listing(states.length, reverse);
    const found = this.#statements.allColumns(statement, index, ...walks, ...(states.length === 1 ? [] : [limit]));
    return found.map(([fits, ...columns]) => {
      if (fits !== 1) throw new DamageError(`an entry of "${key}" is not that of its record`);
      const row = storedRow(columns);
      assertRecord(index, row);
      if (key !== "" && !hasKey(row, secondary, key))
        throw new DamageError(`record "${row.id}" is listed under "${key}", which it does not have`);
      return row;
    });
  }

  /** The position of the `offset`-th last entry of a state, or null when there are fewer. */
  last(secondary: number, state: string, offset = 0): Position | null {
    const row = this.#statements.one(sql.LAST_ENTRY, secondary, "", state, offset);
    return row === undefined ? null : { since: Number(row["since"]), rec: Number(row["rec"]) };
  }

  counts(index: number): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { state, n, sum } of this.#statements.all(sql.COUNTERS, index)) {
      assertSum(`the counter of "${state}"`, sumOf(index, state as string, n as number), sum);
      counts.set(state as string, n as number);
    }
    return counts;
  }

  epoch(): number {
    const row = this.#statements.one(sql.STORE);
    if (row === undefined) throw new DamageError("the store's own row is gone");
    assertSum("the store's epoch", storeSum(row["epoch"] as number), row["sum"]);
    return row["epoch"] as number;
  }

  watermark(index: number, name: string): string | null {
    const row = this.#statements.one(sql.MARK, index, name);
    if (row === undefined) return null;
    const watermark = row["watermark"] as string | null;
    assertSum(`the watermark of import "${name}"`, sumOf(index, name, watermark), row["sum"]);
    return watermark;
  }

  unkeyed(index: number, limit: number): StoredRow[] {
    const found = this.#statements.allColumns(sql.UNKEYED, index, limit);
    return found.map((columns) => checked(index, columns));
  }

  tombstone(index: number, id: string): Tombstone | null {
    const row = this.#statements.one(sql.TOMBSTONE, index, id);
    if (row === undefined) return null;
    const { state, since, origin, sum } = row;
    assertSum(
      `the note that "${id}" was pruned`,
      sumOf(index, id, state as string, since as number, origin as string),
      sum,
    );
    return row as unknown as Tombstone;
  }

  /** The numbers of the oldest and the latest change that are kept. */
  changeRange(): { first: number; last: number } {
    const row = this.#statements.one(sql.CHANGE_RANGE);
    return { first: Number(row?.["first"]), last: Number(row?.["last"]) };
  }

  changes(index: number, after: number, limit: number): { changes: StoredChange[]; upTo: number } | null {
    return this.#snapshot(() => {
      const { first, last } = this.changeRange();
      if (last > after && first > after + 1) return null;
      const changes = this.#statements
        .allColumns(sql.CHANGES, after, last, index, limit)
        .map((columns) => storedChange(index, columns));
      return {
        changes,
        upTo: changes.length < limit ? Math.max(last, after) : (changes[limit - 1] as StoredChange).seq,
      };
    });
  }

  outbox(index: number, after: number, limit: number): StoredChange[] {
    const found = this.#statements.allColumns(sql.OUTBOX, index, after, limit);
    return found.map((columns) => storedChange(index, columns));
  }

  outboxStats(index: number): { pending: number; oldestAt: number | null } {
    const row = this.#statements.one(sql.OUTBOX_STATS, index);
    return { pending: Number(row?.["pending"]), oldestAt: (row?.["oldest"] ?? null) as number | null };
  }

  /** Several statements that see the same. */
  #snapshot<T>(read: () => T): T {
    this.#database.exec("BEGIN");
    try {
      return read();
    } finally {
      this.#database.exec("COMMIT");
    }
  }

  #row(index: number, columns: Column[] | undefined): StoredRow | null {
    return columns === undefined ? null : checked(index, columns);
  }

  /**
   * A search that was led astray by a damaged key of the id index ends beside that key: so a miss is believed only when
   * both neighbours lead to records that lie on the side where the index has them.
   */
  #assertMiss(index: number, id: string): void {
    const before = this.#row(index, this.#statements.columns(sql.BEFORE, index, id));
    const behind = this.#row(index, this.#statements.columns(sql.BEHIND, index, id));
    if (
      (before !== null && compareBytes(before.id, id) >= 0) ||
      (behind !== null && compareBytes(behind.id, id) <= 0)
    ) {
      throw new DamageError(`the index of ids is out of order around ${JSON.stringify(id)}`);
    }
  }
}

function checked(index: number, columns: Column[]): StoredRow {
  const row = storedRow(columns);
  assertRecord(index, row);
  return row;
}

/** From the columns in the order of the statements. */
export function storedRow(columns: Column[]): StoredRow {
  const [rec, id, state, since, createdAt, revision, epoch, origin, keys, data, sum] = columns;
  return { rec, id, state, since, createdAt, revision, epoch, origin, keys, data, sum } as StoredRow;
}

function storedChange(index: number, columns: Column[]): StoredChange {
  const [seq, prev, ...rest] = columns;
  const previous = prev as string | null;
  const logged = storedRow(rest);
  const row = { ...logged, sum: checksum(index, logged) };
  assertSum(`change ${seq}`, changeSum(row.sum, previous), logged.sum);
  return { seq: seq as number, previous, row };
}

function hasKey(row: StoredRow, secondary: number, key: string): boolean {
  const keys = keysOf(row);
  for (let at = 0; at < keys.length; at += 2) if (keys[at] === secondary && keys[at + 1] === key) return true;
  return false;
}

/** As SQLite orders text. */
function compareBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

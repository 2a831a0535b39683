/**
 * Reads on a connection of their own, which never wait for a writer and never hold a snapshot between two calls: a
 * listing that pauses pins nothing. Everything that is read is checked before it is believed.
 */
import { comparePositions, FIRST, LAST, type Position } from "../cursor.ts";
import type { PageQuery, Standing, StoredChange, Tombstone } from "../record-store.ts";
import { checksum, hasKey, type StoredRow } from "../row.ts";
import { describe, find } from "./catalog.ts";
import { assertRecord, assertSum, changeSum, DamageError, storeSum, sumOf } from "./checks.ts";
import { type Column, type DatabaseSync, prepareReader, Statements } from "./database.ts";
import type { Description, RegisterBody } from "./protocol.ts";
import * as sql from "./sql.ts";

/** A page of one secondary index of one state index. */
export interface IndexedPageQuery extends PageQuery {
  readonly index: number;
  readonly secondary: number;
  /** It lists by state alone. */
  readonly isListing: boolean;
}

/** Of finding a record that comes and goes meanwhile. */
const TRIES = 10;

export class Reader {
  readonly #database: DatabaseSync;
  readonly #statements: Statements;
  /** The listing of each state index; it never changes. */
  readonly #listings = new Map<number, number>();

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
    return Number(this.#statements.one(sql.DATA_VERSION)?.["data_version"]);
  }

  find(wanted: RegisterBody): Description | null {
    return find(this.#statements, wanted);
  }

  describe(index: number): Description {
    return describe(this.#statements, index);
  }

  get(index: number, id: string): StoredRow | null {
    for (let tries = 0; tries < TRIES; tries++) {
      const row = this.#find(index, id);
      if (row !== null || this.#isMissing(index, id)) return row;
    }
    throw new DamageError(`the index of ids leads to "${id}" one time, and not the next`);
  }

  #find(index: number, id: string): StoredRow | null {
    const row = this.#row(index, this.#statements.columns(sql.GET, index, id));
    if (row !== null && row.id !== id) throw new DamageError(`the index of ids leads from "${id}" to "${row.id}"`);
    return row;
  }

  /** One snapshot. Each state is walked by itself; together they are in order, and cut at the limit. */
  page(query: IndexedPageQuery): StoredRow[] {
    if (comparePositions(query.from, query.to) >= 0) return [];
    return this.#snapshot(() => {
      const [first, ...rest] = query.states.map((state) => this.#walk(query, state));
      if (first === undefined || rest.length === 0) return first ?? [];
      const direction = query.reverse ? -1 : 1;
      return first
        .concat(...rest)
        .sort((a, b) => direction * comparePositions(a, b))
        .slice(0, query.limit);
    });
  }

  #walk({ index, secondary, isListing, key, from, to, reverse, limit }: IndexedPageQuery, state: string): StoredRow[] {
    const found = this.#entries([index, secondary, state, key], from, to, reverse, limit);
    const rows = found.map((columns) => {
      if (columns[FITS] !== 1) throw new DamageError(`an entry under "${key}" in "${state}" is not that of its record`);
      const row = checked(index, columns);
      if (!isListing && !hasKey(row, secondary, key))
        throw new DamageError(`record "${row.id}" has not the key "${key}"`);
      return row;
    });
    const [ahead, back] = reverse ? ([-1, 1] as const) : ([1, -1] as const);
    const start = reverse ? to : from;
    for (const [at, row] of rows.entries()) {
      if (ahead * comparePositions(row, rows[at - 1] ?? start) > 0) continue;
      throw new DamageError(`what is under "${key}" in "${state}" is out of order`);
    }
    const whole = rows.length < limit;
    if (whole && isListing && from === FIRST && to === LAST) {
      this.#assertCount(index, state, rows.length);
      return rows;
    }
    const place = (at: Position): Entry => [secondary, state, key, at.since, at.rec];
    const [backFrom, backOf] = reverse
      ? [sql.ENTRIES_FROM, sql.ENTRIES_BEHIND]
      : [sql.ENTRIES_UP_TO, sql.ENTRIES_BEFORE];
    const before = this.#edge(backFrom, place(start), back);
    const [first, last] = [rows[0], rows.at(-1)];
    if (first !== undefined) this.#assertNext(backOf, place(first), before);
    if (!whole) return rows;
    const behind = this.#edge(reverse ? sql.ENTRIES_BEFORE : sql.ENTRIES_BEHIND, place(last ?? start), ahead);
    if (behind === null) return rows;
    this.#assertNext(backOf, behind, last === undefined ? before : place(last));
    // An entry that cannot be compared any more ends a walk as the end of its range does.
    if (ahead * compareEntries(behind, place(reverse ? from : to)) < 0)
      throw new DamageError(`what is under "${key}" in "${state}" goes on behind its end`);
    return rows;
  }

  /** Between the two positions: what is at the time of the one, between the times, and at the time of the other. */
  #entries(place: Column[], from: Position, to: Position, reverse: boolean, limit: number): Column[][] {
    const { oneTime, between } = sql.WALK[reverse ? "down" : "up"];
    const pieces: [string, ...number[]][] = [];
    if (from.since === to.since) pieces.push([oneTime, from.since, from.rec, to.rec]);
    else {
      if (from !== FIRST) pieces.push([oneTime, from.since, from.rec, LAST.rec]);
      pieces.push([between, from.since, to.since]);
      if (to !== LAST) pieces.push([oneTime, to.since, FIRST.rec, to.rec]);
    }
    const found: Column[][] = [];
    for (const [statement, ...range] of reverse ? pieces.reverse() : pieces) {
      if (found.length === limit) break;
      found.push(...this.#statements.allColumns(statement, ...place, ...range, limit - found.length));
    }
    return found;
  }

  counts(index: number): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { idx, state, n, sum } of this.#statements.all(sql.COUNTERS)) {
      assertSum(`the counter of "${state}"`, sumOf(idx as number, state as string, n as number), sum);
      if (idx === index) counts.set(state as string, n as number);
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
    let found: string | null = null;
    for (const row of this.#statements.all(sql.MARKS)) {
      const watermark = row["watermark"] as string | null;
      const sum = sumOf(row["idx"] as number, row["name"] as string, watermark);
      assertSum(`the watermark of import "${row["name"]}"`, sum, row["sum"]);
      if (row["idx"] === index && row["name"] === name) found = watermark;
    }
    return found;
  }

  unkeyed(index: number, limit: number): StoredRow[] {
    const found = this.#statements.allColumns(sql.UNKEYED, index, limit);
    return found.map((columns) => checked(index, columns));
  }

  standing(index: number, id: string): Standing {
    const row = this.get(index, id);
    return { row, tombstone: row === null ? this.#tombstone(index, id) : null };
  }

  #tombstone(index: number, id: string): Tombstone | null {
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
    this.#statements.run("BEGIN");
    try {
      return read();
    } finally {
      this.#statements.run("COMMIT");
    }
  }

  #row(index: number, columns: Column[] | undefined): StoredRow | null {
    return columns === undefined ? null : checked(index, columns);
  }

  /**
   * A search that was led astray by a damaged or misplaced key ends beside that key. So a miss is believed only when the
   * neighbours lead to records whose ids are in order with the one that was looked for; two on each side, since a key
   * that stands in the wrong place may be in order with one. And nothing may lie between them, as seen from another place.
   * False when the record is there after all.
   */
  #isMissing(index: number, id: string): boolean {
    const around = this.#statements.allColumns(sql.AROUND_ID, index, id);
    const at = (place: string) => around.filter(([each]) => each === place).map(([, found]) => found as string);
    if (at("at").length > 0) return false; // It has come meanwhile.
    const [before, behind] = [at("before"), at("behind")];
    const ids = [...before.toReversed(), id, ...behind];
    if (ids.some((each, at) => at > 0 && compareBytes(ids[at - 1] as string, each) >= 0)) {
      throw new DamageError(`the index of ids is out of order around ${JSON.stringify(id)}`);
    }
    const [previous, next] = [before[0], behind[0]];
    const [backFromNext] = at(next === undefined ? "last" : "beforeNext");
    if (backFromNext !== previous || (previous === undefined && at("first")[0] !== next))
      throw new DamageError(`the index of ids leads past what lies around ${JSON.stringify(id)}`);
    return true;
  }

  /**
   * The same of the edges of a listing: the entries beside it must be those of their records, and in order. Returns the
   * nearest; null where there is none.
   */
  #edge(statement: string, place: Entry, away: 1 | -1): Entry | null {
    let previous = place;
    let nearest: Entry | null = null;
    for (const [number, state, key, since, rec, index, keys, fits] of this.#statements.allColumns(
      statement,
      ...place,
    )) {
      const entry = [number, state, key, since, rec] as unknown as Entry;
      const listed =
        hasKey({ keys: keys as string | null }, number, key) ||
        (key === "" && this.#listingOf(Number(index)) === number);
      // The place itself may be an entry: that of the record that a cursor is of.
      const order = away * compareEntries(entry, previous);
      if (fits !== 1 || !listed || order < 0 || (order === 0 && previous !== place)) {
        throw new DamageError(`an entry under "${key}" in "${state}" is not that of its record, or not in its place`);
      }
      previous = entry;
      nearest ??= entry;
    }
    return nearest;
  }

  /**
   * What one search has found last and another first must lie side by side: a key that cannot be compared any more leads a
   * search past all that lies between it and where it should have led.
   */
  #assertNext(statement: string, place: Entry, expected: Entry | null): void {
    const found = this.#statements.columns(statement, ...place)?.slice(0, place.length) as unknown as Entry | undefined;
    if (found === undefined ? expected === null : expected !== null && compareEntries(found, expected) === 0) return;
    const [, state, key] = place;
    throw new DamageError(`the entry beside one under "${key}" in "${state}" is another than the one before`);
  }

  /** A listing of a whole state is as long as its counter says. */
  #assertCount(index: number, state: string, found: number): void {
    const row = this.#statements.one(sql.COUNTER, index, state);
    const n = Number(row?.["n"] ?? 0);
    if (row !== undefined) assertSum(`the counter of "${state}"`, sumOf(index, state, n), row["sum"]);
    if (n !== found) throw new DamageError(`${found} records are listed in "${state}", and counted ${n}`);
  }

  #listingOf(index: number): number {
    let listing = this.#listings.get(index);
    if (listing === undefined) {
      listing = describe(this.#statements, index).listing;
      this.#listings.set(index, listing);
    }
    return listing;
  }
}

function checked(index: number, columns: Column[]): StoredRow {
  const row = storedRow(columns);
  assertRecord(index, row);
  return row;
}

/** Behind a record's columns, in a walk: whether the entry is that of the record. */
const FITS = 11;

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

/** As the primary key of entries has it. */
type Entry = readonly [number: number, state: string, key: string, since: number, rec: number];

function compareEntries(a: Entry, b: Entry): number {
  return a[0] - b[0] || compareBytes(a[1], b[1]) || compareBytes(a[2], b[2]) || a[3] - b[3] || a[4] - b[4];
}

/** As SQLite orders text. */
function compareBytes(a: string, b: string): number {
  return a === b ? 0 : Buffer.compare(Buffer.from(a), Buffer.from(b));
}

/** A record as a store keeps it, the checksum over it, and its way to what callers see. */
import { crc32 } from "../digest.ts";
import { encodeCursor } from "./cursor.ts";
import type { StateRecord } from "./model.ts";

/** What a change makes of a record: everything but the place where the store puts it. */
export interface RowDraft {
  readonly id: string;
  readonly state: string;
  readonly since: number;
  readonly createdAt: number;
  readonly revision: number;
  readonly epoch: number;
  readonly origin: string | null;
  /**
   * JSON `[number, key, number, key, …]`: under which keys of which secondary index it is found. Null when it was written
   * by a process that lacks an index function; the next process that has them all fills it in.
   */
  readonly keys: string | null;
  /** JSON. */
  readonly data: string;
  /** See {@link checksum}. */
  readonly sum: number;
  /** The data, when it was parsed ahead: see {@link takeData}. */
  parsed?: unknown;
}

export interface StoredRow extends RowDraft {
  /** Given by the store when the record is inserted; later is greater. */
  readonly rec: number;
}

/** Over all that the row says, and the index it belongs to. Whatever reads a row compares. */
export function checksum(index: number, row: Omit<RowDraft, "sum">): number {
  return crc32(
    `${index}\0${row.id}\0${row.state}\0${row.since}\0${row.createdAt}\0${row.revision}\0${row.epoch}\0` +
      `${row.origin ?? "\0"}\0${row.keys ?? "\0"}\0${row.data}`,
  );
}

export function toRecord<D, S extends string>(row: StoredRow): StateRecord<D, S> {
  return toRecordAt<D, S>(row, encodeCursor(row));
}

/** Of a row whose place may not be known yet: then the cursor is filled in later. */
export function toRecordAt<D, S extends string>(row: RowDraft, cursor: string): StateRecord<D, S> {
  return {
    id: row.id,
    state: row.state as S,
    since: row.since,
    createdAt: row.createdAt,
    revision: row.revision,
    epoch: row.epoch,
    ...(row.origin === null ? {} : { origin: row.origin }),
    data: JSON.parse(row.data) as D,
    cursor,
  };
}

/** Of JSON: rows that are remembered must not hold much. */
const MOST_PARSED_AHEAD = 1_024;

/** For the next change of the row, which may come as soon as this one is acknowledged. */
export function parseAhead(row: RowDraft): void {
  if (row.data.length <= MOST_PARSED_AHEAD) row.parsed = JSON.parse(row.data);
}

/** The row's data. Nobody else gets the same object: whoever takes it may change it. */
export function takeData(row: RowDraft): unknown {
  const { parsed } = row;
  if (parsed === undefined) return JSON.parse(row.data);
  row.parsed = undefined;
  return parsed;
}

export function keysOf(row: { readonly keys: string | null }): (string | number)[] {
  return row.keys === null ? [] : (JSON.parse(row.keys) as (string | number)[]);
}

export function hasKey(row: { readonly keys: string | null }, secondary: unknown, key: unknown): boolean {
  return includesKey(keysOf(row), secondary, key);
}

/** Whether `keys`, as {@link keysOf} gives them, hold this one of this secondary index. */
export function includesKey(keys: readonly (string | number)[], secondary: unknown, key: unknown): boolean {
  for (let at = 0; at < keys.length; at += 2) if (keys[at] === secondary && keys[at + 1] === key) return true;
  return false;
}

/** What is stored disagrees with itself. The message goes into a StateStoreCorruptError. */
export class DamageError extends Error {}

export function assertRecord(index: number, row: StoredRow): void {
  if (checksum(index, row) === row.sum) return;
  throw new DamageError(`record ${JSON.stringify(row.id)} (rec ${row.rec}) does not fit its checksum`);
}

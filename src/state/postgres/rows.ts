/** Rows as the database gives them, checked before they are believed. Numbers may come as text, or as the client makes them. */
import type { Standing, StoredChange } from "../record-store.ts";
import { assertRecord, DamageError, type StoredRow } from "../row.ts";
import type { Columns } from "./database.ts";

/** In the order of {@link rowOf}. */
export const ROW = "rec, id, state, since, created, revision, epoch, origin, keys, data, sum";

const RECORD_COLUMNS = ROW.split(",").length;

export function rowOf(index: number, columns: Columns): StoredRow {
  const row = uncheckedRow(columns);
  assertRecord(index, row);
  return row;
}

export function uncheckedRow(columns: Columns): StoredRow {
  const [rec, id, state, since, created, revision, epoch, origin, keys, data, sum] = columns;
  return {
    rec: Number(rec),
    id: id as string,
    state: state as string,
    since: Number(since),
    createdAt: Number(created),
    revision: Number(revision),
    epoch: Number(epoch),
    origin: origin as string | null,
    keys: keys as string | null,
    data: data as string,
    sum: Number(sum),
  };
}

/** Sequence, state before, then the row. */
export function changeOf(index: number, [seq, previous, ...columns]: Columns): StoredChange {
  return { seq: Number(seq), previous: previous as string | null, row: rowOf(index, columns) };
}

/** The record's columns, then those of what is known of a pruned one. */
export function standingOf(index: number, columns: Columns): Standing {
  const [state, since, origin, sum] = columns.slice(RECORD_COLUMNS);
  const row = columns[0] === null ? null : rowOf(index, columns);
  if (row !== null || state === null) return { row, tombstone: null };
  return {
    row,
    tombstone: { state: String(state), since: Number(since), origin: origin as string | null, sum: Number(sum) },
  };
}

/** Of a listing by key: whether the entry is that of its record, then the row. */
export function listedOf(index: number, [fits, ...columns]: Columns): StoredRow {
  if (fits !== true) throw new DamageError(`an entry of record ${String(columns[0])} is not that of its record`);
  return rowOf(index, columns);
}

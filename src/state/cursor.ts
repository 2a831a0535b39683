/** A record's place in the order of listings: by `since`, and among equals by insertion. */
import { InvalidArgumentError } from "../errors.ts";

export interface Position {
  readonly since: number;
  readonly rec: number;
}

/** Before and behind every record: `rec` counts from 1, and times end long before (see limits.ts). */
export const FIRST: Position = { since: Number.MIN_SAFE_INTEGER, rec: 0 };
export const LAST: Position = { since: Number.MAX_SAFE_INTEGER, rec: Number.MAX_SAFE_INTEGER };

export function comparePositions(a: Position, b: Position): number {
  return a.since - b.since || a.rec - b.rec;
}

export function encodeCursor({ since, rec }: Position): string {
  return `${since}.${rec}`;
}

const CURSOR = /^(-?\d{1,16})\.(\d{1,16})$/;

/** @throws InvalidArgumentError for anything that is not a record's `cursor`. */
export function decodeCursor(cursor: string): Position {
  const [, since, rec] = CURSOR.exec(cursor) ?? [];
  if (since === undefined || rec === undefined) {
    throw new InvalidArgumentError("after", cursor, "the `cursor` of a record");
  }
  return { since: Number(since), rec: Number(rec) };
}

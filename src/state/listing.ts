/**
 * Listings in pages: each page is one snapshot, and between two nothing is held, so a consumer may pause for as long as
 * it likes. A record that changes its state meanwhile may come twice, or not at all, as it lies before or behind the
 * page; none that stays is missed.
 */
import { nextTurn } from "../slices.ts";
import { comparePositions, decodeCursor, FIRST, LAST, type Position } from "./cursor.ts";
import type { Kit } from "./kit.ts";
import { checkBound, checkInteger } from "./limits.ts";
import type { ByStateOptions, StateRecord } from "./model.ts";
import type { PageQuery } from "./record-store.ts";
import type { StoredRow } from "./row.ts";

/** Of the first page; later ones hold as many rows as make about PAGE_CHARACTERS. */
const FIRST_PAGE = 64;
const LARGEST_PAGE = 256;
const PAGE_CHARACTERS = 262_144;

export type Place = Pick<PageQuery, "secondary" | "key" | "states">;

/** @throws InvalidArgumentError, and what the store throws */
export async function* list<D, S extends string>(
  kit: Kit<D, S>,
  place: Place,
  o: ByStateOptions,
): AsyncGenerator<StateRecord<D, S>, undefined> {
  const limit = o.limit === undefined ? Number.POSITIVE_INFINITY : checkInteger("limit", o.limit);
  const reverse = o.reverse === true;
  for await (const page of pages(kit, place, { ...bounds(o), reverse, limit }, o.signal)) {
    for (const row of page) {
      o.signal?.throwIfAborted();
      yield kit.record(row);
    }
  }
}

export async function* pages<D, S extends string>(
  kit: Kit<D, S>,
  place: Place,
  o: { from: Position; to: Position; reverse: boolean; limit: number; size?: number },
  signal: AbortSignal | undefined,
): AsyncGenerator<StoredRow[], undefined> {
  let { from, to, limit: left } = o;
  let size = o.size ?? FIRST_PAGE;
  for (;;) {
    const limit = Math.min(size, left);
    if (limit === 0 || place.states.length === 0) return;
    const page = await kit.store.page({ ...place, from, to, reverse: o.reverse, limit }, kit.scope(signal));
    if (page.length > 0) yield page;
    const last = page.at(-1);
    if (last === undefined || page.length < limit) return;
    left -= page.length;
    if (o.reverse) to = last;
    else from = last;
    size = o.size ?? nextSize(page);
    await nextTurn();
  }
}

function nextSize(page: StoredRow[]): number {
  const characters = page.reduce((sum, row) => sum + row.data.length, 0);
  const average = characters / page.length;
  return Math.max(1, Math.min(LARGEST_PAGE, Math.floor(PAGE_CHARACTERS / (average + 1))));
}

function bounds(o: ByStateOptions): { from: Position; to: Position } {
  let from =
    o.enteredAfter === undefined ? FIRST : { since: checkBound("enteredAfter", o.enteredAfter), rec: LAST.rec };
  let to = o.enteredBefore === undefined ? LAST : { since: checkBound("enteredBefore", o.enteredBefore), rec: 0 };
  if (o.after !== undefined) {
    const after = decodeCursor(o.after);
    if (o.reverse) to = comparePositions(after, to) < 0 ? after : to;
    else from = comparePositions(after, from) > 0 ? after : from;
  }
  return { from, to };
}

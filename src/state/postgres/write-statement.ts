/** The one statement that writes: what goes into it, and what comes out. */
import type { RowChange, WriteOptions } from "../record-store.ts";
import { includesKey, keysOf, type RowDraft } from "../row.ts";
import type { Registration } from "../secondary.ts";
import { arrayOf, type Parameter } from "./database.ts";

export interface Outcome {
  /** Per change: the number of the record, null where it was refused. */
  readonly recs: readonly (number | null)[];
  readonly epoch: number;
  readonly isCurrent: boolean;
  /** The time there, in epoch milliseconds. */
  readonly clock: number;
}

interface Requested {
  readonly changes: readonly RowChange[];
  readonly options: WriteOptions;
}

interface Mode {
  readonly flushed: boolean;
  /** How long to wait for locks, in milliseconds. */
  readonly patience: number;
}

/** Of `write_changes`. */
const PARAMETERS = 30;
const PLACES = Array.from({ length: PARAMETERS }, (_, at) => `$${at + 1}`).join(", ");

export function statementOf(schema: string): string {
  return `SELECT * FROM ${schema}.write_changes(${PLACES})`;
}

interface Line {
  readonly change: RowChange;
  readonly madeIn: number;
  /** Its place among all that were asked for: in the statement it may have another. */
  readonly at: number;
}

export interface Statement {
  readonly parameters: readonly Parameter[];
  /** Per change in the statement: its place among all that were asked for. */
  readonly order: readonly number[];
}

/** Of the requests together, all of which were made for one generation of the indexes. */
export function prepareWrite(
  { index, generation, secondary }: Registration,
  requests: readonly Requested[],
  { flushed, patience }: Mode,
): Statement {
  const lines = linesOf(requests);
  const entries = new Entries(new Set(secondary.values()));
  for (const [at, { change }] of lines.entries()) entries.add(at + 1, change);
  const mark = requests[0]?.options.mark;
  const of = (value: (change: RowChange, line: Line) => string | number | null) =>
    arrayOf(lines.map((line) => value(line.change, line)));
  const next = (value: (row: RowDraft) => string | number | null) => of((change) => value(change.next));
  const parameters = [
    index,
    generation,
    flushed,
    patience,
    requests[0]?.changes[0]?.quiet === true,
    mark?.name ?? null,
    mark?.watermark ?? null,
    of(({ base }) => base?.rec ?? 0),
    of(({ base }) => base?.revision ?? 0),
    of(({ base }) => base?.sum ?? 0),
    of(({ base }) => base?.state ?? null),
    of((_, { madeIn }) => madeIn),
    of(({ tombstone }) => (tombstone === undefined ? -2 : (tombstone?.sum ?? -1))),
    next((row) => row.id),
    next((row) => row.state),
    next((row) => row.since),
    next((row) => row.createdAt),
    next((row) => row.revision),
    next((row) => row.epoch),
    next((row) => row.origin),
    next((row) => row.keys),
    next((row) => row.data),
    next((row) => row.sum),
    ...entries.parameters(),
  ];
  return { parameters, order: lines.map(({ at }) => at) };
}

/**
 * What replaces something by the numbers of that, so that two transactions take what both want in the same order; then what is
 * new, as it was asked for, which is how it will be listed.
 */
function linesOf(requests: readonly Requested[]): Line[] {
  let at = 0;
  const lines = requests.flatMap(({ changes, options }) =>
    changes.map((change) => ({ change, madeIn: options.epoch ?? -1, at: at++ })),
  );
  const place = ({ change: { base } }: Line) => base?.rec ?? Number.POSITIVE_INFINITY;
  return lines.sort((a, b) => (place(a) === place(b) ? a.at - b.at : place(a) - place(b)));
}

export function takeOutcome(rows: readonly (readonly unknown[])[], order: readonly number[]): Outcome {
  const [done, epoch, isCurrent, clock] = rows[0] ?? [];
  const recs = order.map((): number | null => null);
  if (done !== "")
    for (const [at, rec] of String(done).split(",").entries()) recs[order[at] as number] = Number(rec) || null;
  return { recs, epoch: Number(epoch), isCurrent: isCurrent === true, clock: Number(clock) };
}

/** Which entries of secondary indexes change with a record. */
class Entries {
  readonly #stored: ReadonlySet<number>;
  readonly #columns: (string | number | null)[][] = [[], [], [], [], [], [], []];

  /** An index that was given up has no entries any more. */
  constructor(stored: ReadonlySet<number>) {
    this.#stored = stored;
  }

  /** `n`: the place of the change in the statement, from 1. */
  add(n: number, { base, next }: RowChange): void {
    const moved = base?.state !== next.state || base.since !== next.since;
    if (!moved && base.keys === next.keys) return;
    const before = base === null ? [] : keysOf(base);
    const after = base?.keys === next.keys ? before : keysOf(next);
    const same = after === before;
    for (let at = 0; base !== null && at < before.length; at += 2) {
      const [number, key] = [before[at] as number, before[at + 1] as string];
      if (!this.#stored.has(number)) continue;
      const stays = same || includesKey(after, number, key);
      if (!stays) this.#push(n, number, key, base, null);
      else if (moved) this.#push(n, number, key, base, next);
    }
    for (let at = 0; !same && at < after.length; at += 2) {
      const [number, key] = [after[at] as number, after[at + 1] as string];
      if (!includesKey(before, number, key)) this.#push(n, number, key, null, next);
    }
  }

  parameters(): string[] {
    return this.#columns.map(arrayOf);
  }

  #push(n: number, number: number, key: string, from: Place | null, to: Place | null): void {
    const values = [n, number, key, from?.state ?? null, from?.since ?? null, to?.state ?? null, to?.since ?? null];
    for (const [at, value] of values.entries()) this.#columns[at]?.push(value);
  }
}

type Place = Pick<RowDraft, "state" | "since">;

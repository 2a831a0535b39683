/**
 * Filling in keys that are missing: of records that a process without all the index functions has written, and of those
 * that are older than an index.
 */
import { InvalidArgumentError } from "../errors.ts";
import { nextTurn } from "../slices.ts";
import { FIRST, LAST } from "./cursor.ts";
import type { Kit } from "./kit.ts";
import { DANGLING } from "./lifecycle.ts";
import { pages } from "./listing.ts";
import type { RowChange, Scope } from "./record-store.ts";
import type { StoredRow } from "./row.ts";

const BATCH = 256;

/**
 * Returns when every record is in every index that is stored: how many had to be brought there.
 *
 * @throws InvalidArgumentError when a function is lacking
 */
export async function fillKeys<D, S extends string>(kit: Kit<D, S>, signal: AbortSignal | undefined): Promise<number> {
  if (kit.store.unbuilt.length > 0) await build(kit, signal);
  for (let filled = 0; ; ) {
    const rows = await kit.store.unkeyed(BATCH, kit.scope(signal));
    if (rows.length === 0) return filled;
    assertComplete(kit);
    await rekey(kit, rows, kit.scope(signal));
    filled += rows.length;
    await nextTurn();
  }
}

export interface CompleteIndex {
  readonly number: number;
  /** Records that were in none before. */
  readonly filled: number;
}

/** A secondary index in which every record is. @throws InvalidArgumentError when there is none of that name (any more) */
export async function completeIndex<D, S extends string>(
  kit: Kit<D, S>,
  name: string,
  signal: AbortSignal | undefined,
): Promise<CompleteIndex> {
  await kit.store.refresh(kit.scope(signal));
  const filled = await fillKeys(kit, signal);
  const { secondary } = kit.store.registration;
  const number = secondary.get(name);
  if (number !== undefined) return { number, filled };
  const names = [...secondary.keys()].join(", ");
  throw new InvalidArgumentError("index", name, names === "" ? "an index; there is none" : `one of ${names}`);
}

async function build<D, S extends string>(kit: Kit<D, S>, signal: AbortSignal | undefined): Promise<void> {
  assertComplete(kit);
  const { unbuilt } = kit.store;
  const states = [...kit.rules.lifecycle.states, DANGLING];
  const range = { from: FIRST, to: LAST, reverse: false, limit: Number.POSITIVE_INFINITY };
  // Whatever changes its place meanwhile is written by somebody who has the functions, or without keys.
  for await (const page of pages(kit, { secondary: null, key: "", states }, range, signal)) {
    await rekey(kit, page, kit.scope(signal));
  }
  await kit.store.setBuilt(unbuilt, kit.scope(signal));
}

/** A row that has changed meanwhile has been keyed by whoever changed it, or is found among the unkeyed. */
async function rekey<D, S extends string>(kit: Kit<D, S>, rows: StoredRow[], scope: Scope): Promise<void> {
  const { registration } = kit.store;
  const changes: RowChange[] = [];
  for (const base of rows) {
    const next = kit.keyer.rekeyed(base, registration);
    if (next.keys !== base.keys) changes.push({ base, next, quiet: true });
  }
  if (changes.length > 0) await kit.store.write(changes, { epoch: null, registration }, scope);
}

function assertComplete<D, S extends string>({ keyer, store }: Kit<D, S>): void {
  if (keyer.knowsAll(store.registration)) return;
  const names = [...store.registration.secondary.keys()].join(", ");
  throw new InvalidArgumentError(
    "indexes",
    "fewer",
    `the functions of all indexes that are stored (${names}), or null to drop one`,
  );
}

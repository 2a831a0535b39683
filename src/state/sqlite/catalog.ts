/**
 * Which state indexes the store has, with which lifecycles and secondary indexes. Runs inside the writer's transaction.
 * The tables are small and read whole: a name that SQLite's own index has lost must not look like one that is new.
 */
import { assertSum, DamageError, sumOf } from "./checks.ts";
import type { Row, Statements } from "./database.ts";
import { TypedFailure } from "./failure.ts";
import type { Description, RegisterBody } from "./protocol.ts";
import * as sql from "./sql.ts";

/** The name of the secondary index that lists by state alone. */
const LISTING = "";

export function describe(statements: Statements, index: number): Description {
  const row = statements.one(sql.STATE_INDEX_BY_NUMBER, index);
  if (row === undefined) throw new DamageError(`state index ${index} is gone`);
  return described(statements, checkedIndex(row));
}

/** What an index is, and what the caller wants changed about it. */
interface Found {
  readonly description: Description;
  /** Names of secondary indexes to add, and numbers of those to drop. */
  readonly added: readonly string[];
  readonly dropped: readonly number[];
  readonly mirrored: boolean;
  readonly asWanted: boolean;
}

/** The index of that name when it is there and all about it is as the caller wants it; else null: {@link register} it. */
export function find(statements: Statements, wanted: RegisterBody): Description | null {
  const found = lookUp(statements, wanted);
  return found?.asWanted ? found.description : null;
}

/** Finds the index of that name or makes it, and brings its secondary indexes to what the caller has functions for. */
export function register(statements: Statements, wanted: RegisterBody): Description {
  const found = lookUp(statements, wanted);
  if (found === null) return create(statements, wanted);
  if (found.asWanted) return found.description;
  const { index, listing, generation } = found.description;
  for (const name of found.added) addSecondary(statements, index, name, false);
  for (const number of found.dropped) {
    statements.run(sql.DROP_ENTRIES, number);
    statements.run(sql.DELETE_SECONDARY, number);
  }
  // Records still say that they are under its keys: the next process that knows all functions goes through them.
  if (found.dropped.length > 0) setBuilt(statements, index, [listing], false);
  if (!found.mirrored) statements.run(sql.CLEAR_OUTBOX, index);
  const next = generation + (found.added.length + found.dropped.length > 0 ? 1 : 0);
  const sum = indexSum(index, wanted.name, wanted.lifecycle, next, found.mirrored);
  statements.run(sql.UPDATE_STATE_INDEX, next, Number(found.mirrored), sum, index);
  return describe(statements, index);
}

/** @throws TypedFailure when it was made with another lifecycle */
function lookUp(statements: Statements, { name, lifecycle, functions, dropped, mirrored }: RegisterBody): Found | null {
  const row = statements
    .all(sql.STATE_INDEXES)
    .map(checkedIndex)
    .find((each) => each["name"] === name);
  if (row === undefined) return null;
  if (row["lifecycle"] !== lifecycle) {
    throw new TypedFailure(
      "LifecycleMismatchError",
      `state index "${name}" was made with another lifecycle. Stored: ${row["lifecycle"]}; given: ${lifecycle}. Use another name, or the lifecycle that is stored.`,
    );
  }
  const description = described(statements, row);
  const known = new Map(description.secondary.map((each) => [each.name, each.number]));
  const found = {
    description,
    added: functions.filter((each) => !known.has(each)),
    dropped: dropped.flatMap((each) => known.get(each) ?? []),
    mirrored: mirrored ?? description.mirrored,
  };
  const changes = found.added.length + found.dropped.length + Number(found.mirrored !== description.mirrored);
  return { ...found, asWanted: changes === 0 };
}

/** Whether every record is in the indexes of these numbers, and under no key of one that was given up. */
export function setBuilt(statements: Statements, index: number, numbers: readonly number[], built = true): void {
  for (const { name, number } of secondaries(statements, index)) {
    if (numbers.includes(number)) {
      statements.run(sql.SET_BUILT, Number(built), sumOf(number, index, name, Number(built)), number);
    }
  }
}

function create(statements: Statements, { name, lifecycle, functions, mirrored }: RegisterBody): Description {
  const index = Number(statements.one(sql.NEXT_STATE_INDEX)?.["next"]);
  const sum = indexSum(index, name, lifecycle, 1, mirrored === true);
  statements.run(sql.INSERT_STATE_INDEX, index, name, lifecycle, 1, Number(mirrored === true), sum);
  for (const each of [LISTING, ...functions]) addSecondary(statements, index, each, true);
  return describe(statements, index);
}

/** Its number was never another's: records may still have keys of one that was given up. */
function addSecondary(statements: Statements, index: number, name: string, built: boolean): void {
  const number = Number(statements.get(sql.INSERT_SECONDARY).run(index, name, Number(built), 0).lastInsertRowid);
  setBuilt(statements, index, [number], built);
}

function described(statements: Statements, row: Row): Description {
  const index = Number(row["idx"]);
  const all = secondaries(statements, index);
  const listing = all.find((each) => each.name === LISTING);
  if (listing === undefined) throw new DamageError(`the listing of state index "${row["name"]}" is gone`);
  return {
    index,
    generation: Number(row["generation"]),
    mirrored: row["mirrored"] === 1,
    listing: listing.number,
    secondary: all.filter((each) => each.name !== LISTING),
    unbuilt: all.filter((each) => !each.built).map((each) => each.number),
  };
}

function checkedIndex(row: Row): Row {
  const { idx, name, lifecycle, generation, mirrored, sum } = row;
  const expected = indexSum(Number(idx), String(name), String(lifecycle), Number(generation), mirrored === 1);
  assertSum(`state index "${name}"`, expected, sum);
  return row;
}

function secondaries(statements: Statements, index: number): { name: string; number: number; built: boolean }[] {
  const all = statements.all(sql.SECONDARIES).map(({ ix, idx, name, built, sum }) => {
    const each = { index: Number(idx), name: String(name), number: Number(ix), built: built === 1 };
    // Not yet summed: it is just being added.
    if (sum !== 0)
      assertSum(`secondary index "${name}"`, sumOf(each.number, each.index, each.name, Number(built)), sum);
    return each;
  });
  return all.filter((each) => each.index === index);
}

function indexSum(index: number, name: string, lifecycle: string, generation: number, mirrored: boolean): number {
  return sumOf(index, name, lifecycle, generation, Number(mirrored));
}

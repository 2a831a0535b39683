/** Which state indexes the store has, with which lifecycles and secondary indexes. Runs inside the writer's transaction. */
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
  return described(statements, row);
}

/** Finds the index of that name or makes it, and brings its secondary indexes to what the caller has functions for. */
export function register(statements: Statements, body: RegisterBody): Description {
  const row = statements.one(sql.STATE_INDEX, body.name);
  if (row === undefined) return create(statements, body);
  const found = described(statements, row);
  if (row["lifecycle"] !== body.lifecycle) {
    throw new TypedFailure(
      "LifecycleMismatchError",
      `state index "${body.name}" was made with another lifecycle. Stored: ${row["lifecycle"]}; given: ${body.lifecycle}. Use another name, or the lifecycle that is stored.`,
    );
  }
  const known = new Map(found.secondary.map((each) => [each.name, each.number]));
  const added = body.functions.filter((name) => !known.has(name));
  const dropped = body.dropped.flatMap((name) => known.get(name) ?? []);
  const mirrored = body.mirrored ?? found.mirrored;
  if (added.length === 0 && dropped.length === 0 && mirrored === found.mirrored) return found;
  for (const name of added) addSecondary(statements, found.index, name, false);
  for (const number of dropped) {
    statements.run(sql.DROP_ENTRIES, number);
    statements.run(sql.DELETE_SECONDARY, number);
  }
  if (!mirrored) statements.run(sql.CLEAR_OUTBOX, found.index);
  const generation = found.generation + (added.length + dropped.length > 0 ? 1 : 0);
  const sum = indexSum(found.index, body.name, body.lifecycle, generation, mirrored);
  statements.run(sql.UPDATE_STATE_INDEX, generation, Number(mirrored), sum, found.index);
  return describe(statements, found.index);
}

export function setBuilt(statements: Statements, index: number, numbers: readonly number[]): void {
  for (const { name, number } of describe(statements, index).secondary) {
    if (numbers.includes(number)) statements.run(sql.SET_BUILT, 1, sumOf(number, index, name, 1), number);
  }
}

function create(statements: Statements, { name, lifecycle, functions, mirrored }: RegisterBody): Description {
  const index = Number(statements.one(sql.NEXT_STATE_INDEX)?.["next"]);
  const sum = indexSum(index, name, lifecycle, 1, mirrored === true);
  statements.run(sql.INSERT_STATE_INDEX, index, name, lifecycle, 1, Number(mirrored === true), sum);
  for (const each of [LISTING, ...functions]) addSecondary(statements, index, each, true);
  return describe(statements, index);
}

function addSecondary(statements: Statements, index: number, name: string, built: boolean): void {
  const number = Number(statements.one(sql.NEXT_SECONDARY)?.["next"]);
  statements.run(sql.INSERT_SECONDARY, number, index, name, Number(built), sumOf(number, index, name, Number(built)));
}

function described(statements: Statements, row: Row): Description {
  const { idx, name, lifecycle, generation, mirrored, sum } = row;
  const index = Number(idx);
  assertSum(
    `state index "${name}"`,
    indexSum(index, String(name), String(lifecycle), Number(generation), mirrored === 1),
    sum,
  );
  const all = statements.all(sql.SECONDARY, index).map((each) => {
    const number = Number(each["ix"]);
    const built = Number(each["built"]);
    assertSum(`secondary index "${each["name"]}"`, sumOf(number, index, String(each["name"]), built), each["sum"]);
    return { name: String(each["name"]), number, built: built === 1 };
  });
  const listing = all.find((each) => each.name === LISTING);
  if (listing === undefined) throw new DamageError(`the listing of state index "${name}" is gone`);
  return {
    index,
    generation: Number(generation),
    mirrored: mirrored === 1,
    listing: listing.number,
    secondary: all.filter((each) => each.name !== LISTING),
  };
}

function indexSum(index: number, name: string, lifecycle: string, generation: number, mirrored: boolean): number {
  return sumOf(index, name, lifecycle, generation, Number(mirrored));
}

import { constants, DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { MIGRATIONS } from "../../src/state/sqlite/schema.ts";
import * as sql from "../../src/state/sqlite/sql.ts";

const statements = new Map(Object.entries(sql).flatMap(([name, value]) => named(name, value)));

function named(name: string, value: string | object): [string, string][] {
  if (typeof value === "string") return [[name, value]];
  return Object.entries(value).flatMap(([key, inner]) => named(`${name}.${key}`, inner));
}

/** A parameter with a number counts once. */
function parametersOf(statement: string): number[] {
  const numbered = statement.match(/\?\d+/g) ?? [];
  const count = numbered.length > 0 ? new Set(numbered).size : (statement.match(/\?/g)?.length ?? 0);
  return Array.from({ length: count }, (_, at) => at + 1);
}

describe.skipIf(DatabaseSync.prototype.setAuthorizer === undefined)("each statement of the store", () => {
  test.each([...statements])("%s is compiled once, however often it runs", (_, text) => {
    const database = new DatabaseSync(":memory:");
    for (const migration of MIGRATIONS) database.exec(migration);
    const statement = database.prepare(text);
    const run = (parameters: number[]): void => {
      try {
        statement.all(...parameters);
      } catch (error) {
        // A constraint: it ran all the same.
        expect(error).toHaveProperty("code", "ERR_SQLITE_ERROR");
      }
    };
    let asked = 0;
    // SQLite asks while it compiles, and never while it runs. To be asked has it compile everything anew, once.
    database.setAuthorizer(() => {
      asked++;
      return constants.SQLITE_OK;
    });
    run(parametersOf(text));
    asked = 0;
    run(parametersOf(text).map((each) => each + 1));
    run(parametersOf(text));
    expect(asked).toBe(0);
    database.close();
  });
});

test("the range of kept changes is found at the ends of the log, not by reading it", () => {
  const database = new DatabaseSync(":memory:");
  for (const migration of MIGRATIONS) database.exec(migration);
  const plan = database.prepare(`EXPLAIN QUERY PLAN ${sql.CHANGE_RANGE}`).all();
  const steps = plan.map(({ detail }) => String(detail));
  expect(steps.filter((step) => step.startsWith("SCAN change"))).toEqual([]);
  expect(steps.filter((step) => step.startsWith("SEARCH change"))).toHaveLength(2);
  database.close();
});

/** The published suites, held against the store by what the package exports and nothing else, as an author of another would. */
import { describe, test } from "vitest";
import { openControlPlaneStore, openStateIndex } from "../../../src/postgres/index.ts";
import { stepLeaseLifecycle } from "../../../src/state/index.ts";
import { controlPlaneConformance, type StateIndexSubject, stateIndexConformance } from "../../conformance/index.ts";
import { createPlace, unavailable } from "./place.ts";

describe.skipIf(unavailable !== null)("the state index over PostgreSQL", () => {
  const cases = stateIndexConformance(async () => {
    const place = createPlace();
    return { open: (options) => openStateIndex({ postgres: place.source, ...options }), remove: place.remove };
  });
  for (const { name, run } of cases) test(name, run);
});

/** The promises that look at the time. */
const TIMED = /a new record|what the model does/;

describe.skipIf(unavailable !== null)("the state index over PostgreSQL, whose clock is set now and then", () => {
  for (const { name, run } of stateIndexConformance(createPlaceWithClock)) if (TIMED.test(name)) test(name, run);
});

/** Its sessions ask a function of the tests' own for the time. */
async function createPlaceWithClock(): Promise<StateIndexSubject> {
  const { source, schema, admin, remove } = createPlace();
  const own = `${schema}_clock`;
  await admin.unsafe(`
    CREATE SCHEMA ${own};
    CREATE TABLE ${own}.ahead (by interval);
    INSERT INTO ${own}.ahead VALUES ('0');
    CREATE FUNCTION ${own}.clock_timestamp() RETURNS timestamptz LANGUAGE sql
      AS 'SELECT pg_catalog.clock_timestamp() + by FROM ${own}.ahead'`);
  const postgres = { ...source, connection: { search_path: `${own}, pg_catalog` } };
  return {
    open: (options) => openStateIndex({ postgres, ...options }),
    clock: {
      slackMs: 1_000,
      async set(time) {
        const by = time === null ? "'0'" : `to_timestamp(${time} / 1000.0) - pg_catalog.clock_timestamp()`;
        await admin.unsafe(`UPDATE ${own}.ahead SET by = ${by}`);
        // The store learns it from the next answer.
        await using index = await openStateIndex({ postgres, name: "clock", lifecycle: stepLeaseLifecycle });
        await index.put({ id: "asks", state: "active", data: {} });
      },
    },
    async remove() {
      await admin.unsafe(`DROP SCHEMA ${own} CASCADE`);
      await remove();
    },
  };
}

describe.skipIf(unavailable !== null)("control-plane records in PostgreSQL", () => {
  const cases = controlPlaneConformance(async () => {
    const place = createPlace();
    return { open: () => openControlPlaneStore({ postgres: place.source }), remove: place.remove };
  });
  for (const { name, run } of cases) test(name, run);
});

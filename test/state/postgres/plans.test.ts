/** What the database does for a call, by its own account. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { stepLeaseLifecycle } from "../../../src/state/lifecycle.ts";
import { openStateIndex } from "../../../src/state/open.ts";
import { createPlace, type TestPlace, unavailable } from "./place.ts";

describe.skipIf(unavailable !== null)("the plans of statements", () => {
  let place: TestPlace;
  beforeAll(() => {
    place = createPlace();
  });
  afterAll(() => place?.remove());

  test("a change reads the record that it replaces and few others, also in a table that was empty a moment ago", async () => {
    const postgres = { ...place.source, max: 1 };
    await using leases = await openStateIndex({
      name: "leases",
      lifecycle: stepLeaseLifecycle,
      postgres,
      retention: false,
    });
    const insert = (n: number) => leases.insert({ id: `lease-${n}`, data: { n } });
    const update = (n: number) => leases.update(`lease-${n}`, { n: n + 1 });
    let changes = 0;
    const change = async (what: (n: number) => Promise<unknown>, n: number) => {
      await what(n);
      changes++;
    };
    // By now the connection has made its plans, and keeps them until the database has looked at the table anew.
    for (let n = 0; n < 20; n++) await change(insert, n).then(() => change(update, n));
    await Promise.all(Array.from({ length: 2_000 }, (_, n) => change(insert, 20 + n)));
    for (let n = 0; n < 50; n++) await change(update, n);
    await expect.poll(() => readBy(changes), { timeout: 10_000 }).toBeLessThan(10 * changes);

    /** How many records have been read; a connection gives its account once a second, when it is used. */
    async function readBy(changes: number): Promise<number> {
      await leases.get("lease-0");
      const [table] = await place.admin`
        SELECT (seq_tup_read + idx_tup_fetch)::int AS read, (n_tup_ins + n_tup_upd)::int AS written
        FROM pg_stat_user_tables WHERE schemaname = ${place.schema} AND relname = 'record'`;
      return table?.["written"] === changes ? table["read"] : Number.POSITIVE_INFINITY;
    }
  });
});

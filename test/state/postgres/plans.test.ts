/** What the database does for a call, by its own account. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { StepLeaseState } from "../../../src/state/index.ts";
import { stepLeaseLifecycle } from "../../../src/state/lifecycle.ts";
import { openStateIndex } from "../../../src/state/open.ts";
import { createPlace, type TestPlace, unavailable } from "./place.ts";

describe.skipIf(unavailable !== null)("the plans of statements", () => {
  let place: TestPlace;
  beforeAll(() => {
    place = createPlace();
  });
  afterAll(() => place?.remove());

  test("no call goes through all that there is, also where the tables were empty a moment ago", async () => {
    const postgres = { ...place.source, max: 1 };
    await using leases = await openStateIndex<{ n: number; worker: string }, StepLeaseState>({
      name: "leases",
      lifecycle: stepLeaseLifecycle,
      postgres,
      retention: false,
      indexes: { worker: ({ data }) => data.worker },
    });
    const dataOf = (n: number) => ({ n, worker: `w-${n % 100}` });
    let inserted = 0;
    const insert = async (): Promise<string> => {
      const { id } = await leases.insert({ id: `lease-${inserted++}`, data: dataOf(inserted) });
      return id;
    };
    const length = async (listing: AsyncIterable<unknown>): Promise<number> => {
      let found = 0;
      for await (const _ of listing) found++;
      return found;
    };
    let imports = 0;
    const importAgain = (ids: readonly string[]) =>
      leases.import(`import-${imports++}`, async function* () {
        for (const id of ids) yield { id, state: "active", since: 0, data: dataOf(0) };
      });
    /** One of each call. Reads some hundred rows. */
    async function callEach(): Promise<void> {
      const id = await insert();
      await leases.update(id, { n: -1 });
      await leases.get(id);
      expect(await leases.get("nobody")).toBeNull();
      await importAgain([id]);
      await length(leases.byState("active", { reverse: true, limit: 5 }));
      expect(await length(leases.by("worker", dataOf(inserted).worker, { state: "active", limit: 5 }))).toBeGreaterThan(
        0,
      );
      await leases.transition(await insert(), "completed");
      await insert();
      await leases.sweep({ from: "active", to: "expired", by: { index: "worker", key: dataOf(inserted).worker } });
      expect(await leases.prune({ states: ["completed"] })).toBe(1);
    }
    // By now the connection has made its plans, and keeps them until the database has looked at the tables anew.
    for (let n = 0; n < 10; n++) await callEach();
    await Promise.all(Array.from({ length: 2_000 }, insert));
    const before = await read();
    for (let n = 0; n < 50; n++) await callEach();
    expect((await read()) - before).toBeLessThan(50 * 300);

    /** How many rows have been read so far; a connection gives its account once a second, when it is used. */
    async function read(): Promise<number> {
      let last = -1;
      for (let steady = 0; steady < 2; ) {
        await new Promise((resolve) => setTimeout(resolve, 1_100));
        await leases.count();
        const [all] = await place.admin`
          SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::int AS read FROM pg_stat_user_tables
          WHERE schemaname = ${place.schema} AND relname IN ('record', 'entry', 'change', 'tombstone')`;
        steady = all?.["read"] === last ? steady + 1 : 0;
        last = all?.["read"] as number;
      }
      return last;
    }
  }, 60_000);
});

/** What the database does for a call, by its own account. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { StepLeaseState } from "../../../src/state/index.ts";
import { stepLeaseLifecycle } from "../../../src/state/lifecycle.ts";
import { openLeaseIndex, openStateIndex } from "../../../src/state/open.ts";
import { createPlace, type TestPlace, unavailable } from "./place.ts";

const TABLES = ["record", "entry", "change", "tombstone"];

/** A table that is small when the database looks at it, and large before it does so again. */
describe.skipIf(unavailable !== null).each(["never", "empty", "with one row"])(
  "plans where tables were analyzed %s",
  (when) => {
    let place: TestPlace;
    beforeAll(async () => {
      place = createPlace();
      const first = await openLeaseIndex({ name: "first", postgres: place.source, retention: false });
      for (const table of TABLES)
        await place.admin.unsafe(`ALTER TABLE ${place.schema}.${table} SET (autovacuum_enabled = off)`);
      if (when === "with one row") await first.insert({ id: "one", data: { workerName: "w" } });
      await first.close();
      if (when === "never") return;
      for (const table of TABLES) await place.admin.unsafe(`VACUUM ANALYZE ${place.schema}.${table}`);
    });
    afterAll(() => place?.remove());

    test("no call goes through all that there is", async () => {
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
        expect(
          await length(leases.by("worker", dataOf(inserted).worker, { state: "active", limit: 5 })),
        ).toBeGreaterThan(0);
        await leases.transition(await insert(), "completed");
        await insert();
        await leases.sweep({ from: "active", to: "expired", by: { index: "worker", key: dataOf(inserted).worker } });
        expect(await leases.prune({ states: ["completed"] })).toBe(1);
      }
      // By now the connection has made its plans, and keeps them.
      for (let n = 0; n < 10; n++) await callEach();
      await Promise.all(Array.from({ length: 2_000 }, insert));
      const before = await rowsRead(leases);
      for (let n = 0; n < 50; n++) await callEach();
      expect((await rowsRead(leases)) - before).toBeLessThan(50 * 300);
    }, 60_000);

    test("pruning looks each entry up, and goes through none", async () => {
      const postgres = { ...place.source, max: 1 };
      await using leases = await openLeaseIndex({ name: "pruned", postgres, retention: false });
      const insert = (n: number) =>
        leases.insert({ id: `pruned-${n}`, data: { workerName: `w-${n % 36}`, dispatchId: `d-${n}` } });
      const end = () => leases.sweep({ from: "active", to: "expired" });
      const prune = (keep: number) => leases.prune({ states: ["expired"], keep });
      await insert(0);
      await end();
      expect(await prune(0)).toBe(1);
      await Promise.all(Array.from({ length: 4_000 }, (_, n) => insert(1 + n)));
      await end();
      const before = await pagesRead(leases);
      expect(await prune(3_000)).toBe(1_000);
      // Its row, its two entries and its change, each at the end of a tree of two or three levels.
      expect((await pagesRead(leases)) - before).toBeLessThan(1_000 * 30);
    }, 60_000);

    test("pruning looks for what the mirror still has to write, and goes through none of it", async () => {
      const postgres = { ...place.source, max: 1 };
      const { promise: written, resolve: write } = Promise.withResolvers<void>();
      const mirror = { locate: () => "", write: () => written };
      await using leases = await openLeaseIndex({ name: "pending", postgres, retention: false, mirror });
      const insert = (n: number) => leases.insert({ id: `pending-${n}`, data: {} });
      await insert(0);
      await leases.transition("pending-0", "completed");
      expect(await leases.prune({ states: ["completed"] })).toBe(0);
      await Promise.all(Array.from({ length: 1_000 }, (_, n) => insert(1 + n)));
      await leases.sweep({ from: "active", to: "completed" });
      const before = await pagesRead(leases);
      expect(await leases.prune({ states: ["completed"] })).toBe(0);
      expect((await pagesRead(leases)) - before).toBeLessThan(1_000 * 30);
      write();
    }, 60_000);

    const READ = `relname IN (${TABLES.map((table) => `'${table}'`)})`;

    function rowsRead(index: { count(): Promise<number> }): Promise<number> {
      return steady(index, `sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::int`, "pg_stat_user_tables");
    }

    function pagesRead(index: { count(): Promise<number> }): Promise<number> {
      const all = "heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read";
      return steady(index, `sum(${all})::int`, "pg_statio_user_tables");
    }

    /** What the database has counted so far; a connection gives its account once a second, when it is used. */
    async function steady(index: { count(): Promise<number> }, sum: string, table: string): Promise<number> {
      let last = -1;
      for (let same = 0; same < 2; ) {
        await new Promise((resolve) => setTimeout(resolve, 1_100));
        await index.count();
        const [all] = await place.admin.unsafe(
          `SELECT ${sum} AS total FROM ${table} WHERE schemaname = '${place.schema}' AND ${READ}`,
        );
        same = all?.["total"] === last ? same + 1 : 0;
        last = all?.["total"] as number;
      }
      return last;
    }
  },
);

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { defineLifecycle } from "../../../src/state/lifecycle.ts";
import type { StateIndex, StateTransition } from "../../../src/state/model.ts";
import { openStateIndex } from "../../../src/state/open.ts";
import { lockOf } from "../../../src/state/postgres/schema.ts";
import { createPlace, type TestPlace, unavailable } from "./place.ts";

const lifecycle = defineLifecycle({ initial: "a", transitions: { a: ["b"], b: ["a"] } });
type Things = StateIndex<{ n: number }, "a" | "b">;

describe.skipIf(unavailable !== null)("a watch over PostgreSQL", () => {
  let place: TestPlace;
  let things: Things;
  beforeEach(async () => {
    place = createPlace();
    things = await openStateIndex({ name: "things", lifecycle, postgres: place.source, retention: false });
  });
  afterEach(async () => {
    await things.close();
    await place.remove();
  });

  async function take(
    from: AsyncIterator<StateTransition<{ n: number }, "a" | "b">>,
    count: number,
  ): Promise<string[]> {
    const ids: string[] = [];
    while (ids.length < count) ids.push((await from.next()).value?.id);
    return ids;
  }

  test("shows what commits late also when what began after it has committed before", async () => {
    const changes = things.watch();
    await things.insert({ id: "model", data: { n: 0 } });
    expect(await take(changes, 1)).toEqual(["model"]);
    let release = (): void => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    let begun = (): void => {};
    const isOpen = new Promise<void>((resolve) => {
      begun = resolve;
    });
    // As the store logs it, in a transaction that is held open.
    const late = place.admin.begin(async (sql) => {
      await sql.unsafe(`INSERT INTO ${place.schema}.change
        SELECT (pg_current_xact_id()::text::bigint - s.xid_base) * 4096 + 1, c.at, c.prev, c.mirror, c.idx, c.rec, c.id,
          c.state, c.since, c.created, c.revision, c.epoch, c.origin, c.keys, c.data, c.sum
        FROM ${place.schema}.change AS c, ${place.schema}.store AS s`);
      begun();
      await held;
    });
    await isOpen;
    for (let n = 0; n < 5; n++) await things.insert({ id: `early-${n}`, data: { n } });
    const seen = take(changes, 6);
    // A watch that begins meanwhile shows none of what was there, and what is still to come.
    const later = things.watch();
    await things.insert({ id: "last", data: { n: 9 } });
    const then = take(later, 2);
    release();
    await late;
    expect((await seen).sort()).toEqual(["early-0", "early-1", "early-2", "early-3", "early-4", "model"]);
    expect((await then).sort()).toEqual(["last", "model"]);
    await changes.return?.();
    await later.return?.();
  });

  test("goes on behind whatever was there already, however much that is", async () => {
    const begun = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    // Anywhere on the server: as long as it is under way, changes with later numbers are kept back from watchers.
    const older = place.admin.begin(async (sql) => {
      await sql.unsafe("SELECT pg_current_xact_id()");
      begun.resolve();
      await held.promise;
    });
    await begun.promise;
    await Promise.all(Array.from({ length: 600 }, (_, n) => things.insert({ id: `before-${n}`, data: { n } })));
    const changes = things.watch();
    const next = take(changes, 1);
    await things.insert({ id: "behind", data: { n: 0 } });
    held.resolve();
    await older;
    expect(await next).toEqual(["behind"]);
    await changes.return?.();
  });

  test("shows what is asked for after it was begun, also when an earlier change waits for a connection just then", async () => {
    const postgres = { ...place.source, max: 1 };
    const busy: Things = await openStateIndex({ name: "things", lifecycle, postgres, retention: false });
    const begun = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    const locking = place.admin.begin(async (sql) => {
      await sql.unsafe(`LOCK TABLE ${place.schema}.record`);
      begun.resolve();
      await held.promise;
    });
    await begun.promise;
    // Has the only connection.
    const reading = busy.get("thing");
    const earlier = busy.insert({ id: "earlier", data: { n: 0 } });
    await new Promise((resolve) => setTimeout(resolve, 10));
    const changes = busy.watch();
    const later = busy.insert({ id: "later", data: { n: 0 } });
    held.resolve();
    await Promise.all([locking, reading, earlier, later]);
    await busy.insert({ id: "last", data: { n: 0 } });
    const seen = await take(changes, 2);
    if (seen[0] === "earlier") seen.push(...(await take(changes, 1)));
    expect(seen.slice(-2)).toEqual(["later", "last"]);
    await changes.return?.();
    await busy.close();
  });

  test("misses nothing when all connections are cut again and again", async () => {
    const changes = things.watch();
    const seen = take(changes, 60);
    for (let n = 0; n < 60; n++) {
      if (n % 20 === 10) {
        await place.admin`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE application_name = 'tussock' AND query LIKE ${`%${place.schema}%`}`;
      }
      await insertSurely(n);
    }
    expect(new Set(await seen).size).toBe(60);
    await changes.return?.();
  });

  /** Whoever is told that nobody knows looks. */
  async function insertSurely(n: number): Promise<void> {
    const id = `thing-${n}`;
    try {
      await things.insert({ id, data: { n } });
    } catch (error) {
      expect((error as { code: string }).code).toBe("WRITE_DEADLINE");
      if ((await things.get(id)) === null) await things.insert({ id, data: { n } });
    }
  }

  test("is told of a server's changes also when no notification comes", async () => {
    const other = await openStateIndex({
      name: "things",
      lifecycle,
      postgres: { ...place.source, max: 2 },
      retention: false,
    });
    const changes = things.watch();
    const next = changes.next();
    await place.admin`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE ${`LISTEN %${place.schema}`}`;
    await other.insert({ id: "unheard", data: { n: 0 } });
    expect((await next).value?.id).toBe("unheard");
    await changes.return?.();
    await other.close();
  });
});

describe.skipIf(unavailable !== null)("the log of changes in PostgreSQL", () => {
  test("is cut behind the latest; a watch that is further behind is told so", async () => {
    const place = createPlace();
    const things: Things = await openStateIndex({
      name: "things",
      lifecycle,
      postgres: place.source,
      retention: false,
      durability: "committed",
    });
    const changes = things.watch();
    await things.insert({ id: "first", data: { n: 0 } });
    expect((await changes.next()).value?.id).toBe("first");
    await things.import("many", async function* () {
      for (let n = 0; n < 13_000; n++) yield { id: `thing-${n}`, state: "a" as const, since: n, data: { n } };
    });
    const kept = async () =>
      Number((await place.admin.unsafe(`SELECT count(*) AS n FROM ${place.schema}.change`))[0]?.["n"]);
    while ((await kept()) > 12_500) await new Promise((resolve) => setTimeout(resolve, 5));
    await expect(changes.next()).rejects.toMatchObject({ code: "WATCH_LAGGED" });
    expect((await things.verify()).problems).toEqual([]);
    await things.close();
    await place.remove();
  });
});

describe.skipIf(unavailable !== null)("a mirror over PostgreSQL", () => {
  test("is delivered by one server at a time, and by the other when the connection of the one is cut", async () => {
    const place = createPlace();
    const written: string[] = [];
    const open = (who: string, max: number) =>
      openStateIndex<{ n: number }, "a" | "b">({
        name: "mirrored",
        lifecycle,
        postgres: { ...place.source, max },
        retention: false,
        mirror: {
          locate: ({ id }) => id,
          async write({ id }) {
            written.push(`${who} ${id}`);
          },
        },
      });
    const one = await open("one", 3);
    await one.insert({ id: "first", data: { n: 0 } });
    await until(() => written.length === 1);
    const other = await open("other", 2);
    await other.insert({ id: "second", data: { n: 0 } });
    await until(() => written.length === 2);
    expect(written).toEqual(["one first", "one second"]);
    // Both have it open in the process of the one: still it is delivered once.
    const twin = await open("twin", 3);
    await place.admin`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE query LIKE ${`%pg_try_advisory_lock(${lockOf(place.schema, "mirror 1")})%`}`;
    await one.close();
    await twin.close();
    await other.insert({ id: "third", data: { n: 0 } });
    await until(() => written.length === 3);
    expect(written[2]).toBe("other third");
    expect((await other.verify()).problems).toEqual([]);
    await other.close();
    await place.remove();
  });
});

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5));
}

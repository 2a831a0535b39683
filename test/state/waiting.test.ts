import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import { stepLeaseLifecycle } from "../../src/state/lifecycle.ts";
import { openStateIndex, type StateIndexOptions } from "../../src/state/open.ts";
import { fastestOf } from "../support/fastest.ts";
import { isDeno, isLong, tempDir } from "../support/spawn.ts";
import { withoutWorkers } from "../support/workers.ts";

type LeaseState = "active" | "completed" | "failed" | "expired";

const open = (dir: string, options: Partial<StateIndexOptions<object, LeaseState>> = {}) =>
  openStateIndex<object, LeaseState>({
    name: "lease",
    lifecycle: stepLeaseLifecycle,
    dir,
    retention: false,
    ...options,
  });

/** Another connection that has the store for writing, as another process would. */
function lock(dir: string): { release(): void } {
  const database = new DatabaseSync(join(dir, "state.db"), { timeout: 5_000 });
  database.exec("BEGIN IMMEDIATE");
  return {
    release: () => {
      database.exec("ROLLBACK");
      database.close();
    },
  };
}

/** Of the event loop: never over while something holds it. */
const turns = async (count: number) => {
  for (let n = 0; n < count; n++) await new Promise((resolve) => setTimeout(resolve, 1));
};

describe.each(["on the writer's thread", "inline"])("while another process has the store locked, %s", (where) => {
  const begin = () => where === "inline" && withoutWorkers();

  test("a write waits its turn, reads go on, and the event loop runs", async () => {
    begin();
    const dir = tempDir();
    const index = await open(dir);
    await index.insert({ id: "a", data: {} });
    const other = lock(dir);
    const write = index.insert({ id: "b", data: {} });
    await turns(20);
    expect((await index.get("a"))?.id).toBe("a");
    expect(await index.get("b")).toBe(null);
    other.release();
    expect((await write).revision).toBe(1);
    await index.close();
  });

  test("a write that is late is refused by its type, and has done nothing", async () => {
    begin();
    const dir = tempDir();
    await (await open(dir)).close();
    const index = await open(dir, { writeDeadlineMs: 300, durability: "committed" });
    const other = lock(dir);
    const late = [index.insert({ id: "a", data: {} }), index.beginEpoch(), index.insert({ id: "b", data: {} })];
    for (const write of late)
      await expect(write).rejects.toMatchObject({ code: "STATE_STORE_BUSY", path: join(dir, "state.db") });
    other.release();
    await index.close();
    const again = await open(dir);
    expect((await again.insert({ id: "c", data: {} })).epoch).toBe(0);
    expect(await again.count()).toBe(1);
    await again.close();
  });

  test("a write that is aborted rejects at once, and has done nothing", async () => {
    begin();
    const dir = tempDir();
    const index = await open(dir);
    const other = lock(dir);
    const reason = new Error("given up");
    const once = async (): Promise<number> => {
      const abort = new AbortController();
      const writes = Array.from({ length: 100 }, (_, n) =>
        index.insert({ id: `${n}`, data: {} }, { signal: abort.signal }),
      );
      const settled = Promise.allSettled(writes);
      await turns(20);
      const start = performance.now();
      abort.abort(reason);
      const outcomes = await settled;
      const tookMs = performance.now() - start;
      for (const outcome of outcomes) expect(outcome).toEqual({ status: "rejected", reason });
      return tookMs;
    };
    expect(await fastestOf(5, 50, once)).toBeLessThan(50);
    other.release();
    await index.insert({ id: "after", data: {} });
    expect(await index.count()).toBe(1);
    await index.close();
  });
});

test("a store that is locked beyond the deadline is not opened, and an opening can be aborted", async () => {
  const dir = tempDir();
  await (await open(dir)).close();
  const other = new DatabaseSync(join(dir, "state.db"));
  other.exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; UPDATE store SET epoch = epoch");
  await expect(open(dir, { writeDeadlineMs: 300 })).rejects.toMatchObject({ code: "STATE_STORE_BUSY" });
  const abort = new AbortController();
  const opening = open(dir, { signal: abort.signal });
  setTimeout(() => abort.abort("enough"), 50);
  await expect(opening).rejects.toBe("enough");
  other.exec("ROLLBACK");
  other.close();
  const index = await open(dir);
  expect((await index.insert({ id: "a", data: {} })).revision).toBe(1);
  await index.close();
});

test("an opening that is aborted at any moment leaves no thread, no lock and no half-made store", async () => {
  const dir = tempDir();
  await (await open(join(dir, "warm"))).close();
  const threads = () => readdirSync("/proc/self/task").length;
  const before = threads();
  let opened = 0;
  for (let n = 0; n < (isLong ? 300 : 12); n++) {
    const abort = new AbortController();
    const opening = open(dir, { signal: abort.signal });
    setTimeout(() => abort.abort("enough"), (n * 17) % 120);
    try {
      await (await opening).close();
      opened++;
    } catch (error) {
      expect(error).toBe("enough");
    }
  }
  expect(opened).toBeLessThan(isLong ? 300 : 12);
  // Deno's own threads come and go.
  if (!isDeno) expect(threads()).toBeLessThanOrEqual(before);
  const index = await open(dir);
  expect((await index.insert({ id: "a", data: {} })).revision).toBe(1);
  await index.close();
  expect(readdirSync(dir).sort()).toEqual(["state.db", "state.lock", "warm"]);
});

test("a write that the store has begun and does not end in time says that its outcome is unknown; the revision tells it", async () => {
  const dir = tempDir();
  const before = await open(dir);
  await before.insert({ id: "a", data: {} });
  await before.close();
  const index = await open(dir, { writeDeadlineMs: 200 });
  const database = new DatabaseSync(join(dir, "state.db"), { timeout: 5_000 });
  // A disk that takes its time, as far as the writer can tell.
  database.exec(`CREATE TRIGGER slow AFTER UPDATE ON record BEGIN
    SELECT count(*) FROM (WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 4000000) SELECT n FROM c);
  END`);
  const write = index.transition("a", "completed");
  await expect(write).rejects.toMatchObject({ code: "WRITE_DEADLINE", path: join(dir, "state.db") });
  expect((await index.get("a"))?.revision).toBe(1);
  await index.close();
  database.exec("DROP TRIGGER slow");
  database.close();
  const again = await open(dir);
  expect(await again.get("a")).toMatchObject({ state: "completed", revision: 2 });
  await again.close();
});

test("a listing that pauses while 10,000 changes are made does not let the WAL grow", async () => {
  withoutWorkers();
  const dir = tempDir();
  const index = await open(dir, { durability: "committed" });
  for (let n = 0; n < 300; n++) await index.insert({ id: `${n}`, data: { text: "x".repeat(200) } });
  const listing = index.byState("active");
  await listing.next();
  const writers = Array.from({ length: 50 }, async (_, at) => {
    for (let n = 0; n < 200; n++) await index.update(`${at}`, { n });
  });
  await Promise.all(writers);
  const wal = join(dir, "state.db-wal");
  expect(statSync(wal).size).toBeLessThan(12 * 1_048_576);
  let rest = 0;
  for await (const _ of listing) rest++;
  expect(rest).toBe(299);
  expect(statSync(wal).size).toBeLessThan(12 * 1_048_576);
  await index.close();
});

test("a listing of many records keeps no more in memory than a few pages of them", async () => {
  withoutWorkers();
  const count = isLong ? 1_000_000 : 8_000;
  const dir = tempDir();
  const index = await open(dir, { durability: "committed" });
  const text = "x".repeat(isLong ? 300 : 4_000);
  await index.import("many", async function* () {
    for (let n = 0; n < count; n++) yield { id: `${n}`, state: "active", since: n, data: { text: `${n}${text}` } };
  });
  let seen = 0;
  let most = 0;
  const before = heldBytes();
  for await (const _ of index.byState("active")) {
    if (seen++ % Math.floor(count / 10) === 0) most = Math.max(most, heldBytes() - before);
  }
  expect(seen).toBe(count);
  // All of them would be 32 MB, and in the long run 300.
  expect(most).toBeLessThan(8 * 1_048_576);
  await index.close();
});

/** What is still reachable. */
function heldBytes(): number {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
  return process.memoryUsage().heapUsed;
}

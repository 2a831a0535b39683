import { describe, expect, test } from "vitest";
import { stepLeaseLifecycle } from "../../src/state/lifecycle.ts";
import { openStateIndex } from "../../src/state/open.ts";
import { tempDir } from "../support/spawn.ts";
import { withoutWorkers } from "../support/workers.ts";

type LeaseState = "active" | "completed" | "failed" | "expired";
const open = (dir: string, options: object = {}) =>
  openStateIndex<object, LeaseState>({
    name: "lease",
    lifecycle: stepLeaseLifecycle,
    dir,
    durability: "committed",
    retention: false,
    ...options,
  });

describe("those who follow", () => {
  test("a watcher that is further behind than the log reaches is told so, and leaves nothing behind", async () => {
    withoutWorkers();
    const index = await open(tempDir());
    const behind = index.watch();
    const idle = index.watch();
    await index.insert({ id: "first", data: {} });
    expect((await idle.next()).value.id).toBe("first");
    await index.import("many", async function* () {
      for (let n = 0; n < 11_500; n++) yield { id: `${n}`, state: "active", since: n, data: {} };
    });
    await expect(behind.next()).rejects.toMatchObject({ code: "WATCH_LAGGED" });
    expect((await behind.next()).done).toBe(true);
    await expect(idle.next()).rejects.toMatchObject({ code: "WATCH_LAGGED" });
    expect((await index.verify()).problems).toEqual([]);
    await index.close();
  });

  test("a watcher that waits is not behind, however much changes in other indexes meanwhile", async () => {
    withoutWorkers();
    const dir = tempDir();
    const [index, other] = [await open(dir), await open(dir, { name: "other" })];
    await index.insert({ id: "before", data: {} });
    const watcher = index.watch();
    const next = watcher.next();
    await other.import("many", async function* () {
      for (let n = 0; n < 11_500; n++) yield { id: `${n}`, state: "active", since: n, data: {} };
    });
    await index.insert({ id: "first", data: {} });
    expect((await next).value?.id).toBe("first");
    await watcher.return?.();
    await Promise.all([index.close(), other.close()]);
  });

  test("of two that have the mirror one delivers at a time, and the other takes over", async () => {
    const dir = tempDir();
    const written: string[] = [];
    const mirror = (name: string) => ({
      locate: () => "",
      write: async ({ id }: { id: string }) => {
        written.push(`${name} ${id}`);
      },
    });
    const first = await open(dir, { mirror: mirror("first") });
    const second = await open(dir, { mirror: mirror("second") });
    for (let n = 0; n < 20; n++) await first.insert({ id: `${n}`, data: {} });
    while (written.length < 20) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(written).toEqual(Array.from({ length: 20 }, (_, n) => `first ${n}`));
    await first.close();
    await second.insert({ id: "last", data: {} });
    while (written.length < 21) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(written.at(-1)).toBe("second last");
    await second.close();
    expect(written).toHaveLength(21);
  });

  test("a source that never goes on does not keep an index from being closed", async () => {
    const index = await open(tempDir());
    const silent = { [Symbol.asyncIterator]: () => ({ next: () => new Promise<never>(() => {}) }) };
    const importing = index.import("silent", () => silent);
    const refused = expect(importing).rejects.toMatchObject({ code: "CLOSED" });
    await index.get("a");
    await index.close();
    await refused;
  });
});

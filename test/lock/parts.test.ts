/** The parts of the name lock, where an instant decides that no test of the whole can hit. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { probeFileLock, tryFileLock } from "../../src/lock/file-lock.ts";
import { firstLook, isStale, lookAgain } from "../../src/lock/holder-record.ts";
import { enterLine } from "../../src/lock/line.ts";
import { useMutex } from "../../src/lock/mutex.ts";
import { tempDir } from "../support/spawn.ts";

test("whose turn comes in the instant in which it aborts passes it on", async () => {
  const controller = new AbortController();
  const leave = await enterLine("a");
  const second = enterLine("a", controller.signal);
  const third = enterLine("a");
  leave();
  controller.abort("enough");
  await expect(second).rejects.toBe("enough");
  (await third)();
  (await enterLine("a"))();
});

test("who aborts in the middle of a line leaves it, and the order stays", async () => {
  const controller = new AbortController();
  const order: number[] = [];
  const leave = await enterLine("a");
  const rest = [1, 2, 3].map(async (i) => {
    const out = await enterLine("a", i === 2 ? controller.signal : undefined);
    order.push(i);
    out();
  });
  controller.abort("enough");
  leave();
  expect((await Promise.allSettled(rest)).map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect(order).toEqual([1, 3]);
});

test("a mutex is given back however its last user gives up: before it is taken, in that instant, and after", async () => {
  const path = join(tempDir(), "deep", "mutex");
  for (let turns = 0; turns < 8; turns++) {
    const controller = new AbortController();
    const using = useMutex(path, controller.signal);
    for (let i = 0; i < turns; i++) await null;
    controller.abort("enough");
    await using.then(
      (use) => use.leave(),
      (reason) => expect(reason).toBe("enough"),
    );
    for (let i = 0; i < 8; i++) await null;
    expect(["free", "absent"]).toContain(probeFileLock(path));
  }
  const [first, second] = await Promise.all([useMutex(path), useMutex(path)]);
  first.leave();
  expect(tryFileLock(path)).toBeNull();
  second.leave();
  tryFileLock(path)!.release();
});

test("a waiter that was stopped for an hour does not take it for an hour without a renewal", () => {
  const ttlMs = 8000;
  let watched = firstLook(JSON.stringify({ holder: "ann@pod", ttlMs }), "1:1:1", 0, 30_000);
  watched = lookAgain(watched, 3_600_000);
  expect(isStale(watched, true)).toBe(false);
  expect(watched.unchangedMs).toBe(1000);
  for (let now = 3_600_000 + 500; watched.unchangedMs < ttlMs; now += 500) {
    expect(isStale(watched, true)).toBe(false);
    watched = lookAgain(watched, now);
  }
  expect(isStale(watched, true)).toBe(true);
});

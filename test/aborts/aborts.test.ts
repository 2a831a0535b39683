/**
 * Every public asynchronous call, aborted before, during and after: it rejects with the reason and has done nothing, or it
 * settles with what it has done; and nothing is left but the next call's right answer.
 */
import { getEventListeners } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { tempDir } from "../support/spawn.ts";
import type { Call } from "./call.ts";
import { abortEverywhere } from "./driver.ts";
import { pointsOfNoReturn } from "./manual.ts";
import { nameOf, rooms } from "./rooms.ts";

const points = pointsOfNoReturn();

describe.each(rooms)("aborted before, during and after: $name", (room) => {
  const dir = mkdtempSync(join(tmpdir(), "tussock-"));
  let world: unknown;
  beforeAll(async () => {
    world = await room.open(dir);
  });
  afterAll(async () => {
    await room.close(world);
    rmSync(dir, { recursive: true, force: true });
  });

  test.each(Object.entries(room.calls))("%s", async (name, call) => {
    const point = points.get(nameOf(name));
    const { rejected } = await abortEverywhere(call, world, point?.startsWith("none") ?? false);
    // Else it was aborted before and after, but not during.
    if (!call.atOnce && point !== "the call") expect(rejected).toBeGreaterThan(0);
  });
});

test("10,000 calls with one signal, of all kinds, leave no listener behind", async () => {
  const warnings: Error[] = [];
  const onWarning = (warning: Error): number => warnings.push(warning);
  process.on("warning", onWarning);
  const { signal } = new AbortController();
  let calls = 0;
  for (const room of rooms) {
    const world = await room.open(tempDir());
    for (const call of Object.values(room.calls)) {
      calls += await callOften(call, world, signal);
      expect(getEventListeners(signal, "abort")).toEqual([]);
    }
    await room.close(world);
  }
  process.off("warning", onWarning);
  expect(calls).toBeGreaterThanOrEqual(10_000);
  expect(warnings).toEqual([]);
});

/** What only reads is asked so often of the same. */
const READS = 100;

async function callOften<World>(call: Call<World>, world: World, signal: AbortSignal): Promise<number> {
  const { repeats = 20 } = call;
  for (let n = 0; n < repeats; ) {
    const attempt = await call.prepare(world, n + 1);
    const times = attempt.done === undefined ? Math.min(READS, repeats - n) : 1;
    for (let time = 0; time < times; time++, n++) await attempt.call(signal, () => {});
    await attempt.look();
    await attempt.end?.();
  }
  return repeats;
}

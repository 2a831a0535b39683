/** A server's own signal is given to every call that it makes, for as long as it lives. */
import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { tempDir } from "../support/spawn.ts";
import type { Call } from "./call.ts";
import { rooms } from "./rooms.ts";

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

/**
 * Every public asynchronous call, aborted before, during and after: it rejects with the reason and has done nothing, or it
 * settles with what it has done; and nothing is left but the next call's right answer.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
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

/** The tests of one room: each of its calls, aborted before, during and after. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Room } from "./call.ts";
import { abortEverywhere } from "./driver.ts";
import { pointsOfNoReturn } from "./manual.ts";
import { nameOf } from "./rooms.ts";

const points = pointsOfNoReturn();

export function abortRoom<World>(room: Room<World>): void {
  describe(`aborted before, during and after: ${room.name}`, () => {
    let dir: string;
    let world: World;
    beforeAll(async () => {
      dir = mkdtempSync(join(tmpdir(), "tussock-"));
      world = await room.open(dir);
    });
    afterAll(async () => {
      await room.close(world);
      rmSync(dir, { recursive: true, force: true });
    });

    test.each(Object.entries(room.calls))("%s", async (name, call) => {
      const point = points.get(nameOf(name));
      const { rejected } = await abortEverywhere(room, call, world, point?.startsWith("none") ?? false);
      // Else it was aborted before and after, but not during.
      if (!call.atOnce && point !== "the call") expect(rejected).toBeGreaterThan(0);
    });
  });
}

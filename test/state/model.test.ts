import { beforeEach } from "vitest";
import { openStateIndex } from "../../src/state/open.ts";
import { processClock } from "../support/clock.ts";
import { isLong, tempDir } from "../support/spawn.ts";
import { withoutWorkers } from "../support/workers.ts";
import { testBesideModel } from "./model-programs.ts";

beforeEach(() => {
  if (!isLong) withoutWorkers();
});

testBesideModel(
  () => {
    const dir = tempDir();
    return {
      open: (options) => openStateIndex({ dir, retention: false, durability: "committed", ...options }),
      clock: processClock,
    };
  },
  isLong ? 200 : 8,
);

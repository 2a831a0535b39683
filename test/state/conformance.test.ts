import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "vitest";
import { openStateIndex } from "../../src/state/open.ts";
import { type StateIndexSubject, stateIndexConformance } from "../conformance/state-index.ts";
import { processClock } from "../support/clock.ts";
import { isLong } from "../support/spawn.ts";
import { withoutWorkers } from "../support/workers.ts";

async function createPlace(): Promise<StateIndexSubject> {
  const dir = mkdtempSync(join(tmpdir(), "tussock-state-"));
  return {
    open: (options) => openStateIndex({ dir, ...options }),
    clock: processClock,
    remove: async () => rmSync(dir, { recursive: true }),
  };
}

const cases = stateIndexConformance(createPlace);

/** A thread takes a tenth of a second to start, so the short run has it only where it makes a difference. */
const WHERE_THREADS_MATTER =
  /abort|closed|woken|no change is lost|many that insert|stays completed|two sweeps|mirror that fails|mirror refuses|overtakes|not come back/;

describe("the state index over SQLite, its writer on a thread of its own", () => {
  for (const { name, run } of cases) if (isLong || WHERE_THREADS_MATTER.test(name)) test(name, run);
});

describe("the state index over SQLite where no worker can start", () => {
  for (const { name, run } of cases) {
    // The short run has random operations of its own, which can be made smaller when one fails: model.test.ts.
    if (!isLong && name.includes("what the model does")) continue;
    test(name, () => {
      withoutWorkers();
      return run();
    });
  }
});

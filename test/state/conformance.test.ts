import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "vitest";
import { openStateIndex } from "../../src/state/open.ts";
import { type StateIndexSubject, stateIndexConformance } from "../conformance/state-index.ts";
import { isLong } from "../support/spawn.ts";
import { inline } from "./support.ts";

/** `through` opens each index; the writer is on a thread unless it says otherwise. */
function placesFor(through: typeof openStateIndex) {
  return async (): Promise<StateIndexSubject> => {
    const dir = mkdtempSync(join(tmpdir(), "tussock-state-"));
    return {
      open: (options) => through({ dir, ...options }),
      remove: async () => rmSync(dir, { recursive: true }),
    };
  };
}

describe("the state index over SQLite", () => {
  for (const { name, run } of stateIndexConformance(placesFor(openStateIndex))) {
    // Random runs open the index again and again, and a thread takes a tenth of a second to start.
    if (isLong || !name.includes("what the model does")) test(name, run);
  }
});

describe("the state index over SQLite where no worker can start", () => {
  for (const { name, run } of stateIndexConformance(placesFor(inline(openStateIndex)))) {
    if (isLong || name.includes("what the model does") || name.includes("abort")) test(name, run);
  }
});

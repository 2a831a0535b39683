import fc from "fast-check";
import { describe, test } from "vitest";
import type { Lifecycle } from "../../src/state/lifecycle.ts";
import { openStateIndex } from "../../src/state/open.ts";
import type { StateIndexSubject } from "../conformance/state-index.ts";
import { type Operation, type Run, step } from "../conformance/state-model.ts";
import { LIFECYCLES, randomOperation, runBeside } from "../conformance/state-random.ts";
import { processClock } from "../support/clock.ts";
import { isLong, tempDir } from "../support/spawn.ts";
import { withoutWorkers } from "../support/workers.ts";

/** An operation made of small numbers, so that fast-check can shrink it. */
function operation(lifecycle: Lifecycle<string>): fc.Arbitrary<fc.AsyncCommand<object, Run>> {
  return fc.array(fc.nat(9_999), { minLength: 40, maxLength: 40 }).map((choices) => {
    let at = 0;
    return new Step(randomOperation(lifecycle, (limit) => (choices[at++ % choices.length] as number) % limit));
  });
}

/** The model is in the run: it decides and compares in one. */
class Step implements fc.AsyncCommand<object, Run> {
  readonly operation: Operation;

  constructor(operation: Operation) {
    this.operation = operation;
  }

  check(): boolean {
    return true;
  }

  run(_: object, run: Run): Promise<void> {
    return step(run, this.operation);
  }

  toString(): string {
    return JSON.stringify(this.operation);
  }
}

describe("whatever is done to an index, aborts, reopenings and clock jumps among it, it does what the model does", () => {
  for (const [name, lifecycle] of Object.entries(LIFECYCLES)) {
    test(`with the lifecycle of a ${name}`, async () => {
      if (!isLong) withoutWorkers();
      const property = fc.asyncProperty(fc.commands([operation(lifecycle)], { maxCommands: 80 }), (commands) => {
        const dir = tempDir();
        const place: StateIndexSubject = {
          open: (options) => openStateIndex({ dir, retention: false, durability: "committed", ...options }),
          clock: processClock,
        };
        return runBeside(place, lifecycle, (run) => fc.asyncModelRun(() => ({ model: {}, real: run }), commands));
      });
      await fc.assert(property, { numRuns: isLong ? 200 : 8 });
    });
  }
});

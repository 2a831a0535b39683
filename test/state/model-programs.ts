/** Random programs that are run on an index and on the model, and made as short as they can be where the two differ. */
import fc from "fast-check";
import { describe, test } from "vitest";
import type { Lifecycle } from "../../src/state/lifecycle.ts";
import type { StateIndexSubject } from "../conformance/state-index.ts";
import { type Operation, type Run, step } from "../conformance/state-model.ts";
import { LIFECYCLES, randomOperation, runBeside } from "../conformance/state-random.ts";
import { isLong } from "../support/spawn.ts";

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

/** Ends the search for a shorter program in time to show the one that it has. */
const WITHIN = isLong ? {} : { interruptAfterTimeLimit: 45_000, markInterruptAsFailure: true };

/** `create` makes a place for each program; `programs`: how many of each lifecycle. */
export function testBesideModel(create: () => StateIndexSubject, programs: number): void {
  describe("whatever is done to an index, aborts, reopenings and clock jumps among it, it does what the model does", () => {
    for (const [name, lifecycle] of Object.entries(LIFECYCLES)) {
      test(`with the lifecycle of a ${name}`, async () => {
        // By itself it makes programs of ten operations at most, whatever is allowed.
        const program = fc.commands([operation(lifecycle)], { maxCommands: 80, size: "max" });
        const property = fc.asyncProperty(program, async (commands) => {
          const place = create();
          try {
            await runBeside(place, lifecycle, (run) => fc.asyncModelRun(() => ({ model: {}, real: run }), commands));
          } finally {
            await place.remove?.();
          }
        });
        await fc.assert(property, { numRuns: programs, ...WITHIN });
      });
    }
  });
}

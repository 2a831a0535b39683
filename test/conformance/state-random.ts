/** Random operations beside the model, for the ready-made lifecycles and one of its own. */
import {
  defineLifecycle,
  type Lifecycle,
  pendingDispatchLifecycle,
  runLifecycle,
  stepLeaseLifecycle,
  workerLifecycle,
} from "../../src/state/lifecycle.ts";
import { numbers } from "./case.ts";
import { START, StoreTime } from "./state-clock.ts";
import type { Promises, StateIndexSubject } from "./state-index.ts";
import { compareAll, type Data, INDEXES, Model, type Operation, type Run, step, TAGS, WORKERS } from "./state-model.ts";

/** Cycles, a state that leads to itself, and one that nothing leads to. */
export const oddLifecycle = defineLifecycle<string>({
  initial: "a",
  transitions: { a: ["b", "end"], b: ["a", "b"], lost: ["end"], end: [] },
});

export const LIFECYCLES: Record<string, Lifecycle<string>> = {
  "step lease": stepLeaseLifecycle as Lifecycle<string>,
  "pending dispatch": pendingDispatchLifecycle as Lifecycle<string>,
  worker: workerLifecycle as Lifecycle<string>,
  run: runLifecycle as Lifecycle<string>,
  odd: oddLifecycle as Lifecycle<string>,
};

/** Gives `operate` a new index of the place and the model; at the end both must agree in all. */
export async function runBeside(
  { open, clock }: Pick<StateIndexSubject, "open" | "clock">,
  lifecycle: Lifecycle<string>,
  operate: (run: Run) => Promise<void>,
): Promise<void> {
  const openIndex = () => open<Data, string>({ name: "model", lifecycle, indexes: INDEXES });
  const time = await StoreTime.begin(open, clock);
  try {
    const run: Run = {
      model: new Model(lifecycle),
      time,
      index: await openIndex(),
      reopen: async () => {
        await run.index.close();
        return openIndex();
      },
    };
    try {
      await operate(run);
      await compareAll(run);
    } finally {
      await run.index.close();
    }
  } finally {
    await time.end();
  }
}

export const randomRuns: Promises = Object.fromEntries(
  Object.entries(LIFECYCLES).map(([name, lifecycle], at): [string, Promises[string]] => [
    `a ${name} index does what the model does, whatever is done`,
    (open, clock) =>
      runBeside(clock === undefined ? { open } : { open, clock }, lifecycle, async (run) => {
        const below = numbers(at + 1);
        for (let n = 0; n < 150; n++) await step(run, randomOperation(lifecycle, below));
      }),
  ]),
);

/** `below(n)` gives a number from 0 to n - 1. */
export function randomOperation(lifecycle: Lifecycle<string>, below: (limit: number) => number): Operation {
  const pick = <T>(of: readonly T[]): T => of[below(of.length)] as T;
  const maybe = <T>(value: () => T): T | undefined => (below(3) === 0 ? value() : undefined);
  const id = () => `id-${below(8)}`;
  const state = () => pick(lifecycle.states);
  const any = () => pick([...lifecycle.states, "dangling"]);
  const some = () => [...new Set([any(), any()])];
  const time = () => START - 5 + below(400);
  const data = (): Data => ({ worker: pick(WORKERS), tags: TAGS.filter(() => below(2) === 0), n: below(10) });
  const change = (): Operation => {
    switch (below(6)) {
      case 0:
        return {
          kind: "put",
          id: id(),
          state: state(),
          data: data(),
          ...given(
            "revision",
            maybe(() => below(4)),
          ),
        };
      case 1:
      case 2:
        return {
          kind: "update",
          id: id(),
          n: below(10),
          whole: below(2) === 0,
          ...given("state", maybe(state)),
          ...given(
            "revision",
            maybe(() => below(4)),
          ),
        };
      case 3:
        return {
          kind: "insert",
          id: id(),
          ...given("state", maybe(state)),
          ...given("since", maybe(time)),
          data: data(),
        };
      default:
        return {
          kind: "transition",
          id: id(),
          to: state(),
          ...given(
            "from",
            maybe(() => [state(), state()]),
          ),
          ...given(
            "revision",
            maybe(() => below(4)),
          ),
          ...given(
            "n",
            maybe(() => below(10)),
          ),
        };
    }
  };
  switch (below(20)) {
    case 0:
      return {
        kind: "sweep",
        from: state(),
        to: state(),
        ...given(
          "beforeEpoch",
          maybe(() => below(5)),
        ),
        ...given(
          "below",
          maybe(() => below(10)),
        ),
        ...given(
          "batchSize",
          maybe(() => 1 + below(3)),
        ),
      };
    case 1:
      return {
        kind: "prune",
        states: some(),
        ...given("endedBefore", maybe(time)),
        ...given(
          "keep",
          maybe(() => below(3)),
        ),
      };
    case 2: {
      const item = () => ({
        id: id(),
        state: any(),
        since: time(),
        data: data(),
        ...given(
          "origin",
          maybe(() => pick(["here", "there"])),
        ),
      });
      return { kind: "import", items: Array.from({ length: 1 + below(4) }, item) };
    }
    case 3:
      return { kind: "epoch" };
    case 4:
      return {
        kind: "aborted",
        operation: below(4) === 0 ? { kind: "epoch" } : change(),
        ...given("turns", pick([undefined, 0, 1, 2, 5, 20, 100])),
      };
    case 5:
      return { kind: "together", operations: Array.from({ length: 2 + below(6) }, change) };
    case 6:
      return { kind: "clock", by: pick([-3_600_000, -1, 0, 1, 3_600_000]) };
    case 7:
      return { kind: "reopen" };
    case 8:
      return {
        kind: "list",
        states: some(),
        reverse: below(2) === 0,
        skip: below(4),
        ...given(
          "limit",
          maybe(() => below(4)),
        ),
        ...given("after", maybe(time)),
        ...given("before", maybe(time)),
      };
    case 9:
      return {
        kind: "by",
        index: pick(["worker", "tag", "even"] as const),
        key: pick([...WORKERS, ...TAGS, "yes"]),
        ...given("states", maybe(some)),
      };
    default:
      return change();
  }
}

function given<K extends string, T>(key: K, value: T | undefined): { [P in K]?: T } {
  return (value === undefined ? {} : { [key]: value }) as { [P in K]?: T };
}

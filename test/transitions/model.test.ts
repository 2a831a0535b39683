/** Random programs against the slow obvious model: everybody in one list, in order of arrival. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Deferred, deferred } from "../../src/abort.ts";
import { NestedTransitionError } from "../../src/errors.ts";
import { createTransitionQueue, type TransitionQueue } from "../../src/transitions/index.ts";
import { isLong } from "../support/spawn.ts";
import { countListeners } from "./listeners.ts";

type Step =
  | { do: "ask"; keys: string[]; aborted: boolean }
  | { do: "succeed" | "fail" | "nest" | "abort"; which: number };

interface Asked {
  readonly keys: readonly string[];
  readonly controller: AbortController;
  readonly listeners: () => number;
  readonly gate: Deferred<string>;
  readonly settled: Promise<PromiseSettledResult<string>>;
  started: boolean;
  /** In the model: it can neither run nor wait any more. */
  over: boolean;
}

const key = fc.constantFrom("a", "b", "c", "d");
const which = fc.nat(1_000);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("ask" as const),
      keys: fc.array(key, { minLength: 1, maxLength: 3 }),
      aborted: fc.integer({ min: 0, max: 19 }).map((n) => n === 0),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constantFrom("succeed" as const, "fail" as const), which }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("nest" as const), which }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("abort" as const), which }) },
);

const settleMicrotasks = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** One random program's run: what was asked, in order of arrival, and what the rules say of it. */
class Program {
  readonly asked: Asked[] = [];
  readonly queue: TransitionQueue;
  readonly concurrency: number;

  constructor(concurrency: number) {
    this.concurrency = concurrency;
    this.queue = createTransitionQueue({ concurrency });
  }

  get running(): Asked[] {
    return this.asked.filter((each) => each.started && !each.over);
  }

  get waiting(): Asked[] {
    return this.asked.filter((each) => !each.started && !each.over);
  }

  /** Whether somebody who came earlier is in its way. */
  isBehind(one: Asked): boolean {
    const earlier = this.asked.slice(0, this.asked.indexOf(one));
    return earlier.some((each) => !each.over && each.keys.some((key) => one.keys.includes(key)));
  }

  async step(step: Step): Promise<void> {
    if (step.do === "ask") this.ask(step.keys, step.aborted);
    else if (step.do === "abort") this.abort(pick(this.asked, step.which));
    else this.end(pick(this.running, step.which), step.do);
    await settleMicrotasks();
    this.check();
  }

  ask(keys: string[], aborted: boolean): void {
    const controller = new AbortController();
    const listeners = countListeners(controller.signal);
    if (aborted) controller.abort("aborted before");
    const gate = deferred<string>();
    const run = this.queue.run(
      keys,
      async () => {
        expect(one.over, "none starts after its promise has settled").toBe(false);
        expect(this.isBehind(one), "none starts while an earlier one of its keys waits or runs").toBe(false);
        one.started = true;
        try {
          const how = await gate.promise;
          if (how === "nest") await this.queue.run(pick(["a", "x"], this.asked.length) as string, () => {});
          if (how === "fail") throw new Error("failed");
          return "succeeded";
        } finally {
          one.over = true;
        }
      },
      { signal: controller.signal },
    );
    const settled = run.then(
      (value) => ({ status: "fulfilled" as const, value }),
      (reason: unknown) => ({ status: "rejected" as const, reason }),
    );
    const one: Asked = { keys, controller, listeners, gate, settled, started: false, over: aborted };
    this.asked.push(one);
  }

  abort(one: Asked | undefined): void {
    if (one === undefined) return;
    if (!one.started) one.over = true;
    one.controller.abort("aborted");
  }

  end(one: Asked | undefined, how: "succeed" | "fail" | "nest"): void {
    one?.gate.resolve(how);
  }

  check(): void {
    const { queue, running, waiting } = this;
    const held = running.flatMap(({ keys }) => [...new Set(keys)]);
    expect(new Set(held).size, "no two of one key run at once").toBe(held.length);
    expect(running.length).toBeLessThanOrEqual(this.concurrency);
    if (running.length < this.concurrency)
      for (const each of waiting) expect(this.isBehind(each), "whoever can run does").toBe(true);
    expect(queue.stats()).toMatchObject({ running: running.length, waiting: waiting.length });
    for (const key of ["a", "b", "c", "d"])
      expect(queue.depth(key)).toBe([...running, ...waiting].filter(({ keys }) => keys.includes(key)).length);
  }

  /** Lets all end, and checks what each of them came to. */
  async finish(): Promise<void> {
    while (this.running.length > 0) {
      for (const each of this.running) each.gate.resolve("succeed");
      await settleMicrotasks();
    }
    await this.queue.idle();
    for (const one of this.asked) {
      const result = await one.settled;
      if (!one.started) expect(result).toMatchObject({ status: "rejected", reason: /^aborted/ });
      const how = one.started ? await one.gate.promise : null;
      if (how === "succeed") expect(result).toEqual({ status: "fulfilled", value: "succeeded" });
      if (how === "fail") expect(result).toMatchObject({ reason: { message: "failed" } });
      if (how === "nest") expect(result).toMatchObject({ reason: expect.any(NestedTransitionError) });
      expect(one.listeners()).toBe(0);
    }
    expect(this.queue.size).toBe(0);
    expect(this.queue.stats()).toEqual({ waiting: 0, running: 0, keys: 0, oldestWaiter: null, longestRunning: null });
  }
}

function pick<T>(from: readonly T[], which: number): T | undefined {
  return from[which % Math.max(1, from.length)];
}

const numRuns = isLong ? 20_000 : 400;

test.each([Number.POSITIVE_INFINITY, 1, 3])(
  "random programs keep order, exclusion and liveness, concurrency %s",
  async (concurrency) => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const program = new Program(concurrency);
        for (const each of steps) await program.step(each);
        await program.finish();
      }),
      { numRuns },
    );
  },
);

test("random bursts in one turn, with aborts in mid-air, settle and leave nothing", async () => {
  const call = fc.record({
    keys: fc.array(key, { minLength: 1, maxLength: 3 }),
    turns: fc.nat(3),
    abortAfter: fc.option(fc.nat(12)),
    throws: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(call, { maxLength: 40 }), fc.integer({ min: 1, max: 5 }), async (calls, concurrency) => {
      const queue = createTransitionQueue({ concurrency });
      const inside = new Set<string>();
      const order = new Map<string, number>();
      const all = calls.map(async ({ keys, turns, abortAfter, throws }, index) => {
        const controller = new AbortController();
        const run = queue.run(
          keys,
          async () => {
            for (const each of new Set(keys)) {
              expect(inside.has(each)).toBe(false);
              expect(order.get(each) ?? -1).toBeLessThan(index);
              inside.add(each);
              order.set(each, index);
            }
            for (let left = turns; left > 0; left--) await Promise.resolve();
            for (const each of keys) inside.delete(each);
            if (throws) throw new Error("failed");
          },
          { signal: controller.signal },
        );
        run.catch(() => {});
        if (abortAfter !== null) {
          for (let left = abortAfter; left > 0; left--) await Promise.resolve();
          controller.abort(new Error("aborted"));
        }
        return run;
      });
      for (const result of await Promise.allSettled(all))
        if (result.status === "rejected") expect(result.reason.message).toMatch(/^(failed|aborted)$/);
      await queue.idle();
      expect(queue.stats()).toEqual({ waiting: 0, running: 0, keys: 0, oldestWaiter: null, longestRunning: null });
    }),
    { numRuns },
  );
});

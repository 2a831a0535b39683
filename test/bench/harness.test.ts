import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { LEAST_ROUNDS, median, micro, Own, quantile, race, ratio, Series, stopwatch } from "../../bench/harness.ts";
import { LoopWatch } from "../../bench/support/loop-delay.ts";

/** Keeps this thread busy. */
function spin(ms: number): void {
  const start = performance.now();
  while (performance.now() - start < ms);
}

function seriesOf(...values: number[]): Series {
  const series = new Series();
  for (const value of values) series.add(value, value);
  return series;
}

describe("a race", () => {
  test("runs every contestant in every round, once for warmth, and lets each go first", async () => {
    const log: string[] = [];
    const contestant = (name: string) => ({
      before: (round: number) => log.push(`before ${name} ${round}`),
      run: (round: number) => new Own(log.push(`${name} ${round}`)),
      after: (round: number) => log.push(`after ${name} ${round}`),
    });
    const series = await race({ a: contestant("a"), b: contestant("b") }, { rounds: 5 });
    expect(log.slice(0, 6)).toEqual(["before a -1", "a -1", "after a -1", "before b -1", "b -1", "after b -1"]);
    const runs = log.filter((line) => /^[ab] \d/.test(line));
    expect(runs).toEqual(["b 0", "a 0", "a 1", "b 1", "b 2", "a 2", "a 3", "b 3", "b 4", "a 4"]);
    expect(series.a.values).toHaveLength(5);
    expect(series.b.values).toHaveLength(5);
  });

  test("takes the time of what it runs, and of that alone", async () => {
    const { slow, quick } = await race(
      {
        slow: { before: () => spin(5), run: () => spin(4), after: () => spin(5), per: 2 },
        quick: { run: () => {} },
      },
      { rounds: 5 },
    );
    expect(Math.min(...slow.values)).toBeGreaterThanOrEqual(2);
    expect(Math.min(...slow.values)).toBeLessThan(5);
    expect(Math.min(...quick.values)).toBeLessThan(1);
  });

  test("waits for what is asynchronous, and passes an error on", async () => {
    const { later } = await race(
      { later: { run: () => new Promise((resolve) => setTimeout(resolve, 3)) } },
      { rounds: 5, warmups: 0 },
    );
    expect(Math.min(...later.values)).toBeGreaterThan(1);
    await expect(race({ bad: { run: () => Promise.reject(new Error("no")) } }, { rounds: 5 })).rejects.toThrow("no");
  });

  test("gives no figure from fewer than five rounds", async () => {
    await expect(race({ a: { run: () => {} } }, { rounds: LEAST_ROUNDS - 1 })).rejects.toThrow(RangeError);
    const { few } = await race({ few: { run: () => {}, rounds: 2 } }, { rounds: 5 });
    expect(few.values).toHaveLength(2);
    expect(() => few.median).toThrow(RangeError);
    expect(() => median([1, 2, 3, 4])).toThrow(RangeError);
  });

  test("tells how far it has come", async () => {
    const told: [number, number][] = [];
    await race({ a: { run: () => {} }, b: { run: () => {} } }, { rounds: 5, onRound: (...at) => told.push(at) });
    expect(told[0]).toEqual([1, 12]);
    expect(told.at(-1)).toEqual([12, 12]);
  });
});

test("a contestant of microseconds gives the time of one operation, synchronous or not", async () => {
  const contestants = {
    sync: micro(() => spin(0.05), { batch: 8 }),
    async: micro(async () => spin(0.05), { batch: 8 }),
  };
  const series = await race(contestants, { rounds: 5, warmups: 0 });
  for (const { values } of [series.sync, series.async]) {
    expect(Math.min(...values)).toBeGreaterThanOrEqual(0.05);
    expect(Math.min(...values)).toBeLessThan(0.5);
  }
  await expect(micro(() => spin(0)).run(0)).resolves.toBeInstanceOf(Own);
});

test("a stopwatch tells the time and the CPU time since it was started", () => {
  const took = stopwatch();
  spin(20);
  expect(took().value).toBeGreaterThanOrEqual(20);
  expect(took().cpu).toBeGreaterThanOrEqual(0);
});

describe("statistics", () => {
  const finite = fc.double({ min: 1e-6, max: 1e6, noNaN: true });

  test("a quantile lies among the values and grows with its share", () => {
    expect(quantile([4, 1, 3, 2, 5], 0.5)).toBe(3);
    expect(quantile([1, 2, 3, 4], 0.5)).toBe(2.5);
    expect(quantile([1, 2, 3, 4, 5], 0.25)).toBe(2);
    expect(quantile([], 0.5)).toBeNaN();
    fc.assert(
      fc.property(fc.array(finite, { minLength: 1 }), fc.double({ min: 0, max: 1, noNaN: true }), (values, q) => {
        const at = quantile(values, q);
        expect(at).toBeGreaterThanOrEqual(Math.min(...values));
        expect(at).toBeLessThanOrEqual(Math.max(...values));
        expect(quantile(values, 1)).toBe(Math.max(...values));
        expect(quantile(values, 0)).toBe(Math.min(...values));
      }),
    );
  });

  test("a ratio compares what ran next to each other: a slow half of a run moves neither", () => {
    const slowdown = [1, 1, 1, 9, 9, 9, 9];
    const [ours, theirs] = [slowdown.map((factor) => 2 * factor), slowdown.map((factor) => 4 * factor)];
    expect(ratio(ours, theirs)).toBe(0.5);
    expect(ratio([2, 2, 2, 2, 2], [1, 1, 1, 1, 1, 50, 50])).toBe(2);
    expect(() => ratio([1, 1], [1, 1, 1, 1, 1])).toThrow(RangeError);
  });

  test("a series is scaled as a whole", () => {
    const scaled = seriesOf(1, 2, 3, 4, 5).scaled(20);
    expect(scaled.values).toEqual([20, 40, 60, 80, 100]);
    expect(scaled.cpu).toEqual(scaled.values);
  });
});

test("a held event loop is noticed", async () => {
  const watch = new LoopWatch();
  await new Promise((resolve) => setTimeout(resolve, 5));
  spin(40);
  await new Promise((resolve) => setTimeout(resolve, 5));
  expect(watch.stop().max).toBeGreaterThanOrEqual(38);
});

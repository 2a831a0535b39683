import { describe, expect, test } from "vitest";
import { Series } from "../../bench/harness.ts";
import { missedGoals } from "../../bench/session.ts";
import { atMost, atMostTimes, figure, row, timesFaster } from "../../bench/support/rows.ts";

function seriesOf(...values: number[]): Series {
  const series = new Series();
  for (const value of values) series.add(value, value / 2);
  return series;
}

const slow = seriesOf(10, 11, 12, 13, 14);
const fast = seriesOf(1, 1.1, 1.2, 1.3, 1.4);

describe("a figure", () => {
  test("is the median with the middle half, the worst and the CPU time of the rounds", () => {
    expect(figure(slow)).toEqual({ median: 12, low: 11, high: 13, worst: 14, rounds: 5, cpu: 6 });
    expect(figure(slow, "5 files").computedFrom).toBe("5 files");
  });

  test("has no CPU time where one round has none", () => {
    const series = seriesOf(1, 2, 3, 4);
    series.add(5);
    expect(figure(series).cpu).toBeNull();
  });

  test("does not exist for fewer than five rounds", () => {
    expect(() => figure(seriesOf(1, 2, 3, 4))).toThrow(RangeError);
  });
});

describe("a verdict", () => {
  test("on a ratio is reached up to its limit", () => {
    expect(atMostTimes(slow, fast, 10.001, "that")).toMatchObject({ kind: "ratio", unit: "times", reached: true });
    expect(atMostTimes(slow, fast, 9.9, "that")).toMatchObject({ value: expect.closeTo(10), reached: false });
    expect(timesFaster(fast, slow, 9.9, "that")).toMatchObject({ value: expect.closeTo(10), reached: true });
    expect(timesFaster(fast, slow, 10.1, "that")).toMatchObject({ byCpu: expect.closeTo(10), reached: false });
  });

  test("on a size includes its limit", () => {
    expect(atMost(3, 3, "≤ 3 ms").reached).toBe(true);
    expect(atMost(3.01, 3, "≤ 3 ms").reached).toBe(false);
    expect(atMost(Number.NaN, 3, "≤ 3 ms").reached).toBe(false);
  });

  test("that is not reached is named with its row", () => {
    const rows = [
      row("hit", "N = 5", slow, { verdicts: [atMost(1, 2, "≤ 2 ms"), atMostTimes(slow, fast, 2, "the floor")] }),
      row("miss", "N = 5", fast, { verdicts: [atMost(1, 2, "≤ 2 ms")] }),
    ];
    expect(missedGoals(rows)).toEqual([["hit", "N = 5", "✗ ≤ 2 × the floor: 10.0×"]]);
  });
});

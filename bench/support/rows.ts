/** What a question is answered with: figures, and verdicts on goals. Plain data, since they cross processes. */
import { median, quantile, ratio, type Series } from "../harness.ts";
import type { RowId } from "./page.ts";

export type Unit = "ms" | "bytes";

export interface Figure {
  median: number;
  /** The middle half of the rounds lies between these. */
  low: number;
  high: number;
  worst: number;
  rounds: number;
  /** Median CPU time of the process (of the thread, in rows of microseconds); null where unknown. */
  cpu: number | null;
  /** Set where it was not measured at this size: what it was computed from. */
  computedFrom?: string;
}

export interface Verdict {
  /** `≤ 2 × floor`, `≤ 3 µs`. */
  goal: string;
  kind: "ratio" | "absolute";
  /** `times` for ratios. */
  unit: Unit | "times" | "count";
  value: number;
  /** The same by CPU time, where it is known: what a loaded machine does not distort. */
  byCpu: number | null;
  reached: boolean;
}

export interface Row {
  id: RowId;
  /** The size that it was measured at, such as `N = 50,000`. */
  at: string;
  unit: Unit;
  ours: Figure;
  rivals: Record<string, Figure>;
  floor: Figure | null;
  verdicts: Verdict[];
  notes: string[];
}

/** A point of a chart. */
export interface Point {
  chart: "lookup" | "boot";
  line: string;
  x: number;
  y: number;
  /** Computed, not measured. */
  computed: boolean;
}

export interface Answer {
  rows: Row[];
  points?: Point[];
  /** Why a row cannot be measured here. */
  unmeasured?: Partial<Record<RowId, string>>;
}

export function figure(series: Series, computedFrom?: string): Figure {
  const { values, cpu } = series;
  const known = cpu.every(Number.isFinite);
  return {
    median: median(values),
    low: quantile(values, 0.25),
    high: quantile(values, 0.75),
    worst: Math.max(...values),
    rounds: values.length,
    cpu: known ? median(cpu) : null,
    ...(computedFrom === undefined ? {} : { computedFrom }),
  };
}

export function row(id: RowId, at: string, ours: Series, rest: Partial<Omit<Row, "id" | "at" | "ours">> = {}): Row {
  return { id, at, unit: "ms", ours: figure(ours), rivals: {}, floor: null, verdicts: [], notes: [], ...rest };
}

/** Goal: ours takes at most `limit` times what the other takes. */
export function atMostTimes(ours: Series, other: Series, limit: number, what: string): Verdict {
  const value = ratio(ours.values, other.values);
  const byCpu = cpuRatio(ours, other);
  return {
    goal: `≤ ${amount(limit)} × ${what}`,
    kind: "ratio",
    unit: "times",
    value,
    byCpu,
    reached: value <= limit,
  };
}

/** Goal: ours is at least `limit` times as fast as the other. */
export function timesFaster(ours: Series, other: Series, limit: number, what: string): Verdict {
  const value = ratio(other.values, ours.values);
  const byCpu = cpuRatio(other, ours);
  return {
    goal: `≥ ${amount(limit)} × as fast as ${what}`,
    kind: "ratio",
    unit: "times",
    value,
    byCpu,
    reached: value >= limit,
  };
}

/** Goal: at most so many milliseconds, bytes or things. */
export function atMost(
  value: number,
  limit: number,
  what: string,
  o: { unit?: Unit | "count"; byCpu?: number | null } = {},
): Verdict {
  return { goal: what, kind: "absolute", unit: o.unit ?? "ms", value, byCpu: o.byCpu ?? null, reached: value <= limit };
}

/** Ratios of CPU time say nothing where both have hardly any. */
function cpuRatio(of: Series, to: Series): number | null {
  const value = ratio(of.cpu, to.cpu);
  return Number.isFinite(value) ? value : null;
}

function amount(limit: number): string {
  return limit.toLocaleString("en-US");
}

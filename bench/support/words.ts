/** Figures as people read them. */
import { time, times } from "../../examples/support/table.ts";
import type { Figure, Row, Unit, Verdict } from "./rows.ts";

export function amount(value: number, unit: Unit | "times" | "count"): string {
  switch (unit) {
    case "ms":
      return value === 0 ? "0" : time(value);
    case "bytes":
      return bytes(value);
    case "times":
      return times(value).replace(" ×", "×");
    case "count":
      return value.toLocaleString("en-US");
  }
}

function bytes(value: number): string {
  const absolute = Math.abs(value);
  if (absolute < 1e3) return `${Math.round(value)} B`;
  if (absolute < 1e6) return `${(value / 1e3).toFixed(1)} KB`;
  if (absolute < 1e9) return `${(value / 1e6).toFixed(1)} MB`;
  return `${(value / 1e9).toFixed(2)} GB`;
}

/** `2.9 µs (2.8–3.1)`: the median, and the middle half of the rounds. */
export function median(figure: Figure, unit: Unit): string {
  if (figure.computedFrom !== undefined) return `≈ ${amount(figure.median, unit)}`;
  const [whole, low, high] = [figure.median, figure.low, figure.high].map((value) => amount(value, unit)) as [
    string,
    string,
    string,
  ];
  const suffix = / \S+$/.exec(whole)?.[0] ?? "";
  const bare = (text: string): string =>
    suffix !== "" && text.endsWith(suffix) ? text.slice(0, -suffix.length) : text;
  return `${whole} (${bare(low)}–${bare(high)})`;
}

export function rivals(row: Row): string {
  return Object.entries(row.rivals)
    .map(([name, figure]) => `${name} ${amountOf(figure, row.unit)}`)
    .join("; ");
}

export function amountOf(figure: Figure, unit: Unit): string {
  return `${figure.computedFrom === undefined ? "" : "≈ "}${amount(figure.median, unit)}`;
}

/** How many times the floor: the ratio that tells how much there is left to gain. */
export function overFloor(row: Row): string {
  return row.floor === null ? "" : amount(row.ours.median / row.floor.median, "times");
}

/** `✓ ≤ 2 × the floor: 1.7×`. */
export function verdict({ goal, value, unit, reached }: Verdict): string {
  return `${reached ? "✓" : "✗"} ${goal}: ${amount(value, unit)}`;
}

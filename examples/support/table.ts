/** Aligned tables of measurements. */

/** Milliseconds that each of some calls took. */
export class Timings {
  readonly #values: number[] = [];

  get count(): number {
    return this.#values.length;
  }

  add(ms: number): void {
    this.#values.push(ms);
  }

  /** Runs it, and takes its time. */
  async measure<R>(work: () => Promise<R> | R): Promise<R> {
    const start = performance.now();
    const result = await work();
    this.add(performance.now() - start);
    return result;
  }

  get median(): number {
    const sorted = this.#values.toSorted((a, b) => a - b);
    const middle = sorted.length >> 1;
    if (sorted.length === 0) return Number.NaN;
    return sorted.length % 2 === 1 ? at(sorted, middle) : (at(sorted, middle - 1) + at(sorted, middle)) / 2;
  }

  /** The time that 99 of 100 stay within. */
  get p99(): number {
    const sorted = this.#values.toSorted((a, b) => a - b);
    return at(sorted, Math.ceil(sorted.length * 0.99) - 1);
  }

  get worst(): number {
    return this.#values.reduce((worst, value) => Math.max(worst, value), 0);
  }
}

function at(values: readonly number[], index: number): number {
  return values[index] ?? Number.NaN;
}

/** `12.3 µs`, `4.56 ms`, `7.89 s`: three digits, in the unit that suits. */
export function time(ms: number): string {
  if (Number.isNaN(ms)) return "—";
  if (ms < 1) return `${digits(ms * 1000)} µs`;
  if (ms < 1000) return `${digits(ms)} ms`;
  return `${digits(ms / 1000)} s`;
}

/** `1,234 ×`, `5.6 ×`. */
export function times(ratio: number): string {
  if (!Number.isFinite(ratio)) return "—";
  return `${ratio >= 100 ? Math.round(ratio).toLocaleString("en-US") : digits(ratio)} ×`;
}

function digits(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** Columns as wide as their widest cell; the first is set to the left, the others to the right. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [head, ...rows];
  const widths = head.map((_, column) => Math.max(...all.map((row) => (row[column] ?? "").length)));
  const line = (row: readonly string[]): string =>
    widths
      .map((width, column) => {
        const cell = row[column] ?? "";
        return column === 0 ? cell.padEnd(width) : cell.padStart(width);
      })
      .join("  ")
      .trimEnd();
  const rule = widths.map((width) => "─".repeat(width)).join("──");
  return [line(head), rule, ...rows.map(line)].join("\n");
}

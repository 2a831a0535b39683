/** Brings the last complete results into the README files and charts. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { time } from "../../examples/support/table.ts";
import { type Chart, drawChart } from "./chart.ts";
import { count } from "./context.ts";
import { between, circumstances, fullTable, notes, shortTable } from "./markdown.ts";
import { type Results, sizeOf, writeWhole } from "./results.ts";
import type { Point } from "./rows.ts";

const BENCH = join(import.meta.dirname, "..");

const CHARTS: Record<Point["chart"], Pick<Chart, "title" | "xTitle">> = {
  lookup: { title: "Looking a name up", xTitle: "stored definitions" },
  boot: { title: "A boot that ends 19 stale leases", xTitle: "leases ever written" },
};

/** The last whole runs, as far as there are any. */
export interface Runs {
  node: Results | null;
  /** At the largest sizes. */
  largest: Results | null;
  deno: Results | null;
}

/** Writes what the runs given say, and returns the files that changed. */
export function writeReports({ node, largest, deno }: Runs, bench = BENCH): string[] {
  const runs = [node, largest, deno].filter((results) => results !== null);
  const written: string[] = [];
  const full = runs.map(fullSection).join("\n\n");
  const short = runs.slice(0, 1).map(shortSection).join("\n\n");
  for (const [file, content] of [
    [join(bench, "README.md"), full],
    [join(bench, "../README.md"), short],
  ] as const) {
    const text = existsSync(file) ? between(readFileSync(file, "utf8"), content) : null;
    if (text === null || runs.length === 0) continue;
    writeWhole(file, text);
    written.push(file);
  }
  for (const name of Object.keys(CHARTS) as Point["chart"][]) {
    const svg = chartOf(name, (largest ?? node)?.points ?? []);
    if (svg === null) continue;
    writeWhole(join(bench, `${name}.svg`), svg);
    written.push(join(bench, `${name}.svg`));
  }
  return written;
}

function fullSection(results: Results): string {
  const runtime = results.runtime === "deno" ? "Deno" : "Node";
  const title = sizeOf(results) === "largest" ? `${runtime}, at the largest sizes` : runtime;
  const said = notes(results);
  return `### ${title}\n\n${circumstances(results)}\n\n${fullTable(results)}${said === "" ? "" : `\n\n${said}`}`;
}

function shortSection(results: Results): string {
  return `${shortTable(results)}\n\n${circumstances(results)} How to read it: [bench/README.md](bench/README.md).`;
}

/** Null when nothing was measured for it. */
export function chartOf(name: Point["chart"], points: readonly Point[]): string | null {
  const lines = new Map<string, Point[]>();
  for (const point of points.filter(({ chart }) => chart === name)) {
    lines.set(point.line, [...(lines.get(point.line) ?? []), point]);
  }
  if (lines.size === 0) return null;
  return drawChart({
    ...CHARTS[name],
    xText: count,
    yText: (ms) => time(ms).replace(/\.0+ | (?=\D)/, " "),
    lines: [...lines].map(([line, points]) => ({ name: line, points })),
  });
}

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { Series } from "../../bench/harness.ts";
import { drawChart } from "../../bench/support/chart.ts";
import { between, END, fullTable, START, shortTable } from "../../bench/support/markdown.ts";
import { PAGE, QUESTIONS } from "../../bench/support/page.ts";
import { chartOf, writeReports } from "../../bench/support/reports.ts";
import { type Results, readResults, SIZES, writeResults } from "../../bench/support/results.ts";
import { atMost, atMostTimes, figure, type Point, row } from "../../bench/support/rows.ts";
import { amount } from "../../bench/support/words.ts";
import { tempDir } from "../support/spawn.ts";

function seriesOf(value: number): Series {
  const series = new Series();
  for (const factor of [0.9, 0.95, 1, 1.05, 1.1]) series.add(value * factor, value * factor);
  return series;
}

const points: Point[] = [
  { chart: "lookup", line: "ours", x: 1_000, y: 0.002, computed: false },
  { chart: "lookup", line: "ours", x: 50_000, y: 0.0022, computed: false },
  { chart: "lookup", line: "linear <scan>", x: 1_000, y: 40, computed: false },
  { chart: "lookup", line: "linear <scan>", x: 50_000, y: 2_000, computed: true },
];

function resultsOf(over: Partial<Results> = {}): Results {
  return {
    runtime: "node",
    date: "2026-11-29T12:00:00.000Z",
    complete: true,
    options: { n: 50_000, records: 1_000_000, artifacts: 10_115, rounds: 9, library: "dist" },
    machine: { cpu: "a | b", cores: 2, memoryBytes: 24e9, system: "linux 6.18", fileSystem: "ext4" },
    versions: { node: "24.21.0", tussock: "0.1.0", lmdb: "3.5.6", yaml: "2.9.1", sqlite: "3.50" },
    calibrations: { lookups: { spinMs: 15, spinCpuMs: 15, contention: 1.25, load: 1 } },
    elapsedMs: { lookups: 1_000 },
    rows: [
      row("miss", "N = 50,000", seriesOf(0.002), { verdicts: [atMost(0.002, 0.003, "≤ 3 µs")] }),
      row("hit", "N = 1,000", seriesOf(0.003), { floor: figure(seriesOf(0.002)), notes: ["a remark"] }),
      row("hit", "N = 50,000", seriesOf(0.004), {
        rivals: { "a | map": figure(seriesOf(0.0001)), scan: figure(seriesOf(400), "1,000 files") },
        floor: figure(seriesOf(0.002)),
        verdicts: [atMostTimes(seriesOf(0.004), seriesOf(0.002), 2.01, "the floor")],
      }),
    ],
    points,
    failures: {},
    ...over,
  };
}

test("every row of the page is answered by one file", () => {
  const answered = QUESTIONS.flatMap(({ answers }) => answers);
  expect(answered.toSorted()).toEqual(Object.keys(PAGE).sort());
});

test("amounts have three digits and the unit that suits", () => {
  expect(amount(0.00123, "ms")).toBe("1.23 µs");
  expect(amount(12.345, "ms")).toBe("12.3 ms");
  expect(amount(4_500, "ms")).toBe("4.50 s");
  expect(amount(48_300_000, "bytes")).toBe("48.3 MB");
  expect(amount(-1_500, "bytes")).toBe("-1.5 KB");
  expect(amount(1.5, "times")).toBe("1.50×");
  expect(amount(123_456, "times")).toBe("123,456×");
});

describe("a table", () => {
  test("has its rows in the order of the page, each with ours, rivals, floor, ratio and verdict", () => {
    const lines = fullTable(resultsOf()).split("\n");
    const [head = "", , hitFew = "", hitMany = "", miss = ""] = lines;
    expect(head).toBe("| question | at | goal | ours | rivals | floor | ours / floor | verdict |");
    expect(hitFew).toContain(`| ${PAGE.hit.question} | N = 1,000 | ${PAGE.hit.goal} | 3.00 µs (2.85–3.15) |`);
    expect(hitMany).toBe(
      "|  | N = 50,000 |  | 4.00 µs (3.80–4.20) | a \\| map 0.10 µs; scan ≈ 400 ms | 2.00 µs | 2.00× | ✓ ≤ 2.01 × the floor: 2.00× |",
    );
    expect(miss).toContain("✓ ≤ 3 µs: 2.00 µs");
  });

  test("says of a row that could not be measured why", () => {
    const lines = fullTable(resultsOf({ unmeasured: { postgres: "no server" } })).split("\n");
    const { question, goal } = PAGE.postgres;
    expect(lines.at(-1)).toContain(`${question} |  | ${goal} | not measured |`);
    expect(lines.at(-1)).toContain("no server");
  });

  test("in short has the largest size of each row, and what misses its goal", () => {
    const lines = shortTable(resultsOf()).split("\n").slice(2);
    expect(lines.map((line) => line.split(" | ")[1])).toEqual(["N = 50,000", "N = 50,000"]);
    const { rows } = resultsOf();
    const missing = row("hit", "N = 1", seriesOf(3), { verdicts: [atMost(3, 2, "≤ 2 ms")] });
    const more = shortTable(resultsOf({ rows: [missing, ...rows] }))
      .split("\n")
      .slice(2);
    expect(more.map((line) => line.split(" | ")[1])).toEqual(["N = 1", "N = 50,000", "N = 50,000"]);
  });

  test("is put between the markers, and nowhere else", () => {
    const text = `before\n${START}\nold\n${END}\nafter\n`;
    expect(between(text, "new\n")).toBe(`before\n${START}\n\nnew\n\n${END}\nafter\n`);
    expect(between(between(text, "new") ?? "", "newer")).toBe(`before\n${START}\n\nnewer\n\n${END}\nafter\n`);
    expect(between("no markers", "new")).toBeNull();
    expect(between(`${END} ${START}`, "new")).toBeNull();
  });
});

describe("reports", () => {
  test("go into the files that have markers, and make the charts", () => {
    const root = tempDir();
    const bench = join(root, "bench");
    mkdirSync(bench);
    writeFileSync(join(bench, "README.md"), `# Bench\n${START}\n${END}\n`);
    writeFileSync(join(root, "README.md"), "# No markers\n");
    const deno = resultsOf({ runtime: "deno", versions: { deno: "2.9.8" } });
    const largest = resultsOf({ options: { ...resultsOf().options, ...SIZES.largest } });
    const written = writeReports({ node: resultsOf(), largest, deno }, bench);
    expect(written).toEqual([join(bench, "README.md"), join(bench, "lookup.svg")]);
    const text = readFileSync(join(bench, "README.md"), "utf8");
    expect(text).toContain("### Node\n\nNode 24.21.0, 2 × a | b, 24.00 GB, linux 6.18, ext4;");
    expect(text).toContain("waited for the processor 25 % of its own time at worst");
    expect(text).toContain(`- ${PAGE.hit.question}, N = 1,000: a remark`);
    expect(text).toContain("### Node, at the largest sizes\n\nNode 24.21.0");
    expect(text).toContain("### Deno\n\nDeno 2.9.8");
    expect(readFileSync(join(root, "README.md"), "utf8")).toBe("# No markers\n");
  });

  test("leave everything as it is where nothing was measured", () => {
    const root = tempDir();
    writeFileSync(join(root, "README.md"), `${START}\nkept\n${END}\n`);
    expect(writeReports({ node: null, largest: null, deno: null }, root)).toEqual([]);
    expect(readFileSync(join(root, "README.md"), "utf8")).toContain("kept");
  });
});

describe("a chart", () => {
  test("has a line of each name, dashed where it was computed", () => {
    const svg = chartOf("lookup", points) ?? "";
    expect(svg).toMatch(/^<svg [^>]*viewBox="0 0 760 420".*<\/svg>\n$/s);
    expect(svg).toContain("linear &lt;scan&gt;");
    expect(svg.match(/<circle/g)).toHaveLength(4);
    expect(svg.match(/stroke-dasharray/g)).toHaveLength(1);
    expect(svg.match(/<circle[^>]*fill="none"/g)).toHaveLength(1);
    expect(svg).not.toMatch(/NaN|Infinity|undefined/);
    expect(chartOf("boot", points)).toBeNull();
  });

  test("is true to its scale: ten times as much is as far apart everywhere, upwards", () => {
    const svg = drawChart({
      title: "t",
      xTitle: "x",
      xText: String,
      yText: String,
      lines: [{ name: "a", points: [1, 10, 100].map((n) => ({ x: n, y: n })) }],
    });
    const circles = [...svg.matchAll(/<circle cx="([\d.]+)" cy="([\d.]+)"/g)].map(([, x, y]) => [Number(x), Number(y)]);
    const [[x1 = 0, y1 = 0] = [], [x2 = 0, y2 = 0] = [], [x3 = 0, y3 = 0] = []] = circles;
    expect(x2 - x1).toBeCloseTo(x3 - x2, 0);
    expect(y1 - y2).toBeCloseTo(y2 - y3, 0);
    expect(x2).toBeGreaterThan(x1);
    expect(y2).toBeLessThan(y1);
    expect([...svg.matchAll(/text-anchor="middle">(\d+)</g)].map(([, text]) => text)).toEqual(["1", "10", "100"]);
    const empty = { title: "t", xTitle: "x", xText: String, yText: String, lines: [] };
    expect(() => drawChart(empty)).toThrow(RangeError);
  });
});

describe("results", () => {
  test("are read as they were written", () => {
    const dir = join(tempDir(), "results");
    writeResults(resultsOf(), dir);
    expect(readResults("node", "usual", dir)).toEqual(resultsOf());
    expect(readResults("deno", "usual", dir)).toBeNull();
    expect(readResults("node", "largest", dir)).toBeNull();
  });

  test("of a quick or partial run, or one of other sizes, take no whole one's place", () => {
    const dir = tempDir();
    writeResults(resultsOf(), dir);
    writeResults(resultsOf({ complete: false, rows: [] }), dir);
    writeResults(resultsOf({ options: { ...resultsOf().options, n: 200_000 }, rows: [] }), dir);
    expect(readResults("node", "usual", dir)?.rows).toHaveLength(3);
    writeResults(resultsOf({ options: { ...resultsOf().options, ...SIZES.largest }, rows: [] }), dir);
    expect(readResults("node", "usual", dir)?.rows).toHaveLength(3);
    expect(readResults("node", "largest", dir)?.rows).toHaveLength(0);
  });
});

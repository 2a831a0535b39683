/** The tables in README files. */
import type { Machine } from "./machine.ts";
import { PAGE, type RowId } from "./page.ts";
import type { Results } from "./results.ts";
import type { Row } from "./rows.ts";
import { amount, amountOf, median, overFloor, rivals, verdict } from "./words.ts";

export const START = "<!-- bench:start -->";
export const END = "<!-- bench:end -->";

/** Puts `content` between the markers; null where the text has none. */
export function between(text: string, content: string): string | null {
  const start = text.indexOf(START);
  const end = text.indexOf(END, start);
  if (start < 0 || end < 0) return null;
  return `${text.slice(0, start + START.length)}\n\n${content.trim()}\n\n${text.slice(end)}`;
}

/** Every row with all that it was compared to. */
export function fullTable(results: Results): string {
  const lines = [
    "| question | at | goal | ours | rivals | floor | ours / floor | verdict |",
    "|---|---|---|---|---|---|---|---|",
  ];
  let before: RowId | null = null;
  for (const row of inOrder(results.rows)) {
    const { question, goal } = PAGE[row.id];
    const [first, second] = row.id === before ? ["", ""] : [question, goal];
    before = row.id;
    lines.push(
      cells([
        first,
        row.at,
        second,
        median(row.ours, row.unit),
        rivals(row),
        row.floor === null ? "" : amountOf(row.floor, row.unit),
        overFloor(row),
        row.verdicts.map(verdict).join("; "),
      ]),
    );
  }
  for (const id of unanswered(results)) {
    const { question, goal } = PAGE[id];
    const why = results.unmeasured?.[id];
    if (why !== undefined) lines.push(cells([question, "", goal, "not measured", "", "", "", why]));
  }
  return lines.join("\n");
}

/** The largest size of each row, and what else misses a goal, with the best known way beside it. */
export function shortTable(results: Results): string {
  const lines = ["| | at | ours | beside | goal |", "|---|---|---|---|---|"];
  for (const row of largestOrMissing(results.rows)) {
    lines.push(
      cells([
        PAGE[row.id].question,
        row.at,
        amount(row.ours.median, row.unit),
        rivals(row),
        row.verdicts.map(verdict).join("; "),
      ]),
    );
  }
  return lines.join("\n");
}

function cells(texts: readonly string[]): string {
  return `| ${texts.map((text) => text.replaceAll("|", "\\|")).join(" | ")} |`;
}

function inOrder(rows: readonly Row[]): Row[] {
  const places = Object.keys(PAGE);
  return rows.toSorted((a, b) => places.indexOf(a.id) - places.indexOf(b.id));
}

function largestOrMissing(rows: readonly Row[]): Row[] {
  const sorted = inOrder(rows);
  const misses = (row: Row): boolean => row.verdicts.some(({ reached }) => !reached);
  return sorted.filter((row, at) => row.id !== sorted[at + 1]?.id || misses(row));
}

function unanswered({ rows, runtime }: Results): RowId[] {
  if (runtime === "deno") return [];
  return (Object.keys(PAGE) as RowId[]).filter((id) => !rows.some((row) => row.id === id));
}

/** Where, when and with what. */
export function circumstances(results: Results): string {
  const { machine, versions, date, options, calibrations } = results;
  const contentions = Object.values(calibrations).map(({ contention }) => contention);
  const runtime = results.runtime === "deno" ? `Deno ${versions["deno"]}` : `Node ${versions["node"]}`;
  return [
    `${runtime}, ${describe(machine)};`,
    `tussock ${versions["tussock"]}${versions["commit"] === undefined ? "" : ` (${versions["commit"]})`},`,
    `lmdb ${versions["lmdb"]}, yaml ${versions["yaml"]}, SQLite ${versions["sqlite"]};`,
    `${date.slice(0, 10)}; N = ${amount(options.n, "count")}, ${amount(options.records, "count")} records, ${options.rounds} rounds;`,
    `a fixed piece of arithmetic took ${amount(spin(results), "ms")} and waited for the processor`,
    `${Math.round((Math.max(...contentions, 1) - 1) * 100)} % of its own time at worst.`,
  ].join(" ");
}

function spin({ calibrations }: Results): number {
  const all = Object.values(calibrations).map(({ spinMs }) => spinMs);
  return all.toSorted((a, b) => a - b)[all.length >> 1] ?? 0;
}

function describe({ cpu, cores, memoryBytes, system, fileSystem }: Machine): string {
  return `${cores} × ${cpu}, ${amount(memoryBytes, "bytes")}, ${system}, ${fileSystem}`;
}

/** What rows have to say beside their figures. */
export function notes(results: Results): string {
  return inOrder(results.rows)
    .filter((row) => row.notes.length > 0)
    .map((row) => `- ${PAGE[row.id].question}, ${row.at}: ${row.notes.join("; ")}`)
    .join("\n");
}

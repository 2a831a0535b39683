/** What a run of the bench leaves behind, as JSON. */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Calibration, Machine, Versions } from "./machine.ts";
import type { Runtime } from "./options.ts";
import type { RowId } from "./page.ts";
import type { Point, Row } from "./rows.ts";

export interface Results {
  runtime: Runtime;
  /** ISO 8601. */
  date: string;
  /** Whether every question was asked, at full size. */
  complete: boolean;
  options: { n: number; records: number; artifacts: number; rounds: number; library: string };
  machine: Machine;
  versions: Versions;
  /** Before each file of questions. */
  calibrations: Record<string, Calibration>;
  /** What each file of questions took. */
  elapsedMs: Record<string, number>;
  rows: Row[];
  points: Point[];
  /** Rows that cannot be measured on this machine, and why. */
  unmeasured?: Partial<Record<RowId, string>>;
  /** Files of questions that ended in an error. */
  failures: Record<string, string>;
}

export const RESULTS_DIR = join(import.meta.dirname, "../results");

/** The sizes of the whole runs that are kept: the usual ones, and the largest that the page asks about. */
export const SIZES = {
  usual: { n: 50_000, records: 1_000_000 },
  largest: { n: 1_000_000, records: 10_000_000 },
} as const;
export type Size = keyof typeof SIZES;

/** Null for a run that is not kept: quick, partial, or of other sizes. */
export function sizeOf({ complete, options: { n, records } }: Pick<Results, "complete" | "options">): Size | null {
  if (!complete) return null;
  const sizes = Object.entries(SIZES) as [Size, (typeof SIZES)[Size]][];
  return sizes.find(([, size]) => size.n === n && size.records === records)?.[0] ?? null;
}

/** The last whole runs of a runtime lie apart from all others. */
export function resultsFile(runtime: Runtime, size: Size | null, dir = RESULTS_DIR): string {
  return join(dir, size === "usual" ? `${runtime}.json` : `${runtime}-${size ?? "partial"}.json`);
}

export function writeResults(results: Results, dir = RESULTS_DIR): string {
  const file = resultsFile(results.runtime, sizeOf(results), dir);
  mkdirSync(dir, { recursive: true });
  writeWhole(file, `${JSON.stringify(results, null, 1)}\n`);
  return file;
}

/** The last whole run; null when there is none. */
export function readResults(runtime: Runtime, size: Size, dir = RESULTS_DIR): Results | null {
  const file = resultsFile(runtime, size, dir);
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Results) : null;
}

export function writeWhole(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(`${file}.tmp`, text);
  renameSync(`${file}.tmp`, file);
}

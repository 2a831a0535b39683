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

/** The last complete run of a runtime lies apart from quick and partial ones. */
export function resultsFile({ runtime, complete }: Pick<Results, "runtime" | "complete">, dir = RESULTS_DIR): string {
  return join(dir, complete ? `${runtime}.json` : `${runtime}-partial.json`);
}

export function writeResults(results: Results, dir = RESULTS_DIR): string {
  const file = resultsFile(results, dir);
  mkdirSync(dir, { recursive: true });
  writeWhole(file, `${JSON.stringify(results, null, 1)}\n`);
  return file;
}

/** The last complete run; null when there is none. */
export function readResults(runtime: Runtime, dir = RESULTS_DIR): Results | null {
  const file = resultsFile({ runtime, complete: true }, dir);
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Results) : null;
}

export function writeWhole(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(`${file}.tmp`, text);
  renameSync(`${file}.tmp`, file);
}

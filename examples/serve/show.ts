/** Measures both servers, and prints what they took. */
import { join } from "node:path";
import type { Goal } from "../support/goals.ts";
import { measureLinear } from "./measure-linear.ts";
import { measureServer } from "./measure-server.ts";
import { goals, printBursts, printRestart, printSteps } from "./print.ts";

export interface ShowOptions {
  /** A directory to work in; somebody else removes it. */
  base: string;
  /** With the stored definitions. */
  repoDir: string;
  definitions: number;
  many: number;
  histories: readonly number[];
  signal: AbortSignal;
}

export const HISTORIES = [40, 10_000, 100_000];
export const LONG_HISTORIES = [40, 10_000, 1_000_000];

/** The reports' way reads each definition twice for each new worker, and each lease at each update: here are as many as it can bear. */
const LINEAR = { definitions: 600, histories: [40, 160] };

export async function showServer(options: ShowOptions): Promise<Goal[]> {
  const { base, repoDir, definitions, many, histories, signal } = options;
  const ours = await measureServer({ repoDir, many, histories, signal });
  const longest = Math.max(...histories);
  const linear = await measureLinear({
    repoDir: join(base, "linear"),
    definitions: Math.min(definitions, LINEAR.definitions),
    histories: LINEAR.histories.filter((history) => history <= longest),
    signal,
  });
  printBursts(ours, linear, definitions, many);
  printSteps(ours, linear);
  printRestart(ours, linear);
  return goals(ours);
}

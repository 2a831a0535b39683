/** What a question is asked with. */
import type { RaceOptions } from "../harness.ts";
import type { Options } from "./options.ts";

export interface Context extends Omit<Options, "questions" | "only" | "check" | "clean" | "write" | "out"> {
  /** The same rounds for every race, with progress. */
  race(label: string, o?: Partial<RaceOptions>): RaceOptions;
  progress(label: string, done: number, total: number): void;
}

/** The sizes at which look-ups are asked for, the smallest first. */
export function lookupSizes({ n, quick }: Pick<Options, "n" | "quick">): number[] {
  const ladder = quick ? [500] : [1_000, 10_000, 50_000, 200_000];
  return [...ladder.filter((size) => size < n), n];
}

/** A linear scan is not measured over more: beyond, its figure is computed. */
export const MOST_SCANNED = 50_000;

/** Below, what a build or a sweep costs at once (a thread, a commit) hides what it costs a file. */
export const LEAST_JUDGED = 50_000;

export function count(n: number): string {
  return n.toLocaleString("en-US");
}

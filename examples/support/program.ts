/** What the examples have in common as programs. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";

/** Aborts when the user has had enough. */
export function untilInterrupted(): AbortSignal {
  const stop = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const) {
    process.once(name, () => stop.abort(Object.assign(new Error(`stopped by ${name}`), { name: "AbortError" })));
  }
  return stop.signal;
}

/**
 * Runs `work` in a directory of its own, and removes it. The process ends with the exit code that `work` resolves to, or
 * with 130 when it was interrupted.
 */
export async function runIn(
  prefix: string,
  work: (base: string, signal: AbortSignal) => Promise<number>,
): Promise<never> {
  const signal = untilInterrupted();
  const base = mkdtempSync(join(tmpdir(), prefix));
  let exitCode = 130;
  try {
    exitCode = await work(base, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
    console.log(`\n${(signal.reason as Error).message}; nothing is left behind`);
  } finally {
    rmSync(base, { recursive: true, force: true });
  }
  process.exit(exitCode);
}

/** Whether all of them are counts of something. */
export function areCounts(numbers: readonly number[]): boolean {
  return numbers.every((number) => Number.isInteger(number) && number >= 1);
}

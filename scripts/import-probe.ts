/** Imports one file in a process of its own, and says what that did beyond defining functions. */
import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { promisify } from "node:util";

/** On a machine on which loading `yaml` takes {@link REFERENCE_MS}, and as much more as that takes longer. */
const BUDGET_MS = 30;
const REFERENCE_MS = 13;
const run = promisify(execFile);
/** The program that starts Deno, for Node to run. */
export const deno = createRequire(import.meta.url).resolve("deno/bin.cjs");

interface Effects {
  /** What new descriptors of the process point to. */
  descriptors: string[];
  /** Timers, watchers, workers and the like that were not there before. */
  resources: string[];
  /** Shared objects mapped into the process. */
  native: string[];
  elapsedMs: number;
  /** What loading `yaml` took. */
  referenceMs: number;
}

/** The fastest of `attempts` counts: what is slower is the machine's doing. */
export async function probeImport(runtime: "node" | "deno", file: string, attempts = 5): Promise<string[]> {
  const problems: string[] = [];
  let fastest = Number.POSITIVE_INFINITY;
  let reference = Number.POSITIVE_INFINITY;
  let budget = BUDGET_MS;
  for (let attempt = 1; attempt <= attempts && (attempt === 1 || fastest >= budget); attempt++) {
    const effects = await importInChild(runtime, file);
    fastest = Math.min(fastest, effects.elapsedMs);
    reference = Math.min(reference, effects.referenceMs);
    budget = BUDGET_MS * Math.max(1, reference / REFERENCE_MS);
    if (attempt > 1) continue;
    for (const target of effects.descriptors) problems.push(`opens ${target}`);
    for (const resource of effects.resources) problems.push(`starts ${resource}`);
    for (const object of effects.native) problems.push(`loads native code: ${object}`);
  }
  if (fastest >= budget) problems.push(`takes ${fastest.toFixed(1)} ms; at most ${budget.toFixed(1)} are allowed`);
  return problems;
}

async function importInChild(runtime: "node" | "deno", file: string): Promise<Effects> {
  const { fileURLToPath } = await import("node:url");
  const child = fileURLToPath(new URL("./import-probe-child.ts", import.meta.url));
  const args = runtime === "deno" ? [deno, "run", "-A", "--quiet", child, file] : [child, file];
  const { stdout } = await run(process.execPath, args, { timeout: 60_000 });
  return JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as Effects;
}

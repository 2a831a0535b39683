/**
 * Where a cold build spends its time, by stage and thread: `npm run bench -- --profile`. Node only: every thread is profiled
 * by V8 while one build runs from the sources; stages are told apart by the file that a function stands in.
 */
import { execFile } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { promisify } from "node:util";
import { table } from "../examples/support/table.ts";
import { removeScratch, scratch } from "./support/cache.ts";
import { type Context, count } from "./support/context.ts";
import { type CpuProfile, hottest, STAGES, stagesOf } from "./support/cpu-profile.ts";
import { storedDefinitions } from "./support/definitions.ts";

const HOTTEST = 12;
const run = promisify(execFile);

try {
  await profile({ ...(JSON.parse(process.argv[2] ?? "{}") as Context), progress() {} });
} finally {
  removeScratch();
}

async function profile(context: Context): Promise<void> {
  const stored = await storedDefinitions(context, context.n);
  const dir = scratch("profile");
  const profiles = join(dir, "profiles");
  mkdirSync(profiles);
  const flags = ["--cpu-prof", `--cpu-prof-dir=${profiles}`, "--disable-warning=ExperimentalWarning"];
  const program = join(import.meta.dirname, "programs/build-once.ts");
  const start = performance.now();
  await run(process.execPath, [...flags, program, JSON.stringify(stored), join(dir, "index")]);
  const elapsed = performance.now() - start;
  // Their names end in the thread's number.
  const threads = readdirSync(profiles)
    .sort((a, b) => threadOf(a) - threadOf(b))
    .map((file) => JSON.parse(readFileSync(join(profiles, file), "utf8")) as CpuProfile);
  const stages = threads.map(stagesOf);
  const ms = (value: number): string => value.toFixed(0);
  const rows = STAGES.map((stage) => {
    const each = stages.map((spent) => spent[stage]);
    return [stage, ...each.map(ms), stage === "idle" ? "" : ms(each.reduce((sum, value) => sum + value, 0))];
  });
  const head = ["ms", ...threads.map((_, n) => (n === 0 ? "main thread" : `worker ${n}`)), "together"];
  console.log(
    `\na cold build of ${count(stored.n)} definitions, from the sources, ${ms(elapsed)} ms with the process\n`,
  );
  console.log(table(head, rows));
  for (const [n, thread] of threads.entries()) {
    console.log(`\n${head[n + 1]}`);
    console.log(
      table(
        ["function", "ms"],
        hottest(thread, HOTTEST).map(([name, spent]) => [name, ms(spent)]),
      ),
    );
  }
}

/** CPU.{date}.{time}.{pid}.{thread}.{number}.cpuprofile */
function threadOf(file: string): number {
  return Number(file.split(".")[4]);
}

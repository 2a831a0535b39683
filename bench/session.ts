/** One run of the bench: asks each question in a process of its own, prints what comes, and writes it down. */
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { type Progress, showProgress } from "../examples/support/progress.ts";
import { table } from "../examples/support/table.ts";
import type { Message } from "./one.ts";
import { cacheDir, clean, prepareCache, removeScratch } from "./support/cache.ts";
import { ensureBuilt } from "./support/library.ts";
import { calibrate, describeMachine, describeVersions } from "./support/machine.ts";
import { type Options, type Runtime, readOptions, USAGE, UsageError } from "./support/options.ts";
import { PAGE, type QuestionFile } from "./support/page.ts";
import { writeReports } from "./support/reports.ts";
import { RESULTS_DIR, type Results, readResults, type Size, sizeOf, writeResults } from "./support/results.ts";
import type { Answer, Row } from "./support/rows.ts";
import { amount, amountOf, median, overFloor, rivals, verdict } from "./support/words.ts";

/** Runs it as the arguments of the process say, and ends the process accordingly. */
export async function main(runtime: Runtime): Promise<void> {
  try {
    const options = readOptions(process.argv.slice(2), runtime);
    if (options.clean) {
      clean();
      console.log(`removed ${cacheDir()}`);
      return;
    }
    process.exitCode = await run(options);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    if (error.message !== "") console.error(`${error.message}\n`);
    console.log(USAGE);
    process.exitCode = error.message === "" ? 0 : 2;
  }
}

async function run(options: Options): Promise<number> {
  prepareCache();
  ensureBuilt(options.library);
  const { runtime, n, records, artifacts, rounds, library } = options;
  const results: Results & Required<Pick<Results, "unmeasured">> = {
    runtime,
    date: new Date().toISOString(),
    complete: !options.quick && options.only === null,
    options: { n, records, artifacts, rounds, library },
    machine: describeMachine(cacheDir()),
    versions: { ...describeVersions(), ...versionsOf(runtime) },
    calibrations: {},
    elapsedMs: {},
    rows: [],
    points: [],
    unmeasured: {},
    failures: {},
  };
  for (const question of options.questions) {
    results.calibrations[question.name] = calibrate();
    const start = performance.now();
    try {
      const { rows, points = [], unmeasured = {} } = await ask(question, options);
      const wanted = rows.filter(({ id }) => options.only?.includes(id) ?? true);
      results.rows.push(...wanted);
      results.points.push(...points);
      Object.assign(results.unmeasured, unmeasured);
      for (const [id, why] of Object.entries(unmeasured)) console.log(`- ${id} is not measured: ${why}`);
      print(wanted);
    } catch (error) {
      results.failures[question.name] = String((error as Error).message);
      console.error(`✗ ${question.name}: ${(error as Error).message}`);
    }
    results.elapsedMs[question.name] = Math.round(performance.now() - start);
  }
  if (options.profile) await spawnFile(runtime, "profile.ts", options, () => {});
  const resultsDir = options.out ?? RESULTS_DIR;
  console.log(`\nwritten: ${writeResults(results, resultsDir)}`);
  if (sizeOf(results) !== null || options.write) {
    const isOf = (of: Runtime, size: Size): boolean => of === runtime && (sizeOf(results) ?? "usual") === size;
    const last = (of: Runtime, size: Size): Results | null =>
      isOf(of, size) ? results : readResults(of, size, resultsDir);
    const runs = { node: last("node", "usual"), largest: last("node", "largest"), deno: last("deno", "usual") };
    for (const file of writeReports(runs, options.out)) console.log(`written: ${file}`);
  }
  return conclude(results, options.check);
}

/** What is run on the other runtime than this process. */
function versionsOf(runtime: Runtime): Record<string, string> {
  if (runtime === "node") return {};
  const require = createRequire(import.meta.url);
  return { deno: (require("deno/package.json") as { version: string }).version };
}

// ── one question ────────────────────────────────────────────────────────────────────────────────────────────────

async function ask(question: QuestionFile, options: Options): Promise<Answer> {
  let answer: Answer | null = null;
  const bars = new Bars(question.name);
  try {
    await spawnFile(
      options.runtime,
      "one.ts",
      options,
      (message) => {
        if ("answer" in message) answer = message.answer;
        else bars.show(message.progress);
      },
      question.name,
    );
  } finally {
    bars.stop();
  }
  if (answer === null) throw new Error("it has not answered");
  return answer;
}

/** One bar for each of a question's labels. */
class Bars {
  readonly #question: string;
  #label = "";
  #bar: Progress | null = null;

  constructor(question: string) {
    this.#question = question;
  }

  show({ label, done, total }: { label: string; done: number; total: number }): void {
    if (label !== this.#label) {
      this.stop();
      this.#label = label;
      this.#bar = showProgress(`${this.#question}: ${label}`);
    }
    this.#bar?.update(done, total);
  }

  stop(): void {
    this.#bar?.stop();
    this.#bar = null;
  }
}

/** Runs a program of the bench on the runtime, and hands over what it says; an interrupt ends it first. */
async function spawnFile(
  runtime: Runtime,
  file: string,
  options: Options,
  onMessage: (message: Message) => void,
  ...args: string[]
): Promise<void> {
  const [command, ...flags] = runtimeCommand(runtime);
  const child = spawn(
    command as string,
    [...flags, join(import.meta.dirname, file), ...args, JSON.stringify(options)],
    {
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, NO_COLOR: "1" },
    },
  );
  const stop = (): void => {
    child.kill("SIGKILL");
    process.exitCode = 130;
  };
  process.once("SIGINT", stop);
  try {
    const ended = new Promise<string>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code, signal) => resolve(code === 0 ? "" : `it ended with ${signal ?? code}`));
    });
    for await (const line of createInterface({ input: child.stdout })) {
      if (line.startsWith("{")) onMessage(JSON.parse(line) as Message);
      else console.log(line);
    }
    const failure = await ended;
    if (process.exitCode === 130) process.exit(130);
    if (failure !== "") throw new Error(failure);
  } finally {
    process.off("SIGINT", stop);
    if (child.pid !== undefined) removeScratch(child.pid);
  }
}

/** The program of a runtime, with its flags: this process's own, or that of its package. */
export function runtimeCommand(runtime: Runtime): string[] {
  const isDeno = "Deno" in globalThis;
  const node = isDeno ? "node" : process.execPath;
  if (runtime === "node") return [node, "--expose-gc", "--disable-warning=ExperimentalWarning"];
  const deno = isDeno ? [process.execPath] : [node, createRequire(import.meta.url).resolve("deno/bin.cjs")];
  return [...deno, "run", "-A", "--quiet", "--v8-flags=--expose-gc"];
}

// ── what is said at the end ─────────────────────────────────────────────────────────────────────────────────────

function print(rows: readonly Row[]): void {
  for (const row of rows) {
    console.log(`\n${PAGE[row.id].question}, ${row.at}`);
    const columns = [median(row.ours, row.unit), rivals(row), floorOf(row)];
    console.log(`  ${columns.filter((text) => text !== "").join("; ")}`);
    for (const each of row.verdicts) console.log(`  ${verdict(each)}${byCpu(each)}`);
    for (const note of row.notes) console.log(`  ${note}`);
  }
  if (rows.length > 0) console.log();
}

function floorOf(row: Row): string {
  return row.floor === null ? "" : `floor ${amountOf(row.floor, row.unit)} (${overFloor(row)})`;
}

function byCpu({ unit, byCpu: value }: Row["verdicts"][number]): string {
  if (value === null) return "";
  return ` (by CPU time ${amount(value, unit)})`;
}

/** Row, size and verdict of every goal that was not reached. */
export function missedGoals(rows: readonly Row[]): [row: string, at: string, verdict: string][] {
  return rows.flatMap((row) =>
    row.verdicts
      .filter(({ reached }) => !reached)
      .map((each) => [row.id, row.at, verdict(each)] as [string, string, string]),
  );
}

/** The exit code. */
function conclude(results: Results, check: boolean): number {
  const missed = missedGoals(results.rows);
  const verdicts = results.rows.flatMap((row) => row.verdicts);
  console.log(`\n${verdicts.length - missed.length} of ${verdicts.length} goals reached`);
  if (missed.length > 0) console.log(table(["row", "at", "missed"], missed));
  const contentions = Object.values(results.calibrations).map(({ contention }) => contention);
  const spins = Object.values(results.calibrations).map(({ spinMs }) => spinMs);
  console.log(
    `\ncalibration: the fixed spin took ${Math.min(...spins).toFixed(1)} to ${Math.max(...spins).toFixed(1)} ms; ` +
      `for each ms of work this machine took ${Math.min(...contentions).toFixed(2)} to ${Math.max(...contentions).toFixed(2)} ms` +
      " (1 when it is quiet: judge absolute goals by that)",
  );
  const failed = Object.keys(results.failures).length > 0;
  return failed || (check && missed.length > 0) ? 1 : 0;
}

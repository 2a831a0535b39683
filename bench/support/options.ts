/** What the bench is asked to do. */
import { parseArgs } from "node:util";
import { PAGE, QUESTIONS, type QuestionFile, type RowId } from "./page.ts";
import { SIZES } from "./results.ts";

export type Runtime = "node" | "deno";

export interface Options {
  runtime: Runtime;
  quick: boolean;
  /** Stored definitions. */
  n: number;
  /** State records. */
  records: number;
  /** Step leases among the artifacts of the linear way. */
  artifacts: number;
  rounds: number;
  questions: readonly QuestionFile[];
  /** Only these rows were asked for; null for all. */
  only: readonly RowId[] | null;
  check: boolean;
  clean: boolean;
  profile: boolean;
  /** Write the reports in spite of `quick` or `only`. */
  write: boolean;
  /** `dist`, `src`, or the directory of another build. */
  library: string;
  /** Where results and reports go instead of into `bench/`. */
  out: string | undefined;
}

export const USAGE = `usage: npm run bench -- [options]

  --quick            small sizes, under a minute on a quiet machine
  --n <number>       stored definitions (default 50,000; quick 1,000)
  --records <number> state records (default 1,000,000; quick 20,000)
  --rounds <number>  rounds of each figure, 5 or more (default 9; quick 5)
  --only <row>       one row or file of questions; repeatable, or with commas between
  --check            end with exit code 1 and name the rows that miss a goal
  --profile          where a cold build spends its time, by stage
  --library <what>   dist (default, built when it is older than src), src, or a directory that holds another build
  --write            write the tables and charts though not everything was measured
  --out <directory>  where results and reports go instead of into bench/
  --clean            remove the generated data, and do nothing else

rows: ${Object.keys(PAGE).join(", ")}
files: ${QUESTIONS.map(({ name }) => name).join(", ")}`;

export class UsageError extends Error {}

/** @throws UsageError */
export function readOptions(args: readonly string[], runtime: Runtime): Options {
  const { values } = parse(args);
  if (values.help) throw new UsageError("");
  const { quick = false } = values;
  const only = (values.only ?? []).flatMap((each) => each.split(","));
  const candidates = QUESTIONS.filter(({ deno }) => runtime === "node" || deno);
  const questions = only.length === 0 ? candidates : candidates.filter((file) => isAskedFor(file, only));
  for (const name of only) {
    if (!candidates.some((file) => isAskedFor(file, [name]))) throw new UsageError(`there is no row "${name}" here`);
  }
  return {
    runtime,
    quick,
    n: whole("n", values.n, quick ? 1_000 : SIZES.usual.n, 1_000),
    records: whole("records", values.records, quick ? 20_000 : SIZES.usual.records, 10_000),
    artifacts: quick ? 500 : 10_115,
    rounds: whole("rounds", values.rounds, quick ? 5 : 9, 5),
    questions,
    only: only.length === 0 ? null : questions.flatMap(({ answers }) => answers.filter((row) => isRow(row, only))),
    check: values.check ?? false,
    clean: values.clean ?? false,
    profile: values.profile ?? false,
    write: values.write ?? false,
    library: values.library ?? "dist",
    out: values.out,
  };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        quick: { type: "boolean" },
        n: { type: "string" },
        records: { type: "string" },
        rounds: { type: "string" },
        only: { type: "string", multiple: true },
        check: { type: "boolean" },
        clean: { type: "boolean" },
        profile: { type: "boolean" },
        library: { type: "string" },
        write: { type: "boolean" },
        out: { type: "string" },
        help: { type: "boolean" },
      },
    });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

function isAskedFor(file: QuestionFile, only: readonly string[]): boolean {
  return only.includes(file.name) || file.answers.some((row) => only.includes(row));
}

/** Whoever names a file means all its rows. */
function isRow(row: RowId, only: readonly string[]): boolean {
  return only.includes(row) || QUESTIONS.some(({ name, answers }) => only.includes(name) && answers.includes(row));
}

function whole(name: string, text: string | undefined, fallback: number, least: number): number {
  if (text === undefined) return fallback;
  const value = Number(text.replaceAll(/[,_]/g, ""));
  if (!Number.isSafeInteger(value) || value < least) {
    throw new UsageError(`--${name} ${text}: a whole number, ${least.toLocaleString("en-US")} or more`);
  }
  return value;
}

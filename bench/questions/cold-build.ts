/** How long does it take until everything is known, where nothing was? */
import { closeSync, fstatSync, openSync, readdirSync, readSync, rmSync } from "node:fs";
import { join } from "node:path";
import { readDocument } from "../../examples/support/linear-scan.ts";
import { race } from "../harness.ts";
import { scratch } from "../support/cache.ts";
import { type Context, count, LEAST_JUDGED } from "../support/context.ts";
import { NOBODY, openIndex, type Stored, storedDefinitions, storedNames, TYPE } from "../support/definitions.ts";
import { type Answer, atMostTimes, figure, row, timesFaster } from "../support/rows.ts";

/** Parsed in a round; more is computed. */
const MOST_PARSED = 10_000;

export async function answer(context: Context): Promise<Answer> {
  const stored = await storedDefinitions(context, context.n);
  const indexDir = join(scratch("cold-build"), "index");
  const parsed = Math.min(MOST_PARSED, context.n);
  const paths = storedNames(context.n, parsed).map((name) => `${stored.typeDir}/${name}.yaml`);
  const series = await race(
    {
      ours: {
        before: () => rmSync(indexDir, { recursive: true, force: true }),
        run: () => build(context, stored, indexDir),
      },
      floor: { run: () => readEverything(stored.typeDir) },
      parsing: {
        run: () => {
          for (const path of paths) readDocument(path);
        },
        rounds: 5,
      },
    },
    context.race("cold build"),
  );
  const parsing = series.parsing.scaled(context.n / parsed);
  const from = parsed === context.n ? undefined : `${count(parsed)} files`;
  return {
    rows: [
      row("cold-build", `N = ${count(context.n)}`, series.ours, {
        rivals: { "parsing each with yaml": figure(parsing, from) },
        floor: figure(series.floor),
        verdicts:
          context.n < LEAST_JUDGED
            ? []
            : [
                atMostTimes(series.ours, series.floor, 1.5, "the floor"),
                timesFaster(series.ours, parsing, 5, "parsing each with yaml"),
              ],
        notes: [
          `${((series.ours.median * 1000) / context.n).toFixed(1)} µs a file, floor ${((series.floor.median * 1000) / context.n).toFixed(1)}`,
        ],
      }),
    ],
  };
}

/** Until the first answer for which everything had to be read, all of it committed. */
export async function build(context: Context, stored: Stored, indexDir: string): Promise<void> {
  const index = await openIndex(context, stored, indexDir);
  if ((await index.findByName(TYPE, NOBODY)) !== null) throw new Error("found nobody");
  await index.close();
}

const buffer = Buffer.alloc(65536);

function readEverything(dir: string): void {
  for (const name of readdirSync(dir)) {
    const fd = openSync(`${dir}/${name}`, "r");
    fstatSync(fd);
    readSync(fd, buffer, 0, buffer.length, 0);
    closeSync(fd);
  }
}

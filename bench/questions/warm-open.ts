/** How soon does a process that comes back answer, and how long does it look through the files behind that? */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { statAll } from "../baselines/system-calls.ts";
import { Own, race, type Series, stopwatch } from "../harness.ts";
import { runtimeCommand } from "../session.ts";
import { type Context, count, LEAST_JUDGED } from "../support/context.ts";
import { NOBODY, openIndex, openReady, storedDefinitions, storedNames, TYPE } from "../support/definitions.ts";
import { type Answer, atMost, atMostTimes, figure, type Row, row } from "../support/rows.ts";

const run = promisify(execFile);

export async function answer(context: Context): Promise<Answer> {
  const stored = await storedDefinitions(context, context.n);
  await (await openReady(context, stored)).close();
  const [name = ""] = storedNames(context.n, 1);
  const firstHit = async (options: { roots?: string[] }): Promise<Own> => {
    const took = stopwatch();
    const index = await openIndex(context, stored);
    const found = await index.findByName(TYPE, name, options);
    const own = took();
    await index.close();
    if (found?.name !== name) throw new Error(`${name} was not found`);
    return own;
  };
  const series = await race(
    {
      firstHit: { run: () => firstHit({}) },
      // What a first lookup root holds under its own name needs no look at anything else.
      firstRootHit: { run: () => firstHit({ roots: ["auto"] }) },
      inNewProcess: {
        run: async () => {
          const [command = "", ...flags] = runtimeCommand(context.runtime);
          const program = join(import.meta.dirname, "../programs/first-hit.ts");
          const { library } = context;
          const args = [...flags, program, JSON.stringify({ library, stored, name })];
          const { stdout } = await run(command, args);
          const { elapsed, cpu } = JSON.parse(stdout) as { elapsed: number; cpu: number };
          return new Own(elapsed, cpu);
        },
      },
      sweep: {
        run: async () => {
          const index = await openIndex(context, stored);
          const took = stopwatch();
          await index.findByName(TYPE, NOBODY);
          const own = took();
          await index.close();
          return own;
        },
      },
      stats: { run: () => statAll(stored.typeDir) },
    },
    context.race("warm open"),
  );
  const at = `N = ${count(context.n)}`;
  const opened = (how: string, ours: Series): Row =>
    row("warm-open", `${at}, ${how}`, ours, {
      verdicts: [atMost(ours.median, 50, "≤ 50 ms", { byCpu: figure(ours).cpu })],
    });
  return {
    rows: [
      opened("a name in the second root", series.firstHit),
      opened("a name in the first root", series.firstRootHit),
      opened("the same first in a process, with the import", series.inNewProcess),
      row("warm-open", `${at}, the sweep behind it`, series.sweep, {
        floor: figure(series.stats),
        verdicts:
          context.n < LEAST_JUDGED
            ? []
            : [atMostTimes(series.sweep, series.stats, 1.5, "listing and a bare stat of every file")],
      }),
    ],
  };
}

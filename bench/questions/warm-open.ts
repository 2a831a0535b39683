/** How soon does a process that comes back answer, and how long does it look through the files behind that? */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { statAll } from "../baselines/system-calls.ts";
import { Own, race, stopwatch } from "../harness.ts";
import { runtimeCommand } from "../session.ts";
import { type Context, count, LEAST_JUDGED } from "../support/context.ts";
import { NOBODY, openIndex, openReady, storedDefinitions, storedNames, TYPE } from "../support/definitions.ts";
import { type Answer, atMost, atMostTimes, figure, row } from "../support/rows.ts";

const run = promisify(execFile);

export async function answer(context: Context): Promise<Answer> {
  const stored = await storedDefinitions(context, context.n);
  await (await openReady(context, stored)).close();
  const [name = ""] = storedNames(context.n, 1);
  const series = await race(
    {
      firstHit: {
        run: async () => {
          const took = stopwatch();
          const index = await openIndex(context, stored);
          const found = await index.findByName(TYPE, name);
          const own = took();
          await index.close();
          if (found?.name !== name) throw new Error(`${name} was not found`);
          return own;
        },
      },
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
  return {
    rows: [
      row("warm-open", `${at}, again in one process`, series.firstHit, {
        verdicts: [atMost(series.firstHit.median, 50, "≤ 50 ms", { byCpu: figure(series.firstHit).cpu })],
      }),
      row("warm-open", `${at}, first in a process, with the import`, series.inNewProcess, {
        verdicts: [atMost(series.inNewProcess.median, 50, "≤ 50 ms", { byCpu: figure(series.inNewProcess).cpu })],
      }),
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

/** What does it cost a program to import the library and not use it? */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { Own, race } from "../harness.ts";
import { runtimeCommand } from "../session.ts";
import type { Context } from "../support/context.ts";
import { entryOf } from "../support/library.ts";
import { type Answer, atMost, figure, row } from "../support/rows.ts";

const PROBE = join(import.meta.dirname, "../../scripts/import-probe-child.ts");
const run = promisify(execFile);

interface Effects {
  descriptors: string[];
  resources: string[];
  native: string[];
  elapsedMs: number;
}

export async function answer(context: Context): Promise<Answer> {
  const [command = "", ...flags] = runtimeCommand(context.runtime);
  const effects = new Set<string>();
  const probe = async (file: string): Promise<Own> => {
    const { stdout } = await run(command, [...flags, PROBE, file]);
    const { descriptors, resources, native, elapsedMs } = JSON.parse(stdout.trim()) as Effects;
    for (const effect of [...descriptors, ...resources, ...native]) effects.add(effect);
    return new Own(elapsedMs);
  };
  const series = await race(
    {
      library: { run: () => probe(entryOf(context.library, "index")) },
      nothing: { run: () => probe(join(import.meta.dirname, "../programs/nothing.ts")) },
      yaml: { run: () => probe(join(import.meta.dirname, "../../node_modules/yaml/dist/index.js")) },
    },
    context.race("imports"),
  );
  return {
    rows: [
      row("import", context.library, series.library, {
        rivals: { "yaml alone": figure(series.yaml) },
        floor: figure(series.nothing),
        verdicts: [
          atMost(series.library.median, 30, "≤ 30 ms"),
          atMost(effects.size, 0, "nothing is opened or started", { unit: "count" }),
        ],
        notes: [...effects],
      }),
    ],
  };
}

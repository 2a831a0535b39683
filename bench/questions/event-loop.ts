/** How long is the event loop held at a time, whatever the library does? */
import { rmSync } from "node:fs";
import { type Contestant, Own, race } from "../harness.ts";
import { scratch } from "../support/cache.ts";
import { type Context, count } from "../support/context.ts";
import {
  missingNames,
  NOBODY,
  openIndex,
  openReady,
  removeLeftovers,
  repositoryOver,
  storedDefinitions,
  storedNames,
  TYPE,
} from "../support/definitions.ts";
import { type LoopDelay, longestHold } from "../support/loop-delay.ts";
import { type Answer, atMost, figure, row } from "../support/rows.ts";
import { createAtOnce } from "./burst.ts";

const LIMIT_MS = 20;
/** Starting a worker holds Deno's event loop by itself. */
const LIMIT_DENO_MS = 30;
const LOOKUPS = 20_000;

export async function answer(context: Context): Promise<Answer> {
  const stored = await storedDefinitions(context, context.n);
  const index = await openReady(context, stored);
  const repository = await repositoryOver(context, index);
  const tidy = async (): Promise<void> => {
    removeLeftovers(stored.typeDir);
    await index.findByName(TYPE, NOBODY);
  };
  const many = context.quick ? 200 : 1_000;
  const indexDir = scratch("event-loop");
  const openOnce = async (dir: string): Promise<void> => {
    const opened = await openIndex(context, stored, dir);
    await opened.findByName(TYPE, NOBODY);
    await opened.close();
  };
  const names = [...storedNames(context.n, LOOKUPS / 2), ...missingNames(LOOKUPS / 2)];
  const works: Record<string, Pick<Contestant, "before" | "after"> & { work(): Promise<unknown> }> = {
    nothing: { work: () => new Promise((resolve) => setTimeout(resolve, 300)) },
    "look-ups": { work: () => lookUpInTurns(names, (name) => index.findByName(TYPE, name)) },
    "24 new names": { work: () => createAtOnce(repository, 24), after: tidy },
    [`${count(many)} new names`]: { work: () => createAtOnce(repository, many), after: tidy },
    "cold build": {
      before: () => rmSync(indexDir, { recursive: true, force: true }),
      work: () => openOnce(indexDir),
    },
    "warm open and sweep": { work: () => openOnce(indexDir) },
  };
  const holds = new Map<string, LoopDelay[]>();
  try {
    const series = await race(
      Object.fromEntries(
        Object.entries(works).map(([name, { work, ...around }]) => [
          name,
          {
            ...around,
            run: async (round: number) => {
              const hold = await longestHold(work);
              if (round >= 0) holds.set(name, [...(holds.get(name) ?? []), hold]);
              return new Own(hold.max, hold.cpu);
            },
          },
        ]),
      ),
      context.race("event loop"),
    );
    const { nothing, ...others } = series;
    if (nothing === undefined) throw new Error("unreachable");
    const limit = context.runtime === "deno" ? LIMIT_DENO_MS : LIMIT_MS;
    return {
      rows: Object.entries(others).map(([name, held]) => {
        const worst = (holds.get(name) ?? []).reduce((a, b) => (b.max > a.max ? b : a), { max: 0, cpu: 0 });
        return row("event-loop", `${name}, N = ${count(context.n)}`, held, {
          floor: figure(nothing),
          verdicts: [atMost(held.median, limit, `≤ ${limit} ms`, { byCpu: figure(held).cpu })],
          notes: [`worst round ${worst.max.toFixed(1)} ms, of which this thread ran for ${worst.cpu.toFixed(1)} ms`],
        });
      }),
    };
  } finally {
    removeLeftovers(stored.typeDir);
    await index.close();
  }
}

/** A server answers requests: a few look-ups each, and a turn of the loop between them. */
async function lookUpInTurns(names: readonly string[], lookUp: (name: string) => Promise<unknown>): Promise<void> {
  for (const [i, name] of names.entries()) {
    await lookUp(name);
    if (i % 10 === 9) await new Promise((resolve) => setImmediate(resolve));
  }
}

/** How long is the event loop held at a time, whatever the library does? */
import { rmSync } from "node:fs";
import { type Contestant, Own, race, type Series } from "../harness.ts";
import { scratch } from "../support/cache.ts";
import { type Context, count } from "../support/context.ts";
import {
  missingNames,
  NOBODY,
  openIndex,
  openReady,
  removeCreated,
  repositoryOver,
  storedDefinitions,
  storedNames,
  TYPE,
} from "../support/definitions.ts";
import { type LoopDelay, longestHold } from "../support/loop-delay.ts";
import { type Answer, atMost, figure, type Row, row } from "../support/rows.ts";
import { createAtOnce } from "./burst.ts";

const LIMIT_MS = 20;
/** Starting a worker holds Deno's event loop by itself. */
const LIMIT_DENO_MS = 30;
const LOOKUPS = 20_000;
/** As long as most of what is asked about. */
const NOTHING_MS = 300;
const NOTHING_QUICK_MS = 50;

export async function answer(context: Context): Promise<Answer> {
  const stored = await storedDefinitions(context, context.n);
  const index = await openReady(context, stored);
  const repository = await repositoryOver(context, index);
  const tidy = async (): Promise<void> => {
    removeCreated(stored.typeDir);
    await index.findByName(TYPE, NOBODY);
  };
  const many = context.quick ? 100 : 1_000;
  const indexDir = scratch("event-loop");
  const openOnce = async (dir: string): Promise<void> => {
    const opened = await openIndex(context, stored, dir);
    await opened.findByName(TYPE, NOBODY);
    await opened.close();
  };
  const names = [...storedNames(context.n, LOOKUPS / 2), ...missingNames(LOOKUPS / 2)];
  const nothingMs = context.quick ? NOTHING_QUICK_MS : NOTHING_MS;
  const nothing: Work = { work: () => new Promise((resolve) => setTimeout(resolve, nothingMs)) };
  try {
    const serving = await holdsDuring(context, {
      nothing,
      "look-ups": { work: () => lookUpInTurns(names, (name) => index.findByName(TYPE, name)) },
      "24 new names": { work: () => createAtOnce(repository, 24), after: tidy },
      [`${count(many)} new names`]: { work: () => createAtOnce(repository, many), after: tidy },
    });
    // The kernel marks a directory's files for whoever watches it first: with another watcher there, opening costs less.
    removeCreated(stored.typeDir);
    await index.close();
    const opening = await holdsDuring(context, {
      nothing,
      "cold build": {
        before: () => rmSync(indexDir, { recursive: true, force: true }),
        work: () => openOnce(indexDir),
      },
      "warm open and sweep": { work: () => openOnce(indexDir) },
    });
    return { rows: [...rowsOf(context, serving), ...rowsOf(context, opening)] };
  } finally {
    removeCreated(stored.typeDir);
    await index.close();
  }
}

type Work = Pick<Contestant, "before" | "after"> & { work(): Promise<unknown> };

/** By the name of the work: the longest hold of each round. */
interface Holds {
  series: Record<string, Series>;
  each: Map<string, LoopDelay[]>;
}

async function holdsDuring(context: Context, works: Record<string, Work>): Promise<Holds> {
  const each = new Map<string, LoopDelay[]>();
  const contestant = (name: string, { work, ...around }: Work): Contestant => ({
    ...around,
    run: async (round) => {
      const hold = await longestHold(work);
      if (round >= 0) each.set(name, [...(each.get(name) ?? []), hold]);
      return new Own(hold.max, hold.cpu);
    },
  });
  const contestants = Object.entries(works).map(([name, work]) => [name, contestant(name, work)] as const);
  return { series: await race(Object.fromEntries(contestants), context.race("event loop")), each };
}

function rowsOf(context: Context, { series: { nothing, ...others }, each }: Holds): Row[] {
  if (nothing === undefined) throw new Error("unreachable");
  const limit = context.runtime === "deno" ? LIMIT_DENO_MS : LIMIT_MS;
  return Object.entries(others).map(([name, held]) => {
    const worst = (each.get(name) ?? []).reduce((a, b) => (b.max > a.max ? b : a), { max: 0, cpu: 0 });
    return row("event-loop", `${name}, N = ${count(context.n)}`, held, {
      floor: figure(nothing),
      verdicts: [atMost(held.median, limit, `≤ ${limit} ms`, { byCpu: figure(held).cpu })],
      notes: [`worst round ${worst.max.toFixed(1)} ms, of which this thread ran for ${worst.cpu.toFixed(1)} ms`],
    });
  });
}

/** A server answers requests: a few look-ups each, and a turn of the loop between them. */
async function lookUpInTurns(names: readonly string[], lookUp: (name: string) => Promise<unknown>): Promise<void> {
  for (const [i, name] of names.entries()) {
    await lookUp(name);
    if (i % 10 === 9) await new Promise((resolve) => setImmediate(resolve));
  }
}

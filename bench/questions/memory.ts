/** How much memory does an open index hold, does it grow with use, and how large is its file? */
import { rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { mapOfNames } from "../baselines/names.ts";
import { type Contestant, Own, race } from "../harness.ts";
import { scratch } from "../support/cache.ts";
import { type Context, count } from "../support/context.ts";
import {
  missingNames,
  NOBODY,
  openIndex,
  openReady,
  removeLeftovers,
  type Stored,
  storedDefinitions,
  storedNames,
  TYPE,
} from "../support/definitions.ts";
import { load } from "../support/library.ts";
import { type Answer, atMost, figure, row } from "../support/rows.ts";
import { amount } from "../support/words.ts";

const MOST_HEAP = 50e6;
const LOOKUPS = 10_000;
const LOOKUPS_QUICK = 2_000;
const REBUILDS = 20;
const REBUILDS_QUICK = 5;
/** Rebuilds and churn are of this many at most: what they leave behind does not depend on it. */
const MOST_REBUILT = 20_000;

export async function answer(context: Context): Promise<Answer> {
  const stored = await storedDefinitions(context, context.n);
  const indexDir = join(scratch("memory"), "index");
  const lookups = context.quick ? LOOKUPS_QUICK : LOOKUPS;
  const names = [...storedNames(context.n, lookups / 2), ...missingNames(lookups / 2)];
  const opened = async (dir: string): Promise<() => Promise<void>> => {
    const index = await openIndex(context, stored, dir);
    await index.findByName(TYPE, NOBODY);
    for (const name of names) await index.findByName(TYPE, name);
    return () => index.close();
  };
  const resident: number[] = [];
  const series = await race(
    {
      open: heapGrowth(() => opened(stored.indexDir), resident),
      built: {
        before: () => rmSync(indexDir, { recursive: true, force: true }),
        ...heapGrowth(() => opened(indexDir)),
      },
      map: heapGrowth(async () => {
        const map = mapOfNames(stored);
        return async () => void (await map(NOBODY));
      }),
    },
    { ...context.race("memory"), rounds: 5 },
  );
  const notes = [
    `after a cold build ${amount(series.built.median, "bytes")}`,
    `resident size grew by ${amount(Math.max(...resident), "bytes")} at most (the mapped file's pages among it)`,
    ...(await fileSizes(context, stored)),
    await churn(context),
  ];
  return {
    rows: [
      row("memory", `N = ${count(context.n)}`, series.open, {
        unit: "bytes",
        rivals: { "everything in a map": figure(series.map) },
        verdicts: [atMost(series.open.median, MOST_HEAP, "≤ 50 MB of heap", { unit: "bytes" })],
        notes,
      }),
    ],
  };
}

/** What is held after `hold` and a collection, and let go of after what it returns. */
function heapGrowth(hold: () => Promise<() => Promise<void>>, resident: number[] = []): Contestant {
  return {
    async run() {
      collect();
      const before = process.memoryUsage();
      const letGo = await hold();
      collect();
      const after = process.memoryUsage();
      await letGo();
      resident.push(after.rss - before.rss);
      return new Own(after.heapUsed - before.heapUsed);
    },
  };
}

function collect(): void {
  if (globalThis.gc === undefined) throw new Error("run it with --expose-gc");
  globalThis.gc();
}

async function fileSizes(context: Context, stored: Stored): Promise<string[]> {
  const index = await openReady(context, stored);
  const { fileSize } = index.stats();
  await index.close();
  const few = await storedDefinitions(context, context.quick ? 1_000 : Math.min(context.n, MOST_REBUILT));
  const indexDir = join(scratch("rebuilds"), "index");
  const { openDefinitionIndex } = await load(context.library, "definitions");
  const rebuilds = context.quick ? REBUILDS_QUICK : REBUILDS;
  const sizes: number[] = [];
  // That each of them is built anew is what is wanted here.
  process.removeAllListeners("warning");
  for (let rebuild = 0; rebuild <= rebuilds; rebuild++) {
    context.progress("rebuilds", rebuild, rebuilds);
    // Another identity each time: what is stored cannot be used.
    const options = { roots: few.roots, indexDir, boundary: few.repoDir, maxFileBytes: 1_000_000 + (rebuild % 2) };
    const each = await openDefinitionIndex(options);
    await each.findByName(TYPE, NOBODY);
    sizes.push(each.stats().fileSize);
    await each.close();
  }
  const [first = 0, last = 0] = [sizes[0], sizes.at(-1)];
  return [
    `the file takes ${Math.round(fileSize / context.n)} bytes a definition`,
    `after ${rebuilds} rebuilds of ${count(few.n)} it has ${(last / first).toFixed(2)} times its size`,
  ];
}

/** An hour of a busy server in seconds: files come, change and go, and somebody asks after each. */
async function churn(context: Context): Promise<string> {
  const few = await storedDefinitions(context, context.quick ? 1_000 : Math.min(context.n, MOST_REBUILT));
  const index = await openReady(context, few, join(scratch("churn"), "index"));
  const [cycles, files] = context.quick ? [20, 20] : [100, 100];
  const heaps: number[] = [];
  const sizes: number[] = [];
  try {
    for (let cycle = 0; cycle < cycles; cycle++) {
      context.progress("churn", cycle, cycles - 1);
      for (let n = 0; n < files; n++) {
        const name = `bench-${process.pid}-churn-${n}`;
        const path = join(few.typeDir, `${name}.yaml`);
        writeFileSync(path, `id: ${crypto.randomUUID()}\nname: ${name}\ntype: ${TYPE}\n`);
        if ((await index.findByName(TYPE, name)) === null) throw new Error(`${name} was not found`);
        if (n % 4 === 0) utimesSync(path, cycle, cycle);
      }
      removeLeftovers(few.typeDir);
      await index.findByName(TYPE, NOBODY);
      await new Promise((resolve) => setTimeout(resolve, 25));
      collect();
      heaps.push(process.memoryUsage().heapUsed);
      sizes.push(index.stats().fileSize);
    }
  } finally {
    removeLeftovers(few.typeDir);
    await index.close();
  }
  const middle = heaps.length >> 1;
  const grown = (heaps.at(-1) ?? 0) - (heaps[middle] ?? 0);
  const larger = (sizes.at(-1) ?? 0) / (sizes[middle] ?? 1);
  return `over the second half of ${count(cycles * files)} changes with a look-up each the heap grew by ${amount(grown, "bytes")} and the file to ${larger.toFixed(2)} times its size`;
}

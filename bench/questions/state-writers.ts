/** How many leases can 36 workers take, mark and complete, each change on the disk before it is acknowledged? */
import { type BareLeases, batched, lmdbLeases, sqliteLeases } from "../baselines/leases.ts";
import { type Contestant, quantile, race, type Series } from "../harness.ts";
import { scratch } from "../support/cache.ts";
import { type Context, count } from "../support/context.ts";
import { bareHistory, leaseData, leaseHistory, openLeases } from "../support/leases.ts";
import { longestHold } from "../support/loop-delay.ts";
import { type Answer, atMost, figure, type Row, row, timesFaster } from "../support/rows.ts";

const WORKERS = 36;
/** A third of a second: shorter rounds measure the compiler. */
const CYCLES = 80;
const CYCLES_QUICK = 20;
/** One transaction each takes long enough. */
const CYCLES_ALONE = 1;
const STEPS = 3;

/** One worker's three steps; each resolves when it is on the disk. */
interface Steps {
  acquire(id: string, n: number): Promise<unknown>;
  mark(id: string): Promise<unknown>;
  complete(id: string): Promise<unknown>;
}

export async function answer(context: Context): Promise<Answer> {
  const empty = await ourSteps(context, scratch("writers"));
  const long = await ourSteps(context, await leaseHistory(context, context.records));
  const alone = sqliteLeases(scratch("writers-alone"));
  const gathered = sqliteLeases(scratch("writers-batched"));
  const gatheredLong = sqliteLeases(await bareHistory(context, context.records));
  const lmdb = lmdbLeases(scratch("writers-lmdb"));
  const waits: Record<string, number[]> = {};
  const waitsOf = (name: string): number[] => (waits[name] ??= []);
  const holds: number[] = [];
  const many = context.quick ? CYCLES_QUICK : CYCLES;
  const contestant = (name: string, steps: Steps, cycles = many): Contestant => ({
    per: WORKERS * cycles * STEPS,
    run: (round) =>
      work(steps, cycles, (wait) => {
        if (round >= 0) waitsOf(name).push(wait);
      }),
  });
  try {
    const series = await race(
      {
        empty: contestant("empty", empty.steps),
        long: contestant("long", long.steps),
        alone: contestant("alone", bareSteps(alone, oneEach(alone)), CYCLES_ALONE),
        batched: contestant("batched", bareSteps(gathered, batched(gathered))),
        batchedLong: contestant("batchedLong", bareSteps(gatheredLong, batched(gatheredLong))),
        lmdb: contestant("lmdb", bareSteps(lmdb, batched(lmdb))),
        hold: {
          run: async (round) => {
            const { max } = await longestHold(() => work(empty.steps, many, () => {}));
            if (round >= 0) holds.push(max);
          },
        },
      },
      context.race("writers", { warmups: 3 }),
    );
    const rowOf = (at: string, ours: Series, name: string, floor: Series): Row =>
      row("writers", at, ours, {
        rivals: {
          "one transaction per operation": figure(series.alone),
          "LMDB, batched": figure(series.lmdb),
        },
        floor: figure(floor),
        verdicts: [
          timesFaster(ours, series.alone, 5, "one transaction per operation"),
          timesFaster(ours, floor, 0.8, "bare batched SQLite"),
          atMost(quantile(waitsOf(name), 0.99), 10, "p99 of a step ≤ 10 ms"),
        ],
        notes: [
          `${count(Math.round(1000 / ours.median))} steps a second; a step took ${quantile(waitsOf(name), 0.5).toFixed(2)} ms in the median`,
        ],
      });
    const first = rowOf("nothing stored", series.empty, "empty", series.batched);
    first.notes.push(`the event loop was held for ${quantile(holds, 0.5).toFixed(1)} ms in the median round`);
    const second = rowOf(`${count(context.records)} records`, series.long, "long", series.batchedLong);
    second.notes.push("the floor has as many stored; one transaction per operation and LMDB have nothing");
    return { rows: [first, second] };
  } finally {
    for (const store of [empty, long, alone, gathered, gatheredLong, lmdb]) await store.close();
  }
}

let leases = 0;

/** All workers at once, each of them step by step. */
async function work(steps: Steps, cycles: number, onWait: (ms: number) => void): Promise<void> {
  const timed = async (step: Promise<unknown>): Promise<void> => {
    const start = performance.now();
    await step;
    onWait(performance.now() - start);
  };
  const worker = async (): Promise<void> => {
    for (let cycle = 0; cycle < cycles; cycle++) {
      const n = leases++;
      const id = `lease-${process.pid}-${n}`;
      await timed(steps.acquire(id, n));
      await timed(steps.mark(id));
      await timed(steps.complete(id));
    }
  };
  await Promise.all(Array.from({ length: WORKERS }, worker));
}

async function ourSteps(context: Context, dir: string): Promise<{ steps: Steps; close(): Promise<void> }> {
  const leases = await openLeases(context, dir);
  return {
    steps: {
      acquire: (id, n) => leases.insert({ id, data: leaseData(n) }),
      mark: (id) => leases.update(id, { hasWrites: true }, { state: "active" }),
      complete: (id) => leases.transition(id, "completed", { from: "active" }),
    },
    close: () => leases.close(),
  };
}

function bareSteps(leases: BareLeases, commit: (work: () => void) => Promise<void>): Steps {
  return {
    acquire: (id, n) => commit(() => leases.insert(id, leaseData(n))),
    mark: (id) => commit(() => leases.change(id, null, { hasWrites: true })),
    complete: (id) => commit(() => leases.change(id, "completed", {})),
  };
}

function oneEach(leases: BareLeases): (work: () => void) => Promise<void> {
  return async (work) => leases.transaction(work);
}

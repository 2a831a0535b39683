/** How long does it take to end what an earlier boot left behind, down to the disk? */
import { type BareLeases, sqliteLeases } from "../baselines/leases.ts";
import { median, Own, race, Series, stopwatch } from "../harness.ts";
import { scratch } from "../support/cache.ts";
import { type Context, count } from "../support/context.ts";
import { ACTIVE, insertActive, leaseData, openLeases } from "../support/leases.ts";
import { LoopWatch } from "../support/loop-delay.ts";
import { type Answer, atMost, atMostTimes, figure, row } from "../support/rows.ts";

const MANY = 10_000;
const MANY_QUICK = 2_000;
const REPEATS = 9;
/** Of nine each. So many, of both, that their code is compiled: a server that has run for an hour has written a million rows with it. */
const WARM = 100;
const WARM_QUICK = 10;
const PATCH = { error: "orchestrator restart" };

export async function answer(context: Context): Promise<Answer> {
  const leases = await openLeases(context, scratch("state-sweep"));
  const bare = sqliteLeases(scratch("state-sweep-floor"));
  let epoch = 0;
  const leave = (howMany: number) => async (): Promise<void> => {
    await insertActive(leases, howMany);
    epoch = await leases.beginEpoch();
  };
  const sweep = async (howMany: number): Promise<void> => {
    const { transitioned } = await leases.sweep({ from: "active", to: "expired", beforeEpoch: epoch, patch: PATCH });
    if (transitioned !== howMany) throw new Error(`${transitioned} of ${howMany} leases were ended`);
  };
  const floorFew = oneCommit(bare, ACTIVE);
  const sweepFew = () => repeatedly(leave(ACTIVE), () => sweep(ACTIVE));
  const howMany = context.quick ? MANY_QUICK : MANY;
  const holds = new Series();
  try {
    const few = await race(
      {
        ours: { run: sweepFew },
        floor: { run: () => repeatedly(floorFew.before, floorFew.run) },
      },
      { ...context.race(`sweeps of ${ACTIVE}`), warmups: context.quick ? WARM_QUICK : WARM },
    );
    const many = await race(
      {
        ours: {
          before: async () => {
            await leave(howMany)();
            // A server that boots has not just inserted them: their garbage is none of the sweep's.
            globalThis.gc?.({ type: "minor" });
          },
          run: async (round) => {
            const watch = new LoopWatch();
            await sweep(howMany);
            const { max, cpu } = watch.stop();
            if (round >= 0) holds.add(max, cpu);
          },
        },
        floor: oneCommit(bare, howMany),
      },
      context.race(`sweeps of ${count(howMany)}`),
    );
    return {
      rows: [
        row("sweep", `${ACTIVE} leases`, few.ours, {
          floor: figure(few.floor),
          verdicts: [atMostTimes(few.ours, few.floor, 1.5, "one commit of the same rows")],
        }),
        row("sweep", `${count(howMany)} leases`, many.ours, {
          floor: figure(many.floor),
          verdicts: [
            atMost(many.ours.median, 300, "≤ 300 ms", { byCpu: figure(many.ours).cpu }),
            atMost(holds.median, 10, "no block over 10 ms", { byCpu: figure(holds).cpu }),
          ],
          notes: [`the event loop was held for ${Math.max(...holds.values).toFixed(1)} ms at worst`],
        }),
      ],
    };
  } finally {
    await leases.close();
    await bare.close();
  }
}

/** A few milliseconds, some of them the disk's whims: the median of several. */
async function repeatedly(before: () => unknown, work: () => unknown): Promise<Own> {
  const series = new Series();
  for (let n = 0; n < REPEATS; n++) {
    await before();
    const took = stopwatch();
    await work();
    const { value, cpu } = took();
    series.add(value, cpu);
  }
  return new Own(series.median, median(series.cpu));
}

let inserted = 0;

function oneCommit(bare: BareLeases, howMany: number) {
  let ids: string[] = [];
  return {
    before() {
      ids = Array.from({ length: howMany }, () => `lease-${inserted++}`);
      bare.transaction(() => {
        for (const [n, id] of ids.entries()) bare.insert(id, leaseData(n));
      });
    },
    run() {
      bare.transaction(() => {
        for (const id of ids) bare.change(id, "expired", PATCH);
      });
    },
  };
}

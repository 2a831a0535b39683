/** How long does it take to end what an earlier boot left behind, down to the disk? */
import { sqliteLeases } from "../baselines/leases.ts";
import { type Contestant, race, Series, stopwatch } from "../harness.ts";
import { scratch } from "../support/cache.ts";
import { type Context, count } from "../support/context.ts";
import { ACTIVE, insertActive, leaseData, openLeases } from "../support/leases.ts";
import { LoopWatch } from "../support/loop-delay.ts";
import { type Answer, atMost, atMostTimes, figure, row } from "../support/rows.ts";

const MANY = 10_000;
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
  const holds = new Series();
  try {
    const series = await race(
      {
        few: { before: leave(ACTIVE), run: () => sweep(ACTIVE) },
        fewFloor: oneCommit(bare, ACTIVE),
        many: {
          before: leave(MANY),
          run: async (round) => {
            const took = stopwatch();
            const watch = new LoopWatch();
            await sweep(MANY);
            const own = took();
            const { max, cpu } = watch.stop();
            if (round >= 0) holds.add(max, cpu);
            return own;
          },
        },
        manyFloor: oneCommit(bare, MANY),
      },
      context.race("sweeps"),
    );
    return {
      rows: [
        row("sweep", `${ACTIVE} leases`, series.few, {
          floor: figure(series.fewFloor),
          verdicts: [atMostTimes(series.few, series.fewFloor, 1.5, "one commit of the same rows")],
        }),
        row("sweep", `${count(MANY)} leases`, series.many, {
          floor: figure(series.manyFloor),
          verdicts: [
            atMost(series.many.median, 300, "≤ 300 ms", { byCpu: figure(series.many).cpu }),
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

let inserted = 0;

function oneCommit(bare: ReturnType<typeof sqliteLeases>, howMany: number): Contestant {
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

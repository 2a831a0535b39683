/** How long does it take to list the active leases, and does it matter how many there ever were? */
import { REPORTED } from "../../examples/support/artifacts.ts";
import { leaseArtifacts, readEveryLease } from "../baselines/artifacts.ts";
import { lmdbLeases, sqliteLeases } from "../baselines/leases.ts";
import { type Contestant, micro, race } from "../harness.ts";
import { scratch } from "../support/cache.ts";
import { type Context, count } from "../support/context.ts";
import { ACTIVE, keepActive, leaseData, leaseHistory, leaseId, openLeases } from "../support/leases.ts";
import { type Answer, atMostTimes, figure, row, timesFaster } from "../support/rows.ts";

const FEW = 10_000;
/** A listing takes long enough to be timed with few others. */
const BATCH = 8;

export async function answer(context: Context): Promise<Answer> {
  const dataDir = await leaseArtifacts(context, context.artifacts);
  const [few, many] = [await historyOf(context, FEW), await historyOf(context, context.records)];
  const dir = scratch("state-listing");
  const [sqlite, lmdb] = [sqliteLeases(dir), lmdbLeases(dir)];
  for (const rival of [sqlite, lmdb]) fill(rival);
  try {
    const series = await race(
      {
        few: few.contestant,
        many: many.contestant,
        sqlite: micro(() => expectAll(sqlite.active().length), { batch: BATCH }),
        lmdb: micro(() => expectAll(lmdb.active().length), { batch: BATCH }),
        linear: { run: () => expectAll(readEveryLease(dataDir).length), rounds: 5 },
      },
      context.race("listings by state"),
    );
    const smallest = `among ${count(FEW)}`;
    return {
      rows: [
        row("by-state", `${count(context.records)} records`, series.many, {
          rivals: {
            [smallest]: figure(series.few),
            [`every one of ${count(context.artifacts)} artifacts`]: figure(series.linear),
            [`LMDB, ${smallest}`]: figure(series.lmdb),
          },
          floor: figure(series.sqlite),
          verdicts: [
            atMostTimes(series.many, series.few, 1.5, `that ${smallest}`),
            timesFaster(series.many, series.linear, readLimit(context), "reading every artifact"),
          ],
          notes: [`the floor is one statement over bare SQLite with ${count(FEW)} records`],
        }),
      ],
    };
  } finally {
    await few.close();
    await many.close();
    await sqlite.close();
    await lmdb.close();
  }
}

async function historyOf(
  context: Context,
  records: number,
): Promise<{ contestant: Contestant; close(): Promise<void> }> {
  const leases = await openLeases(context, await leaseHistory(context, records));
  await keepActive(leases, ACTIVE);
  const list = async (): Promise<void> => {
    let listed = 0;
    for await (const { data } of leases.byState("active")) if (data.workerName !== undefined) listed++;
    expectAll(listed);
  };
  return { contestant: micro(list, { batch: BATCH }), close: () => leases.close() };
}

/** 1,000 at the size of report 1955, and in proportion below: there is less to read, and as much to list. */
function readLimit({ artifacts }: Context): number {
  return Math.round(1_000 * Math.min(1, artifacts / REPORTED.leases));
}

function expectAll(listed: number): void {
  if (listed !== ACTIVE) throw new Error(`${listed} of ${ACTIVE} active leases`);
}

/** The same few among the same history. */
function fill(leases: ReturnType<typeof sqliteLeases>): void {
  leases.transaction(() => {
    for (let n = 0; n < FEW + ACTIVE; n++) leases.insert(leaseId(n), leaseData(n));
    for (let n = 0; n < FEW; n++) leases.change(leaseId(n), "completed", {});
  });
}

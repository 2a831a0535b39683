/** How long does a boot take until nothing stale is left, as the history grows? For the chart; it has no goal of its own. */
import { leaseArtifacts, readEveryLease } from "../baselines/artifacts.ts";
import { type Contestant, race, type Series } from "../harness.ts";
import type { Context } from "../support/context.ts";
import { ACTIVE, insertActive, keepActive, leaseHistory, openLeases } from "../support/leases.ts";
import type { Answer, Point } from "../support/rows.ts";

/** Histories of which the linear way is measured; beyond, it is computed: it does the same for each artifact. */
const READ = [1_000, 10_115];

export async function answer(context: Context): Promise<Answer> {
  const histories = context.quick ? [] : [10_000, 100_000].filter((size) => size < context.records);
  const ours: Record<string, Contestant> = {};
  for (const records of [1_000, ...histories, context.records]) ours[records] = await boot(context, records);
  const linear: Record<string, Contestant> = {};
  for (const leases of context.quick ? [100, context.artifacts] : READ) {
    const dataDir = await leaseArtifacts(context, leases);
    linear[leases] = { run: () => readEveryLease(dataDir), rounds: 5 };
  }
  const named = (prefix: string, of: Record<string, Contestant>): [string, Contestant][] =>
    Object.entries(of).map(([size, contestant]) => [`${prefix} ${size}`, contestant]);
  const series = await race(
    Object.fromEntries([...named("ours", ours), ...named("linear", linear)]),
    context.race("boots"),
  );
  const points: Point[] = Object.keys(ours).map((size) =>
    point("tussock", Number(size), (series[`ours ${size}`] as Series).median, false),
  );
  for (const size of Object.keys(linear)) {
    // The report's boot reads them once to find the stale ones, and once more for each update.
    const whole = (series[`linear ${size}`] as Series).median * (1 + ACTIVE);
    points.push(point("as report 1955 describes it", Number(size), whole, false));
  }
  const last = points.at(-1) as Point;
  points.push(point(last.line, context.records, (last.y * context.records) / last.x, true));
  return { rows: [], points };
}

/** Opens the index, begins an epoch and ends what was left over. */
async function boot(context: Context, records: number): Promise<Contestant> {
  const dir = await leaseHistory(context, records);
  return {
    before: async () => {
      await using leases = await openLeases(context, dir);
      await keepActive(leases, 0);
      await insertActive(leases, ACTIVE);
    },
    run: async () => {
      await using leases = await openLeases(context, dir);
      const epoch = await leases.beginEpoch();
      const { transitioned } = await leases.sweep({ from: "active", to: "expired", beforeEpoch: epoch });
      if (transitioned !== ACTIVE) throw new Error(`${transitioned} of ${ACTIVE} leases were ended`);
    },
  };
}

function point(line: string, x: number, y: number, computed: boolean): Point {
  return { chart: "boot", line, x, y, computed };
}

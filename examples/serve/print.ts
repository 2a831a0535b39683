/** The figures, beside those of the reports' way. */
import type { Goal } from "../support/goals.ts";
import { type Timings, table, time, times } from "../support/table.ts";
import type { Burst } from "./burst.ts";
import type { LinearFigures } from "./measure-linear.ts";
import { FEW, LEFT_ACTIVE, type ReadyRow, type ServerFigures } from "./measure-server.ts";
import type { ReadyTimes } from "./ready-steps.ts";

export function printBursts(ours: ServerFigures, linear: LinearFigures, definitions: number, many: number): void {
  const rows = (title: string, { enrolling, meanwhile }: Burst, theirs: Burst | null): string[][] =>
    (
      [
        [title, enrolling, theirs?.enrolling],
        ["  meanwhile, a dispatch", meanwhile.dispatch, theirs?.meanwhile.dispatch],
        ["  … a re-enrolment", meanwhile.reenroll, theirs?.meanwhile.reenroll],
        ["  … a disconnect", meanwhile.disconnect, theirs?.meanwhile.disconnect],
      ] as const
    ).map(([what, own, other]) => [
      what,
      ...[own.median, own.p99, own.worst, other?.median ?? Number.NaN, other?.worst ?? Number.NaN].map(time),
      times((other?.median ?? Number.NaN) / own.median),
    ]);
  const size = `${count(linear.definitions)} definitions`;
  console.log(`
A server over ${count(definitions)} stored definitions, ready in ${time(ours.readyMs)}; beside it, report 3984's way over ${size}

${table(
  ["", "median", "p99", "worst", "report 3984", "worst", "faster"],
  [
    ...rows(`${FEW} new workers at once`, ours.few, linear.few),
    ...rows(`${count(many)} new workers at once`, ours.many, null),
  ],
)}

The ${FEW} took ${time(ours.few.totalMs)} in all, the ${count(many)} ${time(ours.many.totalMs)}; the ${FEW} in the report's way ${time(linear.few.totalMs)}.`);
  const { beforeRedeem, afterRedeem, enrolled, settling, retrying, used } = ours.abandoned;
  console.log(`
${count(beforeRedeem + afterRedeem + enrolled)} workers that gave up, each at another moment: ${beforeRedeem} before their token was redeemed (no allowance used),
${afterRedeem} after (bound), ${enrolled} too late. Their requests had settled ${time(settling.median)} later, ${time(settling.worst)} at most. All tried again and
were enrolled, ${time(retrying.median)} each; together they used ${count(used)} of the allowance. In the report's way, one that was gone when its turn
came was served to the end, for ${time(linear.abandonedMs)}.`);
}

export function printSteps(ours: ServerFigures, linear: LinearFigures): void {
  console.log(`
Ready-steps as in report 3755, of so many workers at once / over so many leases that there ever were; others enrol meanwhile

${stepTable("median", ours.ready)}

${stepTable("report 3755's way", linear.ready)}`);
}

function stepTable(title: string, rows: readonly ReadyRow[]): string {
  const row = (what: string, figure: (row: ReadyRow) => number): string[] => [what, ...rows.map(figure).map(time)];
  const median = (what: string, of: (times: ReadyTimes) => Timings): string[] =>
    row(what, ({ times }) => of(times).median);
  return table(
    [title, ...rows.map(({ history, workers }) => `${workers} / ${count(history)}`)],
    [
      median("dispatch", ({ dispatch }) => dispatch),
      median("query", ({ query }) => query),
      median("write", ({ write }) => write),
      median("  queue wait", ({ queueWait }) => queueWait),
      median("  lease bookkeeping", ({ bookkeeping }) => bookkeeping),
      median("  persistence", ({ persistence }) => persistence),
      median("  response", ({ response }) => response),
      median("completion", ({ completion }) => completion),
      median("the whole step", ({ step }) => step),
      row("write, p99", ({ times: { write } }) => write.p99),
      row("completion, p99", ({ times: { completion } }) => completion.p99),
      row("enrolment beside", ({ beside }) => beside?.median ?? Number.NaN),
    ],
  );
}

export function printRestart({ restart }: ServerFigures, { boot, ready }: LinearFigures): void {
  const history = ready.at(-1)?.history ?? 0;
  console.log(`
Stopped in the middle of ${LEFT_ACTIVE} steps (${time(restart.closeMs)}), booted again over ${count(restart.leases)} leases: ready in ${time(restart.readyMs)}; the ${restart.swept.leases} leases
that were left active had ended ${time(restart.sweepMs)} later, in ${restart.swept.commits} commit. In report 1955's way, over ${count(history)} leases: ${time(boot.readMs + boot.sweepMs)} before it is ready.`);
}

/** What the server is meant to reach on a quiet machine. */
export function goals({ few, many, ready }: ServerFigures): Goal[] {
  const within = (text: string, limitMs: number, ...all: number[]): Goal => {
    const worst = Math.max(...all.filter((ms) => !Number.isNaN(ms)));
    return { text: `${text}: within ${limitMs} ms`, value: time(worst), reached: worst < limitMs };
  };
  const p99 = (all: readonly Timings[]): number[] => all.map((timings) => timings.p99);
  const writes = ready.filter(({ workers }) => workers > 1).map(({ times: { write } }) => write);
  const [shortest, longest] = [writes.at(0)?.median ?? Number.NaN, writes.at(-1)?.median ?? Number.NaN];
  return [
    within(
      "what enrolled workers do while others come, p99",
      10,
      ...[few, many].flatMap(({ meanwhile }) => p99(Object.values(meanwhile))),
    ),
    within(`${FEW} new workers at once, p99`, 50, few.enrolling.p99),
    within("ready-writes of all at once over whatever history, p99", 20, ...p99(writes)),
    {
      text: "ready-writes over the longest history, against the shortest: at most 1.5 ×",
      value: times(longest / shortest),
      reached: longest / shortest <= 1.5,
    },
    within(
      "the event loop, at its worst",
      20,
      ...[few.loopDelayMs, many.loopDelayMs, ...ready.map(({ times: { loopDelayMs } }) => loopDelayMs)],
    ),
  ];
}

function count(n: number): string {
  return n.toLocaleString("en-US");
}

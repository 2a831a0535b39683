/** How long does it take to find a definition, or that there is none, and does it matter how many there are? */
import { linearScan, readDocument } from "../../examples/support/linear-scan.ts";
import { lmdbOfNames, mapOfNames, sqliteOfNames } from "../baselines/names.ts";
import { emptyDrain, stat } from "../baselines/system-calls.ts";
import { type Contestant, micro, race, type Series } from "../harness.ts";
import { type Context, count, lookupSizes, MOST_SCANNED } from "../support/context.ts";
import {
  codec,
  cycle,
  missingNames,
  openReady,
  repositoryOver,
  storedDefinitions,
  storedNames,
  TYPE,
} from "../support/definitions.ts";
import { type Answer, atMost, atMostTimes, figure, type Point, type Row, row, timesFaster } from "../support/rows.ts";

/** So many that neither their files nor their entries are all in the processor's caches. */
const NAMES = 8_192;
const SCAN_ROUNDS = 5;

export async function answer(context: Context): Promise<Answer> {
  const subjects: Subject[] = [];
  for (const n of lookupSizes(context)) subjects.push(await subjectOf(context, n));
  const contestants: Record<string, Contestant> = {};
  for (const { n, contestants: own } of subjects)
    for (const [what, contestant] of Object.entries(own)) contestants[`${what} ${n}`] = contestant;
  const series = await race(contestants, context.race("look-ups"));
  const at = subjects.map(({ n }) => figuresAt(n, subjects[0]?.n ?? n, series));
  for (const { close } of subjects) await close();
  const rows = at.flatMap((figures) => rowsOf(context, figures));
  rows.push(flatness(at));
  return { rows, points: at.flatMap(pointsOf) };
}

interface Subject {
  n: number;
  contestants: Record<string, Contestant>;
  close(): Promise<void>;
}

async function subjectOf(context: Context, n: number): Promise<Subject> {
  const stored = await storedDefinitions(context, n);
  const index = await openReady(context, stored);
  const repository = await repositoryOver(context, index);
  const [map, sqlite, get, drain] = [mapOfNames(stored), sqliteOfNames(stored), lmdbOfNames(stored), emptyDrain()];
  const [known, unknown] = [storedNames(n, Math.min(n, NAMES)), missingNames(NAMES)];
  const over = (names: readonly string[], of: (name: string) => unknown, batch?: number): Contestant => {
    const next = cycle(names);
    return micro(() => of(next()), batch === undefined ? {} : { batch });
  };
  const pathOf = (name: string): string => `${stored.typeDir}/${name}.yaml`;
  // What is looked at first is cold: the kernel's caches have all files, or whoever comes first pays for the others.
  for (const name of known) readDocument(pathOf(name));
  const documentJson = JSON.stringify(readDocument(pathOf(known[0] ?? "")));
  // A kernel that gives memory back early forgets files and mapped pages between two rounds, and who came first would pay for it.
  const warm = (of: (name: string) => unknown): Contestant => ({
    ...over(known, of),
    before: async () => {
      for (const name of known) await of(name);
    },
  });
  const contestants: Record<string, Contestant> = {
    hit: warm((name) => index.findByName(TYPE, name)),
    "hit map": warm(map),
    "hit sqlite": warm(sqlite),
    "hit floor": warm((name) => {
      get(name);
      stat(pathOf(name));
    }),
    repository: warm((name) => repository.findByName(TYPE, name)),
    "repository file": over(known, (name) => codec.decode(readDocument(pathOf(name)), undefined as never), 4),
    "repository floor": warm((name) => {
      get(name);
      stat(pathOf(name));
      JSON.parse(documentJson);
    }),
    miss: over(unknown, (name) => index.findByName(TYPE, name)),
    "miss map": over(unknown, map),
    "miss sqlite": over(unknown, sqlite),
    "miss floor": over(unknown, (name) => {
      drain();
      get(name);
    }),
  };
  if (n <= MOST_SCANNED) {
    const linear = linearScan(stored.roots.map(({ dir }) => dir));
    const next = cycle(unknown);
    contestants["linear"] = { run: () => linear.findByName(TYPE, next()), rounds: SCAN_ROUNDS };
  }
  await check(index.findByName(TYPE, known[0] ?? ""), index.findByName(TYPE, unknown[0] ?? ""));
  return { n, contestants, close: () => index.close() };
}

/** What is fast and wrong does not count. */
async function check(hit: Promise<unknown>, miss: Promise<unknown>): Promise<void> {
  if ((await hit) === null || (await miss) !== null) throw new Error("the index gives wrong answers");
}

interface Figures {
  n: number;
  of(what: string): Series;
  linear: Series;
  linearFrom: string | undefined;
}

function figuresAt(n: number, smallest: number, series: Record<string, Series>): Figures {
  const of = (what: string): Series => series[`${what} ${n}`] as Series;
  const measured = series[`linear ${n}`];
  if (measured !== undefined) return { n, of, linear: measured, linearFrom: undefined };
  const largest = Math.max(...Object.keys(series).map((key) => Number(/^linear (\d+)$/.exec(key)?.[1] ?? smallest)));
  const linear = (series[`linear ${largest}`] as Series).scaled(n / largest);
  return { n, of, linear, linearFrom: `${count(largest)} files` };
}

function rowsOf(context: Context, { n, of, linear, linearFrom }: Figures): Row[] {
  const at = `N = ${count(n)}`;
  const rivals = (what: string) => ({
    map: figure(of(`${what} map`)),
    SQLite: figure(of(`${what} sqlite`)),
  });
  const [hit, repository, miss] = [of("hit"), of("repository"), of("miss")];
  const limit = context.runtime === "deno" ? 0.004 : 0.003;
  const missed = [
    atMost(miss.median, limit, `≤ ${limit * 1000} µs`, { byCpu: medianCpu(miss) }),
    ...(linearFrom === undefined ? [timesFaster(miss, linear, scanLimit(n), "the linear scan")] : []),
  ];
  return [
    row("hit", at, hit, {
      rivals: { "the file, read and parsed": figure(of("repository file")), ...rivals("hit") },
      floor: figure(of("hit floor")),
      verdicts: [atMostTimes(hit, of("hit floor"), 2, "the floor")],
    }),
    row("repository-hit", at, repository, {
      rivals: { "the file, read and parsed": figure(of("repository file")) },
      floor: figure(of("repository floor")),
      verdicts: [timesFaster(repository, of("repository file"), 5, "reading and parsing its file")],
    }),
    row("miss", at, miss, {
      rivals: { "linear scan": figure(linear, linearFrom), ...rivals("miss") },
      floor: figure(of("miss floor")),
      verdicts: missed,
    }),
  ];
}

/** 100,000 at 50,000 files, and in proportion below: the scan gets shorter, the look-up does not. */
function scanLimit(n: number): number {
  return Math.min(100_000, 2 * n);
}

function flatness(at: Figures[]): Row {
  const [first, last] = [at[0] as Figures, at.at(-1) as Figures];
  const name = `at ${count(first.n)}`;
  return row("flat", `N = ${count(first.n)} → ${count(last.n)}`, last.of("miss"), {
    rivals: { [name]: figure(first.of("miss")) },
    floor: figure(last.of("miss floor")),
    verdicts: [atMostTimes(last.of("miss"), first.of("miss"), 1.5, `that ${name}`)],
  });
}

function pointsOf({ n, of, linear, linearFrom }: Figures): Point[] {
  const point = (line: string, series: Series, computed = false): Point => ({
    chart: "lookup",
    line,
    x: n,
    y: series.median,
    computed,
  });
  return [
    point("tussock, a name that exists", of("hit")),
    point("tussock, a name that does not", of("miss")),
    point("linear scan, as report 3984 describes it", linear, linearFrom !== undefined),
  ];
}

function medianCpu(series: Series): number | null {
  return figure(series).cpu;
}

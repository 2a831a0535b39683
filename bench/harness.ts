/**
 * How everything here is measured: contestants take turns, round by round, so that what disturbs one disturbs the others;
 * a round is run for warmth first; a figure is a median of at least five rounds, or there is none.
 */
import process from "node:process";
import { Bench } from "tinybench";

export const LEAST_ROUNDS = 5;

/** One of those that are compared. */
export interface Contestant {
  /** Untimed, before each round. */
  before?(round: number): unknown;
  /** Timed; returns a figure of its own where the time that it takes is not what is asked for. */
  run(round: number): unknown;
  /** Untimed, after each round. */
  after?(round: number): unknown;
  /** How many operations a run makes; its figure is that of one. */
  per?: number;
  /** Fewer rounds than the others: for what takes long. */
  rounds?: number;
}

/** What a run returns in place of the time that it took. */
export class Own {
  readonly value: number;
  /** CPU time of one operation, in ms; NaN where nobody knows. */
  readonly cpu: number;

  constructor(value: number, cpu = Number.NaN) {
    this.value = value;
    this.cpu = cpu;
  }
}

/** The figures of one contestant, a round each. */
export class Series {
  /** By the clock on the wall, in ms (or whatever the contestant returns). */
  readonly values: number[] = [];
  /** CPU time of the whole process, in ms. */
  readonly cpu: number[] = [];

  add(value: number, cpu = Number.NaN): void {
    this.values.push(value);
    this.cpu.push(cpu);
  }

  scaled(factor: number): Series {
    const scaled = new Series();
    for (const [round, value] of this.values.entries()) scaled.add(value * factor, (this.cpu[round] ?? 0) * factor);
    return scaled;
  }

  /** @throws RangeError for fewer than {@link LEAST_ROUNDS} rounds */
  get median(): number {
    return median(this.values);
  }
}

export interface RaceOptions {
  rounds: number;
  /** Rounds before those that count. Default: 1. */
  warmups?: number;
  onRound?: (done: number, total: number) => void;
}

/** Runs all, in turns; nobody always goes first. */
export async function race<Name extends string>(
  contestants: Record<Name, Contestant>,
  { rounds, warmups = 1, onRound }: RaceOptions,
): Promise<Record<Name, Series>> {
  if (rounds < LEAST_ROUNDS) throw new RangeError(`${rounds} rounds: at least ${LEAST_ROUNDS} make a figure`);
  const entries = Object.entries<Contestant>(contestants);
  const series = Object.fromEntries(entries.map(([name]) => [name, new Series()])) as Record<string, Series>;
  const total = (rounds + warmups) * entries.length;
  let done = 0;
  for (let turn = 0; turn < rounds + warmups; turn++) {
    for (let place = 0; place < entries.length; place++) {
      const [name, contestant] = entries[(place + turn) % entries.length] as [string, Contestant];
      const round = turn - warmups;
      if (round < (contestant.rounds ?? rounds)) {
        const { value, cpu } = await runOnce(contestant, round);
        if (round >= 0) series[name]?.add(value, cpu);
      }
      onRound?.(++done, total);
    }
  }
  return series as Record<Name, Series>;
}

async function runOnce(contestant: Contestant, round: number): Promise<Own> {
  const per = contestant.per ?? 1;
  await contestant.before?.(round);
  const took = stopwatch();
  // Awaited only where there is something to wait for: a turn of the event loop is none of the contestant's.
  const returned = contestant.run(round);
  const result = returned instanceof Promise ? await returned : returned;
  const { value, cpu } = took();
  await contestant.after?.(round);
  return result instanceof Own ? result : new Own(value / per, cpu / per);
}

/** Starts; stopped by calling what it returns. */
export function stopwatch(): () => Own {
  const cpuBefore = process.cpuUsage();
  const start = performance.now();
  return () => {
    const elapsed = performance.now() - start;
    const { user, system } = process.cpuUsage(cpuBefore);
    return new Own(elapsed, (user + system) / 1000);
  };
}

/** Operations that are timed together, since one of them takes hardly longer than asking the clock. */
const BATCH = 64;

/** For how long operations of microseconds are run: in a round, and for warmth, since code that is called often is compiled anew several times. */
export const pace = { roundMs: 40, warmMs: 250 };

/**
 * A contestant of microseconds, run many times by tinybench; a round's figure is the median batch, which neither a pause of
 * the collector nor another process on the machine moves.
 */
export function micro(operation: () => unknown, o: { batch?: number } = {}): Contestant {
  const { batch = BATCH } = o;
  const first = operation();
  const isAsync = first instanceof Promise;
  const run = isAsync
    ? async (): Promise<void> => {
        for (let i = 0; i < batch; i++) await operation();
      }
    : (): void => {
        for (let i = 0; i < batch; i++) operation();
      };
  return {
    async run(round) {
      const bench = new Bench({
        time: round < 0 ? pace.warmMs : pace.roundMs,
        iterations: 8,
        warmup: false,
        throws: true,
      });
      const task = bench.add("it", run, { async: isAsync }).tasks[0];
      const cpuBefore = threadCpu();
      await bench.run();
      const cpu = threadCpu() - cpuBefore;
      const result = task?.result;
      if (result?.state !== "completed") throw new Error("tinybench has not completed its task");
      return new Own(result.latency.p50 / batch, cpu / (batch * (task?.runs ?? 1)));
    },
  };
}

/** CPU time of this thread in ms; of the process where the runtime does not tell. */
export function threadCpu(): number {
  const { user, system } = (process.threadCpuUsage ?? process.cpuUsage)();
  return (user + system) / 1000;
}

// ── statistics ──────────────────────────────────────────────────────────────────────────────────────────────────

/** @throws RangeError for fewer than {@link LEAST_ROUNDS} values */
export function median(values: readonly number[]): number {
  if (values.length < LEAST_ROUNDS) {
    throw new RangeError(`${values.length} rounds: at least ${LEAST_ROUNDS} make a figure`);
  }
  return quantile(values, 0.5);
}

/** Between two values, in proportion. NaN of nothing. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const place = (sorted.length - 1) * q;
  const [below = Number.NaN, above = below] = [sorted[Math.floor(place)], sorted[Math.ceil(place)]];
  return below + (above - below) * (place - Math.floor(place));
}

/**
 * How many times the one takes what the other takes: the median of the rounds' own ratios, since the two of a round ran
 * next to each other. Of series that have no rounds in common, the ratio of medians.
 */
export function ratio(of: readonly number[], to: readonly number[]): number {
  const common = Math.min(of.length, to.length);
  if (common < LEAST_ROUNDS) return median(of) / median(to);
  return median(of.slice(0, common).map((value, round) => value / (to[round] ?? Number.NaN)));
}

/** When many new names come at once, how long does each wait, and who else has to? */
import type { DefinitionIndex, DefinitionRepository } from "../../src/definitions/index.ts";
import { Own, quantile, race, type Series } from "../harness.ts";
import { scratch } from "../support/cache.ts";
import { type Context, count, lookupSizes } from "../support/context.ts";
import {
  newName,
  openReady,
  removeCreated,
  repositoryOver,
  type Stored,
  storedDefinitions,
  storedNames,
  TYPE,
  type WorkerDefinition,
} from "../support/definitions.ts";
import { load } from "../support/library.ts";
import { type Answer, atMost, atMostTimes, figure, type Row, row } from "../support/rows.ts";

const FEW = 24;
const MANY = 1_000;
const MANY_QUICK = 100;
/** A wait of the same burst may differ so much from round to round; one that grew with N would differ more. */
const FLAT = 1.5;

export async function answer(context: Context): Promise<Answer> {
  const small = await Subject.open(context, lookupSizes(context)[0] ?? context.n);
  const large = await Subject.open(context, context.n);
  const worker = await existingWorker(context, large);
  const many = context.quick ? MANY_QUICK : MANY;
  const duringWaits: number[] = [];
  const burst = (subject: Subject, size: number, figureOf: (waits: number[], total: number) => number) => ({
    run: async () => {
      const { waits, total } = await createAtOnce(subject.repository, size);
      return new Own(figureOf(waits, total));
    },
    after: () => subject.tidy(),
  });
  const p99 = (waits: number[]): number => quantile(waits, 0.99);
  const total = (_: number[], total: number): number => total;
  try {
    const series = await race(
      {
        fewSmall: burst(small, FEW, p99),
        fewLarge: burst(large, FEW, p99),
        manySmall: burst(small, many, total),
        manyLarge: burst(large, many, total),
        during: {
          run: async () => {
            const [waits] = await worker.during(() => createAtOnce(large.repository, many));
            duringWaits.push(...waits);
            return new Own(p99(waits));
          },
          after: () => large.tidy(),
        },
      },
      context.race("bursts"),
    );
    const at = `N = ${count(context.n)}`;
    return {
      rows: [
        burstRow(context, `${FEW} at once, ${at}`, series.fewLarge, series.fewSmall, 50, "p99 ≤ 50 ms"),
        burstRow(context, `${count(many)} at once, ${at}`, series.manyLarge, series.manySmall, 1000, "all ≤ 1 s"),
        row("during-burst", `${count(many)} at once, ${at}`, series.during, {
          verdicts: [atMost(series.during.median, 10, "p99 ≤ 10 ms")],
          notes: [
            `${count(duringWaits.length)} look-ups with a transition each, median ${quantile(duringWaits, 0.5).toFixed(2)} ms, p99 of all ${p99(duringWaits).toFixed(2)} ms`,
          ],
        }),
      ],
    };
  } finally {
    await worker.close();
    for (const subject of [small, large]) await subject.close();
  }
}

function burstRow(context: Context, at: string, large: Series, small: Series, limitMs: number, limit: string): Row {
  const smallest = `at ${count(lookupSizes(context)[0] ?? 0)}`;
  const flat = atMostTimes(large, small, FLAT, `that ${smallest}`);
  // The page asks for the second from Node alone.
  const absolute = limitMs === 1000 && context.runtime === "deno" ? [] : [atMost(large.median, limitMs, limit)];
  return row("burst", at, large, { rivals: { [smallest]: figure(small) }, verdicts: [...absolute, flat] });
}

class Subject {
  readonly stored: Stored;
  readonly index: DefinitionIndex;
  readonly repository: DefinitionRepository<WorkerDefinition>;

  private constructor(stored: Stored, index: DefinitionIndex, repository: DefinitionRepository<WorkerDefinition>) {
    this.stored = stored;
    this.index = index;
    this.repository = repository;
  }

  static async open(context: Context, n: number): Promise<Subject> {
    const stored = await storedDefinitions(context, n);
    const index = await openReady(context, stored);
    return new Subject(stored, index, await repositoryOver(context, index));
  }

  /** As it was before, and known to be. */
  async tidy(): Promise<void> {
    removeCreated(this.stored.typeDir);
    await this.index.findByName(TYPE, newName());
  }

  async close(): Promise<void> {
    removeCreated(this.stored.typeDir);
    await this.index.close();
  }
}

/** New names, all asked for in one turn: how long each waited, and all together. */
export async function createAtOnce(
  repository: DefinitionRepository<WorkerDefinition>,
  size: number,
): Promise<{ waits: number[]; total: number }> {
  const start = performance.now();
  const waits = await Promise.all(
    Array.from({ length: size }, async () => {
      const name = newName();
      const { created } = await repository.resolveOrCreate(TYPE, name, () => ({ id: repository.nextId(), name }));
      if (!created) throw new Error(`${name} was there already`);
      return performance.now() - start;
    }),
  );
  return { waits, total: performance.now() - start };
}

/** Looks its own definition up and changes its state, durably and under its key, for as long as others are created. */
async function existingWorker(context: Context, { repository, stored }: Subject) {
  const { openStateIndex, workerLifecycle } = await load(context.library, "state");
  const { createTransitionQueue } = await load(context.library, "transitions");
  const workers = await openStateIndex<{ at: number }, "idle" | "busy">({
    name: "worker",
    lifecycle: workerLifecycle as never,
    dir: scratch("workers"),
  });
  const queue = createTransitionQueue();
  const [name = ""] = storedNames(stored.n, 1);
  await workers.put({ id: name, state: "idle", data: { at: 0 } });
  let busy = false;
  const step = async (): Promise<number> => {
    const start = performance.now();
    if ((await repository.findByName(TYPE, name)) === null) throw new Error(`${name} was not found`);
    busy = !busy;
    await queue.run(name, () => workers.transition(name, busy ? "busy" : "idle", { patch: { at: start } }));
    return performance.now() - start;
  };
  return {
    async during<R>(work: () => Promise<R>): Promise<[number[], R]> {
      const waits: number[] = [];
      let done = false;
      const working = (async () => {
        do {
          waits.push(await step());
          await new Promise((resolve) => setTimeout(resolve, 1));
        } while (!done);
      })();
      const result = await work();
      done = true;
      await working;
      return [waits, result];
    },
    async close() {
      await queue.close();
      await workers.close();
    },
  };
}

/** What does a line for each key cost, and does one key slow another? */
import pLimit from "p-limit";
import { micro, race } from "../harness.ts";
import type { Context } from "../support/context.ts";
import { count } from "../support/context.ts";
import { load } from "../support/library.ts";
import { type Answer, atMost, atMostTimes, figure, row } from "../support/rows.ts";

const KEYS = 10_000;
const LIMIT_MS = 0.002;

export async function answer(context: Context): Promise<Answer> {
  const { createTransitionQueue } = await load(context.library, "transitions");
  const queue = createTransitionQueue();
  const busy = createTransitionQueue();
  const transition = (): number => 1;
  const keys = Array.from({ length: KEYS }, (_, n) => `worker-${n}`);
  let release = (): void => {};
  const held = busy.run("held", () => new Promise<void>((resolve) => (release = resolve)));
  const [chain, limit] = [promiseChain(), pLimit(1)];
  const series = await race(
    {
      alone: micro(() => queue.run("worker", transition)),
      beside: micro(() => busy.run("worker", transition)),
      chain: micro(() => chain("worker", transition)),
      limit: micro(() => limit(transition)),
      call: micro(async () => transition()),
      many: { per: KEYS, run: () => Promise.all(keys.map((key) => queue.run(key, transition))) },
      inTurn: {
        per: KEYS,
        run: async () => {
          for (const key of keys) await queue.run(key, transition);
        },
      },
    },
    context.race("transitions"),
  );
  release();
  await held;
  if (queue.size !== 0 || queue.depth("worker") !== 0) throw new Error("a line that is empty has left something");
  await Promise.all([queue.close(), busy.close()]);
  const { alone, beside, many, inTurn } = series;
  return {
    rows: [
      row("queue", "uncontended", alone, {
        rivals: { "a promise chain a key": figure(series.chain), "p-limit, one line": figure(series.limit) },
        floor: figure(series.call),
        verdicts: [
          atMost(alone.median, LIMIT_MS, "≤ 2 µs", { byCpu: figure(alone).cpu }),
          atMostTimes(beside, alone, 1.5, "that, beside a key that is held"),
        ],
      }),
      row("queue", `${count(KEYS)} keys at once`, many, {
        rivals: { "one after the other": figure(inTurn) },
        floor: figure(series.call),
        verdicts: [atMostTimes(many, inTurn, 2, "one after the other")],
      }),
    ],
  };
}

/** The line that is written by hand: nobody can leave it, and nothing tells how long it is. */
function promiseChain() {
  const tails = new Map<string, Promise<unknown>>();
  return <R>(key: string, fn: () => R): Promise<R> => {
    const before = tails.get(key) ?? Promise.resolve();
    const run = before.then(fn);
    tails.set(key, run);
    const forget = (): void => void (tails.get(key) === run && tails.delete(key));
    run.then(forget, forget);
    return run;
  };
}

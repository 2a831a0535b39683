/**
 * Answers one question in a process of its own, so that no other's heap, threads or compiled code are in its way:
 * `node --expose-gc bench/one.ts <question> <options as JSON>`. Started by `session.ts`; prints one message a line.
 */
import process from "node:process";
import { pace } from "./harness.ts";
import { removeScratch } from "./support/cache.ts";
import type { Context } from "./support/context.ts";
import type { Options } from "./support/options.ts";
import type { Answer } from "./support/rows.ts";

export type Message = { progress: { label: string; done: number; total: number } } | { answer: Answer };

function say(message: Message): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

const [question, json] = process.argv.slice(2);
const options = JSON.parse(json ?? "{}") as Options;
if (options.quick) Object.assign(pace, { roundMs: 15, warmMs: 80 });
let said = 0;
const progress = (label: string, done: number, total: number): void => {
  const now = performance.now();
  if (done < total && now - said < 100) return;
  said = now;
  say({ progress: { label, done, total } });
};
const context: Context = {
  ...options,
  progress,
  race: (label, o = {}) => ({
    rounds: options.rounds,
    ...o,
    onRound: (done, total) => progress(label, done, total),
  }),
};
const { answer } = (await import(`./questions/${question}.ts`)) as { answer: (context: Context) => Promise<Answer> };
try {
  say({ answer: await answer(context) });
} finally {
  removeScratch();
}

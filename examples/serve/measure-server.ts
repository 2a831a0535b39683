/** Everything that the server does, one thing after another, with its times. What it promises is checked as it goes. */
import { strict as assert } from "node:assert";
import type { Swept } from "../support/boot.ts";
import { withProgress } from "../support/progress.ts";
import type { Timings } from "../support/table.ts";
import { type Abandoned, abandon } from "./abandon.ts";
import { type Burst, burst, type Enrolled, enrol } from "./burst.ts";
import { importHistory } from "./history.ts";
import { enrolBeside, type ReadyTimes, readySteps } from "./ready-steps.ts";
import { type Server, startServer } from "./server.ts";

export const TOKEN = "fleet";
/** Workers of report 3755, and leases that report 1955 found active. */
export const FLEET = 36;
export const LEFT_ACTIVE = 19;
export const FEW = 24;

export interface MeasureOptions {
  /** With stored definitions in it. */
  repoDir: string;
  /** So many workers enrol at once, after 24 have. */
  many: number;
  /** Numbers of leases that there have been. */
  histories: readonly number[];
  signal: AbortSignal;
}

export interface ReadyRow {
  history: number;
  workers: number;
  times: ReadyTimes;
  /** Workers that enrolled beside the steps. */
  beside: Timings | null;
}

export interface Restart {
  leases: number;
  closeMs: number;
  readyMs: number;
  sweepMs: number;
  swept: Swept;
}

export interface ServerFigures {
  readyMs: number;
  few: Burst;
  many: Burst;
  abandoned: Abandoned;
  ready: ReadyRow[];
  restart: Restart;
}

export async function measureServer(options: MeasureOptions): Promise<ServerFigures> {
  const { repoDir, many, histories, signal } = options;
  const start = performance.now();
  let server = await startServer({ repoDir, signal });
  try {
    const readyMs = performance.now() - start;
    await indexed(server, signal);
    await server.booted;
    await server.tokens.issue(TOKEN, 1_000_000, { signal });
    const existing: Enrolled[] = [];
    for (let n = 0; n < 3; n++) existing.push(await enrol(server, TOKEN, `existing-${n}`, signal));

    // A server has been running for a while, and its code is compiled.
    for (let n = 0; n < 20; n++)
      await burst(server, { token: TOKEN, prefix: `warm-${n}`, count: FEW, existing: [], signal });
    const first = await burst(server, { token: TOKEN, prefix: "few", count: FEW, existing, signal });
    const again: Enrolled[] = [];
    for (const { worker } of existing) again.push(await enrol(server, TOKEN, worker, signal));
    const crowd = await burst(server, { token: TOKEN, prefix: "many", count: many, existing: again, signal });

    const count = Math.min(many, 200);
    const withinMs = (0.7 * crowd.totalMs * count) / many;
    const abandoned = await abandon(server, { token: TOKEN, prefix: "abandon", count, withinMs, signal });
    assert.equal(abandoned.used, count, "each machine used one allowance, however often it tried");

    const ready = await readyUnderHistories(server, histories, signal);
    const restarted = await restart(server, repoDir, signal);
    server = restarted.server;
    return { readyMs, few: first, many: crowd, abandoned, ready, restart: restarted.figures };
  } finally {
    await server.close({ signal: AbortSignal.timeout(0) });
  }
}

/** The first look-up of a type waits until its files are known; here it is shown. */
async function indexed(server: Server, signal: AbortSignal): Promise<void> {
  await withProgress("index of the server", (update) =>
    server.rooms.repository.index.refresh({ signal, onProgress: ({ files, total }) => update(files, total) }),
  );
}

async function readyUnderHistories(
  server: Server,
  histories: readonly number[],
  signal: AbortSignal,
): Promise<ReadyRow[]> {
  const names = Array.from({ length: FLEET }, (_, n) => `runner-${n}`);
  const runners = await Promise.all(names.map((name) => enrol(server, TOKEN, name, signal)));
  // They have nothing to do for as long as a history is imported.
  const beating = setInterval(() => {
    for (const { worker, connection } of runners) server.heartbeat(worker, connection);
  }, 1_000);
  try {
    return await stepsOf(server, names, histories, signal);
  } finally {
    clearInterval(beating);
  }
}

async function stepsOf(
  server: Server,
  workers: readonly string[],
  histories: readonly number[],
  signal: AbortSignal,
): Promise<ReadyRow[]> {
  const rows: ReadyRow[] = [];
  for (const history of histories) {
    await withProgress(`lease history ${history.toLocaleString("en-US")}`, (onProgress) =>
      importHistory(server.rooms.leases, history, { signal, onProgress }),
    );
    for (const [some, rounds] of [
      [workers.slice(0, 1), 20],
      [workers, 5],
    ] as const) {
      const runId = `run-${history}-${some.length}`;
      await server.startRun(runId, { signal });
      const enrolling = enrolBeside(server, { token: TOKEN, prefix: `beside-${history}-${some.length}`, signal });
      const times = await readySteps(server, { runId, workers: some, rounds, signal });
      rows.push({ history, workers: some.length, times, beside: await enrolling.stop() });
      await server.endRun(runId, { signal });
    }
  }
  return rows;
}

/** Stops in the middle of some steps, and boots again: what they leave behind is swept while the server serves. */
async function restart(
  server: Server,
  repoDir: string,
  signal: AbortSignal,
): Promise<{ server: Server; figures: Restart }> {
  const step = { runId: "cut short", method: "ready" };
  for (let n = 0; n < LEFT_ACTIVE; n++) await server.dispatch(`runner-${n}`, step, { signal });
  const leases = await server.rooms.leases.count();
  const closing = performance.now();
  await server.close();
  const closed = performance.now();
  const again = await startServer({ repoDir, signal });
  const readyMs = performance.now() - closed;
  try {
    const { swept } = await again.booted;
    assert.equal(swept.leases, LEFT_ACTIVE, "each lease that was left over has ended");
    const sweepMs = performance.now() - closed - readyMs;
    return { server: again, figures: { leases, closeMs: closed - closing, readyMs, sweepMs, swept } };
  } catch (error) {
    await again.close();
    throw error;
  }
}

/** New workers, all at once, and what those that are enrolled already notice of it. */
import { Timings } from "../support/table.ts";
import { LoopDelay } from "./clock.ts";
import type { Gateway } from "./gateway.ts";

/** A worker, and its connection. */
export interface Enrolled {
  worker: string;
  connection: string;
}

export interface BurstOptions {
  token: string;
  /** Of the new workers' names. */
  prefix: string;
  count: number;
  /** Enrolled with the same token, and idle: one is dispatched steps, one enrols again, one disconnects. */
  existing: readonly Enrolled[];
  signal: AbortSignal;
}

export interface Burst {
  enrolling: Timings;
  totalMs: number;
  /** What workers did that were enrolled before. */
  meanwhile: { dispatch: Timings; disconnect: Timings; reenroll: Timings };
  loopDelayMs: number;
}

/** Enrols a worker on a machine of its own. */
export async function enrol(gateway: Gateway, token: string, worker: string, signal: AbortSignal): Promise<Enrolled> {
  const { connection } = await gateway.enroll({ token, machine: `${worker}-machine`, worker }, { signal });
  return { worker, connection };
}

export async function burst(gateway: Gateway, options: BurstOptions): Promise<Burst> {
  const { token, prefix, count, existing, signal } = options;
  const enrolling = new Timings();
  const meanwhile = { dispatch: new Timings(), disconnect: new Timings(), reenroll: new Timings() };
  using loop = new LoopDelay();
  const start = performance.now();
  let over = false;
  const newcomers = Promise.all(
    Array.from({ length: count }, (_, n) => {
      return enrolling.measure(() => enrol(gateway, token, `${prefix}-${n}`, signal));
    }),
  ).finally(() => {
    over = true;
  });
  /** One worker that does the same again and again while the burst lasts, once at least. */
  const live = async (n: number, act: (worker: Enrolled) => Promise<Enrolled>): Promise<void> => {
    let worker = existing[n];
    if (worker === undefined) return;
    do worker = await act(worker);
    while (!over);
  };
  const enrolAgain = ({ worker }: Enrolled) => enrol(gateway, token, worker, signal);
  await Promise.all([
    newcomers,
    live(0, async (at) => {
      const step = { runId: "beside-the-burst", method: "ready" };
      const dispatch = await meanwhile.dispatch.measure(() => gateway.dispatch(at.worker, step, { signal }));
      await gateway.complete(dispatch, { signal });
      return at;
    }),
    live(1, (at) => meanwhile.reenroll.measure(() => enrolAgain(at))),
    live(2, async (at) => {
      await meanwhile.disconnect.measure(() => gateway.disconnect(at.worker, at.connection, { signal }));
      return enrolAgain(at);
    }),
  ]);
  return { enrolling, totalMs: performance.now() - start, meanwhile, loopDelayMs: loop.worst };
}

/**
 * The workload of report 3755: each worker is dispatched a step, asks whether its machine belongs to the run, writes one
 * small resource, and is done.
 */
import { setTimeout } from "node:timers/promises";
import { Timings } from "../support/table.ts";
import { enrol } from "./burst.ts";
import { LoopDelay, nextTurn } from "./clock.ts";
import type { Gateway } from "./gateway.ts";
import { Stages } from "./stages.ts";

export interface ReadyOptions {
  runId: string;
  /** Enrolled and idle. Each has a step at a time. */
  workers: readonly string[];
  /** How many steps each has. */
  rounds: number;
  signal: AbortSignal;
}

export class ReadyTimes {
  readonly step = new Timings();
  readonly dispatch = new Timings();
  readonly query = new Timings();
  /** The whole of the request, then its parts. */
  readonly write = new Timings();
  readonly queueWait = new Timings();
  readonly bookkeeping = new Timings();
  readonly persistence = new Timings();
  readonly response = new Timings();
  readonly completion = new Timings();
  loopDelayMs = 0;
}

export async function readySteps(gateway: Gateway, options: ReadyOptions): Promise<ReadyTimes> {
  const { runId, workers, rounds, signal } = options;
  const times = new ReadyTimes();
  await provision(gateway, options);
  using loop = new LoopDelay();
  const work = async (worker: string): Promise<void> => {
    for (let round = 0; round < rounds; round++)
      await times.step.measure(() => ready(gateway, runId, worker, times, signal));
  };
  await Promise.all(workers.map(work));
  times.loopDelayMs = loop.worst;
  return times;
}

/** Records each worker's machine as one of the run. */
async function provision(gateway: Gateway, { runId, workers, signal }: ReadyOptions): Promise<void> {
  const [first] = workers;
  if (first === undefined) return;
  const dispatch = await gateway.dispatch(first, { runId, method: "provision" }, { signal });
  for (const vm of workers) {
    await gateway.writeResource(dispatch, { spec: "vm", name: vm, attributes: { runId, vm } }, { signal });
  }
  await gateway.complete(dispatch, { signal });
}

async function ready(
  gateway: Gateway,
  runId: string,
  vm: string,
  times: ReadyTimes,
  signal: AbortSignal,
): Promise<void> {
  const dispatch = await times.dispatch.measure(() => gateway.dispatch(vm, { runId, method: "ready" }, { signal }));
  const isOurs = await times.query.measure(() => gateway.query(runId, "vm", vm, { signal }));
  if (!isOurs) throw new Error(`${vm} does not belong to ${runId}`);

  const resource = { spec: "ready", name: vm, attributes: { runId, vm, ready: true } };
  const stages = new Stages();
  await times.write.measure(async () => {
    await gateway.writeResource(dispatch, resource, { signal, stages });
    await nextTurn();
    stages.mark("response");
  });
  for (const [timings, stage] of [
    [times.queueWait, "queue wait"],
    [times.bookkeeping, "lease bookkeeping"],
    [times.persistence, "persistence"],
    [times.response, "response"],
  ] as const) {
    timings.add(stages.took.get(stage) ?? 0);
  }
  await times.completion.measure(() => gateway.complete(dispatch, { signal }));
}

/** Enrols new workers, one every few milliseconds, until it is stopped; resolves to how long each took. */
export function enrolBeside(
  gateway: Gateway,
  { token, prefix, signal }: { token: string; prefix: string; signal: AbortSignal },
): { stop(): Promise<Timings> } {
  const times = new Timings();
  let stopped = false;
  const enrolling = (async () => {
    for (let n = 0; !stopped; n++) {
      await times.measure(() => enrol(gateway, token, `${prefix}-${n}`, signal));
      await setTimeout(PAUSE_MS, undefined, { signal });
    }
    return times;
  })();
  enrolling.catch(() => {}); // `stop` tells.
  return {
    stop() {
      stopped = true;
      return enrolling;
    },
  };
}

const PAUSE_MS = 5;

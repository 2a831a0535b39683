/** The same requests in the reports' way, at sizes that finish. */
import { join } from "node:path";
import { generateDefinitions } from "../support/definitions.ts";
import { type LinearBoot, linearBoot } from "../support/linear-boot.ts";
import { type Burst, burst, type Enrolled, enrol } from "./burst.ts";
import { nextTurn } from "./clock.ts";
import { writeHistory } from "./history.ts";
import { LinearGateway } from "./linear-gateway.ts";
import { FEW, FLEET, LEFT_ACTIVE, type ReadyRow, TOKEN } from "./measure-server.ts";
import { readySteps } from "./ready-steps.ts";

export interface LinearOptions {
  /** Empty. */
  repoDir: string;
  definitions: number;
  histories: readonly number[];
  signal: AbortSignal;
}

export interface LinearFigures {
  definitions: number;
  few: Burst;
  /** For how long a request was served whose client had gone when its turn came. */
  abandonedMs: number;
  ready: ReadyRow[];
  boot: LinearBoot;
}

export async function measureLinear(options: LinearOptions): Promise<LinearFigures> {
  const { repoDir, definitions, histories, signal } = options;
  await generateDefinitions(repoDir, definitions, { signal });
  await using gateway = new LinearGateway(repoDir, signal);
  const existing: Enrolled[] = [];
  for (let n = 0; n < 3; n++) existing.push(await enrol(gateway, TOKEN, `existing-${n}`, signal));
  const few = await burst(gateway, { token: TOKEN, prefix: "few", count: FEW, existing, signal });
  const abandonedMs = await abandonOne(gateway);

  const workers = Array.from({ length: FLEET }, (_, n) => `runner-${n}`);
  const ready: ReadyRow[] = [];
  for (const history of histories) {
    await writeHistory(repoDir, history, signal);
    for (const some of [workers.slice(0, 1), workers]) {
      const runId = `run-${history}-${some.length}`;
      const times = await readySteps(gateway, { runId, workers: some, rounds: 1, signal });
      ready.push({ history, workers: some.length, times, beside: null });
    }
  }
  for (const worker of workers.slice(0, LEFT_ACTIVE))
    await gateway.dispatch(worker, { runId: "cut short", method: "ready" }, { signal });
  const boot = await linearBoot(join(repoDir, ".swamp/data"), { signal });
  return { definitions, few, abandonedMs, ready, boot };
}

async function abandonOne(gateway: LinearGateway): Promise<number> {
  const gone = new AbortController();
  const start = performance.now();
  const request = { token: TOKEN, machine: "gone-machine", worker: "gone" };
  const served = gateway.enroll(request, { signal: gone.signal }).catch((error: unknown) => {
    if (error !== gone.signal.reason) throw error;
  });
  await nextTurn();
  gone.abort(new Error("gone"));
  await served;
  return performance.now() - start;
}

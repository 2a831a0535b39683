/**
 * A step from its dispatch to its end: each change waits for others of the same worker or lease, and for nobody else; what it
 * costs does not depend on how many leases there ever were.
 */
import { randomUUID } from "node:crypto";
import { currentProcessIdentity } from "../../src/index.ts";
import { type Dispatch, RefusedError, type Resource, type Step } from "./gateway.ts";
import type { Rooms } from "./rooms.ts";
import type { Stages } from "./stages.ts";

/** Point of no return: the writes, which are made in one turn and so in one commit. */
export function dispatch(
  { queue, workers, leases }: Rooms,
  worker: string,
  step: Step,
  signal: AbortSignal,
  stages: Stages | undefined,
): Promise<Dispatch> {
  const acquire = async (): Promise<Dispatch> => {
    stages?.mark("queue wait");
    const record = await workers.get(worker, { signal });
    if (record?.state !== "idle") throw new RefusedError(`the worker ${worker} is ${record?.state ?? "not enrolled"}`);
    signal.throwIfAborted();
    const leaseId = randomUUID();
    const { instanceId } = currentProcessIdentity();
    const lease = leases.insert({
      id: leaseId,
      data: { leaseId, workerName: worker, runId: step.runId, methodName: step.method, instanceId, hasWrites: false },
    });
    const busy = workers.transition(worker, "busy", { from: "idle", patch: { activeDispatchIds: [leaseId] } });
    await together([lease, busy], () => leases.transition(leaseId, "failed", { patch: { error: "not dispatched" } }));
    stages?.mark("lease bookkeeping");
    return { ...step, leaseId, worker };
  };
  return queue.run(`worker:${worker}`, acquire, { signal });
}

export async function query(
  { resources }: Rooms,
  runId: string,
  spec: string,
  name: string,
  signal: AbortSignal,
): Promise<boolean> {
  for await (const { data } of resources.by("name", `${spec}/${name}`, { state: "current", signal }))
    if (data.runId === runId) return true;
  return false;
}

/**
 * The lease first: that it has writes must be known before there are any, and one that has ended must not write.
 * Point of no return: the write of the resource. Aborted before, the lease may say that there are writes.
 */
export function writeResource(
  { queue, leases, resources }: Rooms,
  { leaseId, runId }: Dispatch,
  { spec, name, attributes }: Resource,
  signal: AbortSignal,
  stages: Stages | undefined,
): Promise<void> {
  const write = async (): Promise<void> => {
    stages?.mark("queue wait");
    await leases.update(leaseId, { hasWrites: true }, { state: "active", signal });
    stages?.mark("lease bookkeeping");
    const data = { runId, spec, name, leaseId, attributes };
    await resources.put({ id: `${runId}/${spec}/${name}`, state: "current", data }, { signal });
    stages?.mark("persistence");
  };
  return queue.run(`lease:${leaseId}`, write, { signal });
}

/** Point of no return: the writes. A lease that was ended by somebody else meanwhile stays as it is, and the call fails. */
export function complete(
  { queue, workers, leases }: Rooms,
  { leaseId, worker }: Dispatch,
  signal: AbortSignal,
  stages: Stages | undefined,
): Promise<void> {
  const end = async (): Promise<void> => {
    stages?.mark("queue wait");
    const record = await workers.get(worker, { signal });
    signal.throwIfAborted();
    const lease = leases.transition(leaseId, "completed", { from: "active" });
    // It may have been lost, have come back, and be at another step by now.
    const isAtIt = record?.state === "busy" && record.data.activeDispatchIds?.includes(leaseId);
    await together([lease, isAtIt ? workers.transition(worker, "idle", { patch: { activeDispatchIds: [] } }) : null]);
    stages?.mark("completion");
  };
  return queue.run([`lease:${leaseId}`, `worker:${worker}`], end, { signal });
}

/** Waits for all of them, whatever becomes of each; when one has failed, takes back what the first one did. */
async function together(
  writes: [Promise<unknown>, Promise<unknown> | null],
  undo?: () => Promise<unknown>,
): Promise<void> {
  const outcomes = await Promise.allSettled(writes);
  const failed = outcomes.find((outcome) => outcome.status === "rejected");
  if (failed === undefined) return;
  if (outcomes[0]?.status === "fulfilled") await undo?.();
  throw failed.reason;
}

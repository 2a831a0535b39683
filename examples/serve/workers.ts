/** What becomes of a worker after it has enrolled: its status, and its end. */
import { RefusedError } from "./gateway.ts";
import type { Rooms } from "./rooms.ts";

export function setStatus(
  { queue, workers }: Rooms,
  worker: string,
  status: "idle" | "draining",
  signal: AbortSignal,
): Promise<unknown> {
  const change = () => workers.transition(worker, status, { from: ["idle", "draining"], signal });
  return queue.run(`worker:${worker}`, change, { signal });
}

/**
 * Ends the connection, and fails what the worker was at. What an earlier connection says, or a heartbeat that was missed
 * before the worker came back, is not heeded. Point of no return: the worker's status.
 */
export function disconnect(
  { queue, workers, leases }: Rooms,
  worker: string,
  connection: string,
  signal: AbortSignal,
): Promise<void> {
  const change = async (): Promise<void> => {
    const record = await workers.get(worker, { signal });
    if (record === null) throw new RefusedError(`the worker ${worker} is not enrolled`);
    if (record.data["connection"] !== connection || record.state === "disconnected") return;
    await workers.transition(worker, "disconnected", { signal });
    if (record.state !== "busy") return;
    const patch = { error: "the worker disconnected" };
    await leases.sweep({ from: "active", to: "failed", by: { index: "worker", key: worker }, patch });
  };
  return queue.run(`worker:${worker}`, change, { signal });
}

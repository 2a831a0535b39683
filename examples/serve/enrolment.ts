/** Enrolment, in three parts of which only the first and the last hold a line, and each its own. */
import { randomUUID } from "node:crypto";
import type { WorkerStatus } from "../../src/swamp/index.ts";
import { WORKER_TYPE } from "../support/definitions.ts";
import { type Enrolment, type EnrolmentRequest, RefusedError } from "./gateway.ts";
import type { Rooms } from "./rooms.ts";
import type { Stages } from "./stages.ts";
import type { Tokens } from "./tokens.ts";

/**
 * Redeems the token under the token's key; then, with no line held, finds or creates the worker's definition (so none is
 * made for whoever has no valid token); then records the worker in one write under the worker's key.
 *
 * Abandoned before the token is redeemed, nothing has happened. Abandoned later, the machine stays bound and its retry
 * uses no allowance; a definition that was made stays and is found by the retry. Point of no return: the last write.
 */
export async function enroll(
  rooms: Rooms,
  tokens: Tokens,
  request: EnrolmentRequest,
  signal: AbortSignal,
  stages: Stages | undefined,
): Promise<Enrolment> {
  await tokens.redeem(request, signal, stages);
  stages?.mark("redeem");

  const { definition, created } = await rooms.repository.autoDefinitions.resolveOrCreate(
    WORKER_TYPE,
    request.worker,
    () => {
      stages?.mark("look-up");
      return { id: rooms.repository.definitions.nextId(), name: request.worker };
    },
    { signal },
  );
  stages?.mark("definition");

  const connection = randomUUID();
  await record(rooms, request, connection, signal, stages);
  stages?.mark("record");
  return { connection, definitionId: definition.id, created };
}

function record(
  { queue, workers }: Rooms,
  { token, machine, worker }: EnrolmentRequest,
  connection: string,
  signal: AbortSignal,
  stages: Stages | undefined,
): Promise<unknown> {
  const write = async () => {
    stages?.mark("worker's line");
    const before = await workers.get(worker, { signal });
    if (before !== null && before.state !== "disconnected" && before.data["machine"] !== machine)
      throw new RefusedError(`the worker ${worker} is enrolled from another machine`);
    // Whoever lost the connection only, and comes back, is still at its step.
    const at = before?.state === "busy" ? before.data.activeDispatchIds : undefined;
    const data: WorkerStatus = {
      name: worker,
      tokenName: token,
      machine,
      connection,
      activeDispatchIds: at ?? [],
      enrolledAt: new Date().toISOString(),
    };
    return workers.put({ id: worker, state: at === undefined ? "idle" : "busy", data }, { signal });
  };
  return queue.run(`worker:${worker}`, write, { signal });
}

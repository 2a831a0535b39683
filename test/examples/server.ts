/** A server on an empty repository, for one test. */
import { onTestFinished } from "vitest";
import type { EnrolmentRequest } from "../../examples/serve/gateway.ts";
import { type Server, type ServerOptions, startServer } from "../../examples/serve/server.ts";
import { WORKER_TYPE } from "../../examples/support/definitions.ts";
import { tempDir } from "../support/spawn.ts";

export async function openServer(options: Partial<ServerOptions> = {}): Promise<Server> {
  const server = await startServer({ repoDir: tempDir("tussock-serve-"), ...options });
  onTestFinished(() => server.close());
  await server.booted;
  return server;
}

/** The same for each worker: its own machine, and one token for all. */
export function requestOf(worker: string, token = "fleet"): EnrolmentRequest {
  return { token, machine: `${worker}-machine`, worker };
}

/** What there is of a worker: what an attempt to enrol it has left behind. */
export async function tracesOf(server: Server, { token, worker }: EnrolmentRequest) {
  const { repository, workers } = server.rooms;
  return {
    used: await server.tokens.used(token),
    definition: (await repository.definitions.findByName(WORKER_TYPE, worker))?.id ?? null,
    state: (await workers.get(worker))?.state ?? null,
  };
}

export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** Leases that have ended, as many as a server has after a while. */
import { join } from "node:path";
import type { LeaseIndex } from "../../src/index.ts";
import { uuid, type WriteOptions, writeArtifact } from "../support/artifacts.ts";
import { nextTurn } from "./clock.ts";
import { LEASE_MODEL, LEASE_TYPE } from "./linear-gateway.ts";

const BEGAN = Date.UTC(2026, 0, 1);

/** Adds to the index what lacks until there are `count`. */
export async function importHistory(leases: LeaseIndex, count: number, options: WriteOptions): Promise<void> {
  const { signal } = options;
  const from = await leases.count();
  const source = async function* () {
    for (let n = from; n < count; n++) {
      const leaseId = uuid(0xb0000000 + n);
      const data = { leaseId, workerName: `fleet-a-${n % 36}`, runId: uuid(n % 1000), hasWrites: true };
      yield { id: leaseId, state: "completed" as const, since: BEGAN + n, data };
    }
  };
  await leases.import("history", source, {
    signal,
    onProgress: ({ examined }) => options.onProgress?.(from + examined, count),
  });
  signal?.throwIfAborted();
}

/** The same for the reports' server, whose leases are artifacts. */
export async function writeHistory(repoDir: string, count: number, signal: AbortSignal): Promise<void> {
  for (let n = 0; n < count; n++) {
    const leaseId = uuid(0xb0000000 + n);
    writeArtifact(join(repoDir, ".swamp/data"), {
      type: LEASE_TYPE,
      modelId: LEASE_MODEL,
      modelName: "leases",
      specName: "lease",
      name: `lease-${leaseId}`,
      versions: [{ leaseId, state: "completed", workerName: `fleet-a-${n % 36}`, hasWrites: true }],
      createdAt: BEGAN + n,
    });
    if (n % 100 !== 99) continue;
    await nextTurn();
    signal.throwIfAborted();
  }
}

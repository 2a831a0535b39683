/** A server as far as its boot is concerned: what it opens before it is ready, and what it leaves to the background. */
import {
  type LeaseIndex,
  openLeaseIndex,
  openStateIndex,
  type PendingDispatchState,
  pendingDispatchLifecycle,
  type StateIndex,
  type WorkerState,
  workerLifecycle,
} from "../../src/state/index.ts";
import {
  leasesFromArtifacts,
  type PendingDispatch,
  pendingDispatchesFromArtifacts,
  type WorkerStatus,
  workersFromArtifacts,
} from "../../src/swamp/index.ts";

export interface Server extends AsyncDisposable {
  readonly leases: LeaseIndex;
  readonly pending: StateIndex<PendingDispatch, PendingDispatchState>;
  readonly workers: StateIndex<WorkerStatus, WorkerState>;
  /** What an earlier boot entered, and this one has not, has a lower one. */
  readonly epoch: number;
  close(): Promise<void>;
}

/** All that must be done before the server can say that it is ready. */
export async function openServer(dir: string, signal: AbortSignal): Promise<Server> {
  const leases = await openLeaseIndex({ dir, retention: false, signal });
  const pending = await openStateIndex<PendingDispatch, PendingDispatchState>({
    name: "pending-dispatch",
    lifecycle: pendingDispatchLifecycle,
    dir,
    retention: false,
    signal,
  });
  const workers = await openStateIndex<WorkerStatus, WorkerState>({
    name: "worker",
    lifecycle: workerLifecycle,
    dir,
    signal,
  });
  const epoch = await leases.beginEpoch({ signal });
  const close = async (): Promise<void> => {
    for (const index of [leases, pending, workers]) await index.close();
  };
  return { leases, pending, workers, epoch, close, [Symbol.asyncDispose]: close };
}

export interface Imported {
  examined: number;
  changed: number;
  problems: number;
  artifactsRead: number;
}

type Records = Pick<Server, "leases" | "pending" | "workers" | "epoch">;

/** Brings in what swamp's artifacts say beyond what was read of them before. */
export async function importArtifacts(server: Records, dataDir: string, signal: AbortSignal): Promise<Imported> {
  const read = [0, 0, 0];
  const options = (kind: number, since: string | null) => ({
    since,
    signal,
    onProgress: (progress: { read: number }) => {
      read[kind] = progress.read;
    },
  });
  const reports = [
    await server.leases.import(
      "artifacts",
      (since) => leasesFromArtifacts(dataDir, { ...options(0, since), live: server.leases.byState("active") }),
      { signal },
    ),
    await server.pending.import("artifacts", (since) => pendingDispatchesFromArtifacts(dataDir, options(1, since)), {
      signal,
    }),
    await server.workers.import("artifacts", (since) => workersFromArtifacts(dataDir, options(2, since)), { signal }),
  ];
  const sum = (of: (report: (typeof reports)[number]) => number) =>
    reports.reduce((total, report) => total + of(report), 0);
  return {
    examined: sum((report) => report.examined),
    changed: sum((report) => report.inserted + report.updated),
    problems: sum((report) => report.problemCount),
    artifactsRead: read.reduce((total, n) => total + n, 0),
  };
}

export interface Swept {
  leases: number;
  pending: number;
  workers: number;
  /** In how many commits the leases were ended. */
  commits: number;
}

/** Ends what earlier boots left behind, and nothing that was begun since this one. */
export async function sweepStale(server: Records, signal: AbortSignal): Promise<Swept> {
  const beforeEpoch = server.epoch;
  let commits = 0;
  const leases = await server.leases.sweep({
    from: "active",
    to: "expired",
    beforeEpoch,
    patch: { error: "orchestrator restart" },
    onProgress: () => commits++,
    signal,
  });
  const pending = await server.pending.sweep({ from: "waiting", to: "orphaned", beforeEpoch, signal });
  const workers = await server.workers.sweep({
    from: ["idle", "busy", "unverified", "draining"],
    to: "disconnected",
    beforeEpoch,
    signal,
  });
  return { leases: leases.transitioned, pending: pending.transitioned, workers: workers.transitioned, commits };
}

/** Records with a life: leases, pending dispatches, workers, runs, and any other. */
export { type ControlPlaneOptions, openControlPlaneStore } from "./control-plane.ts";
export {
  defineLifecycle,
  type Lifecycle,
  type PendingDispatchState,
  pendingDispatchLifecycle,
  type RunState,
  runLifecycle,
  type StepLeaseState,
  stepLeaseLifecycle,
  type WorkerState,
  workerLifecycle,
} from "./lifecycle.ts";
export type * from "./model.ts";
export { type LeaseIndex, openLeaseIndex, openStateIndex, type StateIndexOptions, type StepLease } from "./open.ts";
export type {
  PostgresClient,
  PostgresDriver,
  PostgresQuery,
  PostgresSettings,
  PostgresSource,
} from "./postgres/source.ts";
export { type ReapOptions, reapRuns } from "./reap-runs.ts";
export { type RunsOfOptions, runsOf } from "./runs-of.ts";

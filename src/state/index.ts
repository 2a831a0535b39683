/** Records with a life: leases, pending dispatches, workers, runs, and any other. */
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

/** Opening a state index. */
import type { AbortOptions } from "../abort.ts";
import { checkFunction, checkObject, checkOptions } from "../arguments.ts";
import { InvalidArgumentError } from "../errors.ts";
import { type Lifecycle, type StepLeaseState, stepLeaseLifecycle } from "./lifecycle.ts";
import { checkInteger, checkName, isKey } from "./limits.ts";
import type { IndexFunction, Retention, StateIndex, StateMirror } from "./model.ts";
import type { PostgresSource } from "./postgres/source.ts";
import { checkFunctions, type IndexFunctions } from "./secondary.ts";
import { checkWhere } from "./where.ts";

export interface StateIndexOptions<D, S extends string> extends AbortOptions {
  /** What tells the indexes of one directory or database apart. At most 128 bytes. */
  name: string;
  /** Stored with the index: it cannot be opened with another one. */
  lifecycle: Lifecycle<S>;
  /** Made if need be. Several indexes share one; any number of processes may have it open. Not on a network file system. */
  dir?: string | undefined;
  /** In place of `dir`: a database that servers on several machines share. Needs the package `postgres`. */
  postgres?: PostgresSource | undefined;
  /**
   * Secondary indexes by name. A new one is built when the index is opened; null gives one up. A process that is not
   * given all that are stored may still write: the next `by()` of one that is fills in what is missing.
   */
  indexes?: Record<string, IndexFunction<D, S> | null> | undefined;
  /**
   * When a change is acknowledged: "flushed" (default): when it is on disk; "committed": when it survives the process,
   * though not the power. If one index of a directory wants "flushed", all of this process get it.
   */
  durability?: "flushed" | "committed" | undefined;
  /** How long terminal records are kept; default 30 days after they ended; false: for ever. */
  retention?: Retention | false | undefined;
  /**
   * Gets every change. Once an index had one, changes wait for it in the store, also those of processes that have none;
   * false ends that, and drops what waits.
   */
  mirror?: StateMirror<D, S> | false | undefined;
  /** How long a write may take before it is given up. Default 30,000. */
  writeDeadlineMs?: number | undefined;
}

const WRITE_DEADLINE_MS = 30_000;

/**
 * Opens the state index `name` in `dir` or in a PostgreSQL database, and makes it if need be.
 *
 * Aborted before it is open: rejects with the signal's reason, and nothing of it stays open; a directory, a schema or an empty
 * store that it made stays.
 *
 * @throws LifecycleMismatchError when it was made with another lifecycle; StateStoreCorruptError; SchemaVersionError;
 * UnsupportedFileSystemError; StateStoreBusyError; StateStoreUnavailableError; InvalidArgumentError; KeyTooLongError.
 */
export async function openStateIndex<D, S extends string>(options: StateIndexOptions<D, S>): Promise<StateIndex<D, S>> {
  checkObject("options", options);
  checkOptions(options);
  const { name, lifecycle, durability, signal, mirror } = options;
  checkName("name", name);
  const where = checkWhere(options);
  if (!Array.isArray(lifecycle?.states))
    throw new InvalidArgumentError("lifecycle", lifecycle, "what defineLifecycle gives");
  if (durability !== undefined && durability !== "flushed" && durability !== "committed") {
    throw new InvalidArgumentError("durability", durability, '"flushed" or "committed"');
  }
  const deadlineMs = checkInteger("writeDeadlineMs", options.writeDeadlineMs ?? WRITE_DEADLINE_MS, 1);
  if (mirror !== undefined && mirror !== false) checkMirror(mirror);
  if (options.retention !== undefined && options.retention !== false) checkObject("retention", options.retention);
  if (options.indexes !== undefined) checkObject("indexes", options.indexes);
  const functions: IndexFunctions<D, S> = options.indexes ?? {};
  checkFunctions(functions);

  signal?.throwIfAborted();
  // Loaded when somebody opens one: importing the library is to cost little.
  const { assemble } = await import("./assemble.ts");
  return assemble({ ...options, where, deadlineMs, functions });
}

function checkMirror<D, S extends string>(mirror: Partial<StateMirror<D, S>>): void {
  checkObject("mirror", mirror, "an object with `locate` and `write`, or false");
  for (const part of ["locate", "write"] as const) checkFunction(`mirror.${part}`, mirror[part]);
  for (const part of ["onWillWrite", "onWritten"] as const)
    if (mirror[part] !== undefined) checkFunction(`mirror.${part}`, mirror[part]);
}

/** What a step lease keeps of what it was given for; more fields may be there. */
export interface StepLease {
  leaseId?: string;
  workerName?: string;
  dispatchId?: string;
  runId?: string;
  instanceId?: string;
  hasWrites?: boolean;
  [field: string]: unknown;
}

export type LeaseIndex = StateIndex<StepLease, StepLeaseState>;

/** {@link openStateIndex} for step leases, with the indexes `worker`, `dispatch`, `run` and `instance`. */
export function openLeaseIndex(
  options: Omit<StateIndexOptions<StepLease, StepLeaseState>, "name" | "lifecycle" | "indexes"> & { name?: string },
): Promise<LeaseIndex> {
  return openStateIndex({ name: "step-lease", ...options, lifecycle: stepLeaseLifecycle, indexes: LEASE_INDEXES });
}

const LEASE_INDEXES: Record<string, IndexFunction<StepLease, StepLeaseState>> = {
  worker: ({ data }) => text(data.workerName),
  dispatch: ({ data }) => text(data.dispatchId),
  run: ({ data }) => text(data.runId),
  instance: ({ data }) => text(data.instanceId),
};

/** What was imported may hold anything: a field of another type, or too long for a key, is not indexed. */
function text(value: unknown): string | undefined {
  return isKey(value) ? value : undefined;
}

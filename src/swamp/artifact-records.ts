/** Which of swamp's artifacts are records, and what their content says: for the import into a state index, and back. */
import { isDeepStrictEqual } from "node:util";
import { isObject } from "../arguments.ts";
import {
  isTerminal,
  type Lifecycle,
  type PendingDispatchState,
  pendingDispatchLifecycle,
  type StepLeaseState,
  stepLeaseLifecycle,
  type WorkerState,
  workerLifecycle,
} from "../state/lifecycle.ts";
import type { ImportRecord, StateRecord } from "../state/model.ts";
import type { StepLease } from "../state/open.ts";
import { timeOf } from "./artifact-metadata.ts";
import type { Artifact } from "./artifact-scan.ts";

/** What swamp keeps of a dispatch that waits, besides its state. More fields are kept as they are. */
export interface PendingDispatch {
  queueId?: string;
  dispatchId?: string;
  modelType?: string;
  methodName?: string;
  /** ISO. */
  queuedAt?: string;
  /** ISO. */
  endedAt?: string;
  [field: string]: unknown;
}

/** What swamp keeps of a worker, besides its state. */
export interface WorkerStatus {
  name?: string;
  instanceUuid?: string;
  tokenName?: string;
  labels?: Record<string, string>;
  capacity?: number;
  activeDispatchIds?: string[];
  /** ISO. */
  enrolledAt?: string;
  /** ISO. */
  lastSeenAt?: string;
  [field: string]: unknown;
}

/** A kind of record that swamp keeps as artifacts: where they lie, and which fields of their JSON say what. */
export interface ArtifactKind<D, S extends string> {
  readonly type: string;
  readonly lifecycle: Lifecycle<S>;
  /** The tag `specName` of its artifacts. */
  readonly specName: string;
  readonly fields: {
    readonly id: string;
    readonly state: string;
    readonly createdAt: string;
    /** Set when the record enters a terminal state; null where there is none. */
    readonly endedAt: string | null;
  };
  /** The data name under which a record that was made here is written. */
  itemName(id: string): string;
  /** Which items of the type are such records. Default: all. */
  readonly items?: (name: string) => boolean;
  /** Only in types: what the content is. */
  readonly data?: D;
}

export const stepLeaseArtifacts: ArtifactKind<StepLease, StepLeaseState> = {
  type: "swamp/step-lease",
  lifecycle: stepLeaseLifecycle,
  specName: "lease",
  fields: { id: "leaseId", state: "state", createdAt: "createdAt", endedAt: "endedAt" },
  itemName: (id) => `lease-${id}`,
};

export const pendingDispatchArtifacts: ArtifactKind<PendingDispatch, PendingDispatchState> = {
  type: "swamp/pending-dispatch",
  lifecycle: pendingDispatchLifecycle,
  specName: "dispatch",
  fields: { id: "queueId", state: "state", createdAt: "queuedAt", endedAt: "endedAt" },
  itemName: (id) => `pending-${id}`,
};

const WORKER_ITEM = "state-main";

export const workerArtifacts: ArtifactKind<WorkerStatus, WorkerState> = {
  type: "swamp/worker",
  lifecycle: workerLifecycle,
  specName: "state",
  fields: { id: "name", state: "status", createdAt: "enrolledAt", endedAt: null },
  itemName: () => WORKER_ITEM,
  items: (name) => name === WORKER_ITEM,
};

/** Where an artifact's record comes from: its item's path in the data directory, with `/` on every system. */
export function originOf({ type, modelId, name }: Pick<Artifact, "type" | "modelId" | "name">): string {
  return `${type}/${modelId}/${name}`;
}

/** The record that the artifact holds, or what is wrong with it. */
export function recordOf<D, S extends string>(
  kind: ArtifactKind<D, S>,
  artifact: Artifact,
): ImportRecord<D, S> | { reason: string } {
  const content = parseJson(artifact.content);
  if (content === undefined) return { reason: "content is not JSON" };
  if (!isObject(content)) return { reason: "content is not a JSON object" };
  const { fields, lifecycle } = kind;
  const id = content[fields.id];
  if (typeof id !== "string") return { reason: `${fields.id} is not a string` };
  if (id === "") return { reason: `${fields.id} is empty` };
  const state = lifecycle.states.find((known) => known === content[fields.state]);
  if (state === undefined) return { reason: "unknown state" };

  const { writtenAt } = artifact;
  const createdAt = timeOf(content[fields.createdAt]) ?? writtenAt;
  const endedAt = fields.endedAt === null ? null : timeOf(content[fields.endedAt]);
  // A state that a record may come back to was entered when the version that says so was written.
  const isEntry = fields.endedAt !== null && !isTerminal(lifecycle, state);
  const since = isEntry ? createdAt : (endedAt ?? writtenAt);
  // The state is the index's from now on; beside it, a copy in the data would go stale.
  const { [fields.state]: _state, ...data } = content;
  return { id, state, since, createdAt, data: data as D, origin: originOf(artifact) };
}

/** The JSON that swamp expects of a record in this state. */
export function contentOf<D, S extends string>(
  { fields, lifecycle }: ArtifactKind<D, S>,
  record: StateRecord<D, S>,
): Record<string, unknown> {
  const ended = fields.endedAt !== null && isTerminal(lifecycle, record.state);
  return {
    [fields.id]: record.id,
    [fields.createdAt]: new Date(record.createdAt).toISOString(),
    ...(ended ? { [fields.endedAt as string]: new Date(record.since).toISOString() } : {}),
    ...record.data,
    [fields.state]: record.state,
  };
}

/** Whether the artifact's content says of the record what {@link contentOf} would, in whatever order. */
export function tells<D, S extends string>(
  kind: ArtifactKind<D, S>,
  content: Uint8Array,
  record: StateRecord<D, S>,
): boolean {
  const told = parseJson(content);
  if (!isObject(told) || told[kind.fields.state] !== record.state) return false;
  return isDeepStrictEqual(contentOf(kind, { ...record, data: told as D }), contentOf(kind, record));
}

function parseJson(content: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(content));
  } catch {
    return undefined;
  }
}

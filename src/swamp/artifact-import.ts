/** Swamp's artifacts as a source for `StateIndex.import`. */
import { basename, join, resolve } from "node:path";
import { checkObject, checkOptions, checkPath } from "../arguments.ts";
import { InvalidArgumentError } from "../errors.ts";
import { timeSlices } from "../slices.ts";
import type { PendingDispatchState, StepLeaseState, WorkerState } from "../state/lifecycle.ts";
import { DANGLING } from "../state/lifecycle.ts";
import type { ImportItem, ImportProblem, ImportRecord } from "../state/model.ts";
import type { StepLease } from "../state/open.ts";
import { listNames, readItem } from "./artifact-item.ts";
import {
  type ArtifactKind,
  type PendingDispatch,
  pendingDispatchArtifacts,
  recordOf,
  stepLeaseArtifacts,
  type WorkerStatus,
  workerArtifacts,
} from "./artifact-records.ts";
import { type Artifact, type ArtifactScanOptions, scanArtifacts, typeDirectory } from "./artifact-scan.ts";

/** What the source needs to know of a record that is already in the index. */
export interface KnownRecord<D> {
  id: string;
  origin?: string | undefined;
  since: number;
  data: D;
}

export interface ArtifactImportOptions<D = unknown> extends Omit<ArtifactScanOptions, "items"> {
  /**
   * The records that still live, such as `index.byState("active")`: one that came from an artifact which is now gone
   * or deleted is yielded as `dangling`; where the type's whole directory is not there, a problem instead. A record that
   * was made in the index (without `origin`) is left as it is. Default: none is.
   */
  live?: AsyncIterable<KnownRecord<D>> | undefined;
}

/**
 * Step leases, for
 *
 *     leases.import("artifacts", (since) => leasesFromArtifacts(dataDir, { since, live: leases.byState("active") }))
 *
 * Everything that {@link scanArtifacts} says of `since`, of what is thrown and of an abort holds here. Deleted and
 * renamed items are left out.
 */
export function leasesFromArtifacts(
  dataDir: string,
  options?: ArtifactImportOptions<StepLease>,
): AsyncIterableIterator<ImportItem<StepLease, StepLeaseState>> {
  return recordsFromArtifacts(dataDir, stepLeaseArtifacts, options);
}

/** Pending dispatches; otherwise as {@link leasesFromArtifacts}. */
export function pendingDispatchesFromArtifacts(
  dataDir: string,
  options?: ArtifactImportOptions<PendingDispatch>,
): AsyncIterableIterator<ImportItem<PendingDispatch, PendingDispatchState>> {
  return recordsFromArtifacts(dataDir, pendingDispatchArtifacts, options);
}

/** Workers, from their items `state-main`; otherwise as {@link leasesFromArtifacts}. */
export function workersFromArtifacts(
  dataDir: string,
  options?: ArtifactImportOptions<WorkerStatus>,
): AsyncIterableIterator<ImportItem<WorkerStatus, WorkerState>> {
  return recordsFromArtifacts(dataDir, workerArtifacts, options);
}

/** Records of any kind that is kept as artifacts; otherwise as {@link leasesFromArtifacts}. */
export async function* recordsFromArtifacts<D, S extends string>(
  dataDir: string,
  kind: ArtifactKind<D, S>,
  options: ArtifactImportOptions<D> = {},
): AsyncIterableIterator<ImportItem<D, S>> {
  checkPath("dataDir", dataDir);
  checkObject("kind", kind, "a kind of artifact, such as stepLeaseArtifacts");
  checkOptions(options);
  const { live, ...scanOptions } = options;
  if (live !== undefined && typeof live?.[Symbol.asyncIterator] !== "function")
    throw new InvalidArgumentError("live", live, "an async iterable of records, such as index.byState(…)");
  const { signal } = options;
  const known = await knownFrom(live, kind.type, signal);
  const withdrawn = new Set<string>();
  let heldBack: string | undefined;
  for await (const result of scanArtifacts(dataDir, kind.type, { ...scanOptions, items: kind.items })) {
    switch (result.kind) {
      case "artifact": {
        const item = itemOf(kind, result.artifact);
        if ("id" in item) known.delete(item.id);
        yield item;
        break;
      }
      case "problem":
        yield { problem: { path: result.path, reason: result.reason } };
        break;
      case "ignored":
        withdrawn.add(result.path);
        break;
      case "mark":
        // The last one says that everything is done, which it is only after the search for what is gone.
        if (heldBack !== undefined) yield { watermark: heldBack };
        heldBack = result.watermark;
    }
  }
  const typeDir = typeDirectory(dataDir, kind.type);
  if (known.size > 0 && listNames(typeDir) === null) {
    yield { problem: { path: typeDir, reason: lost(known.size) } };
    known.clear();
  }
  const slices = timeSlices(signal);
  for (const record of known.values()) {
    if (slices.due()) await slices.pause();
    const path = resolve(dataDir, record.origin);
    if (!withdrawn.has(path) && listNames(path) !== null) continue;
    yield elsewhere(dataDir, kind, record.id) ?? {
      id: record.id,
      state: DANGLING,
      since: Math.max(Date.now(), record.since),
      data: record.data,
      origin: record.origin,
    };
    signal?.throwIfAborted();
  }
  if (heldBack !== undefined) yield { watermark: heldBack };
}

/** A volume that is not mounted, a path that was mistyped: records end by what is seen, and `dangling` is for good. */
function lost(live: number): string {
  return `the directory is not there, though artifacts of ${live} live records should be in it; they are left as they are`;
}

function itemOf<D, S extends string>(kind: ArtifactKind<D, S>, artifact: Artifact): ImportRecord<D, S> | ImportProblem {
  const record = recordOf(kind, artifact);
  return "reason" in record ? { problem: { path: artifact.path, reason: record.reason } } : record;
}

/** Of the records that live, those that came from an artifact of this type, by id. */
async function knownFrom<D>(
  live: AsyncIterable<KnownRecord<D>> | undefined,
  type: string,
  signal: AbortSignal | undefined,
) {
  const known = new Map<string, KnownRecord<D> & { origin: string }>();
  for await (const record of live ?? []) {
    signal?.throwIfAborted();
    const { origin } = record;
    if (origin?.startsWith(`${type}/`)) known.set(record.id, { ...record, origin });
  }
  return known;
}

/** The record's artifact under whatever model it lies, when it has a name of its own to be looked for. */
function elsewhere<D, S extends string>(dataDir: string, kind: ArtifactKind<D, S>, id: string) {
  const name = kind.itemName(id);
  if (kind.items !== undefined || name !== basename(name)) return null;
  const typeDir = typeDirectory(dataDir, kind.type);
  for (const modelId of listNames(typeDir) ?? []) {
    const path = join(typeDir, modelId, name);
    const reading = readItem(path);
    if (reading.kind !== "artifact") continue;
    const item = itemOf(kind, { ...reading, path, type: kind.type, modelId, name });
    if ("id" in item && item.id === id) return item;
  }
  return null;
}

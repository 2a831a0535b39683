/** Generates a data directory as swamp leaves it behind: leases, pending dispatches and workers, in versions. */
import { createHash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface ArtifactSpec {
  type: string;
  modelId: string;
  modelName: string;
  specName: string;
  /** The data name. */
  name: string;
  /** What each version says, the first one first; each was written a second after the one before. */
  versions: readonly unknown[];
  /** When the first was written, in epoch milliseconds. */
  createdAt: number;
}

/** Writes one item with all its versions and its marker. Returns its directory. */
export function writeArtifact(dataDir: string, spec: ArtifactSpec): string {
  const item = join(dataDir, spec.type, spec.modelId, spec.name);
  for (const [index, content] of spec.versions.entries()) writeVersion(item, index + 1, content, spec);
  writeFileSync(join(item, "latest"), String(spec.versions.length));
  return item;
}

/** Writes one version, without the marker. */
export function writeVersion(
  item: string,
  version: number,
  content: unknown,
  spec: Omit<ArtifactSpec, "versions">,
): void {
  const dir = join(item, String(version));
  mkdirSync(dir, { recursive: true });
  const raw = JSON.stringify(content);
  writeFileSync(join(dir, "raw"), raw);
  writeFileSync(join(dir, "metadata.yaml"), metadataOf(spec, version, raw));
}

function metadataOf(spec: Omit<ArtifactSpec, "versions">, version: number, raw: string): string {
  return `id: ${uuid(0xc0000000 + version)}
name: ${spec.name}
version: ${version}
contentType: application/json
lifetime: infinite
garbageCollection: 10
streaming: false
tags:
  type: resource
  specName: ${spec.specName}
  modelName: ${spec.modelName}
ownerDefinition:
  ownerType: model-method
  ownerRef: ${spec.modelId}
createdAt: '${iso(spec.createdAt + (version - 1) * 1000)}'
size: ${Buffer.byteLength(raw)}
checksum: ${createHash("sha256").update(raw).digest("hex")}
`;
}

export interface FleetOptions {
  /** Leases in all. Report 1955: 10,115. */
  leases: number;
  /** Of them still active: 19. */
  active: number;
  pending: number;
  workers: number;
}

export const REPORTED: FleetOptions = { leases: 10_115, active: 19, pending: 43, workers: 14 };

export interface Fleet {
  leases: number;
  /**
   * Versions of leases: three of each that has ended, and two of those that are active or ended without having
   * written.
   */
  versions: number;
  activeIds: string[];
}

export interface WriteOptions {
  signal?: AbortSignal | undefined;
  onProgress?: (written: number, total: number) => void;
}

/** The history of report 1955, in its proportions: 30,196 versions for 10,115 leases. */
export async function writeFleet(dataDir: string, options: FleetOptions, write: WriteOptions = {}): Promise<Fleet> {
  const began = Date.UTC(2026, 9, 21, 20, 14, 27);
  const withoutWrites = Math.round(options.leases * (130 / REPORTED.leases));
  const activeIds: string[] = [];
  let versions = 0;
  let ended = 0;
  for (let n = 1; n <= options.leases; n++) {
    if (n % 100 === 0) {
      await new Promise((resolve) => setImmediate(resolve));
      write.signal?.throwIfAborted();
      write.onProgress?.(n, options.leases);
    }
    const createdAt = began - (options.leases - n) * 60_000;
    const active = spread(n, options.leases, options.active);
    if (!active) ended++;
    const wrote = active || !spread(ended, options.leases - options.active, withoutWrites);
    const lease = leaseOf(n, createdAt);
    const history: object[] = [{ ...lease, state: "active", hasWrites: false }];
    if (wrote) history.push({ ...lease, state: "active", hasWrites: true });
    if (active) activeIds.push(lease.leaseId);
    else history.push({ ...lease, ...endOf(n, createdAt), hasWrites: wrote });
    versions += history.length;
    writeArtifact(dataDir, {
      type: "swamp/step-lease",
      modelId: uuid(0xa0000001),
      modelName: "leases",
      specName: "lease",
      name: `lease-${lease.leaseId}`,
      versions: history,
      createdAt,
    });
  }
  writePending(dataDir, options.pending, began);
  writeWorkers(dataDir, options.workers, began);
  return { leases: options.leases, versions, activeIds };
}

/** Whether the n-th of `total` is one of `chosen` that are spread over them evenly. */
function spread(n: number, total: number, chosen: number): boolean {
  return Math.floor((n * chosen) / total) > Math.floor(((n - 1) * chosen) / total);
}

function leaseOf(n: number, createdAt: number) {
  return {
    leaseId: uuid(0xd0000000 + n),
    dispatchId: uuid(0xe0000000 + n),
    workerName: `fleet-a-${n % 36}`,
    modelType: "@acme/runner",
    modelId: uuid(0xf0000001),
    methodName: "ready",
    workflowName: "@acme/ci/run",
    jobName: "provision",
    stepName: `ready-${n}`,
    createdAt: iso(createdAt),
  };
}

function endOf(n: number, createdAt: number): object {
  const endedAt = iso(createdAt + 60_000);
  if (n % 50 !== 0) return { state: "completed", endedAt };
  return n % 100 === 0 ? { state: "failed", endedAt, error: "exit 1" } : { state: "expired", endedAt };
}

function writePending(dataDir: string, count: number, began: number): void {
  for (let n = 1; n <= count; n++) {
    const queueId = uuid(0x90000000 + n);
    const dispatch = { queueId, modelType: "@acme/runner", methodName: "ready", queuedAt: iso(began) };
    const endedAt = iso(began + 1000);
    writeArtifact(dataDir, {
      type: "swamp/pending-dispatch",
      modelId: uuid(0xa0000003),
      modelName: "pending",
      specName: "dispatch",
      name: `pending-${queueId}`,
      versions: [
        { ...dispatch, state: "waiting" },
        { ...dispatch, state: "dispatched", dispatchId: uuid(0xe0000000 + n), endedAt },
      ],
      createdAt: began,
    });
  }
}

function writeWorkers(dataDir: string, count: number, began: number): void {
  for (let n = 1; n <= count; n++) {
    writeArtifact(dataDir, {
      type: "swamp/worker",
      modelId: uuid(0x80000000 + n),
      modelName: `worker-fleet-a-${n}`,
      specName: "state",
      name: "state-main",
      versions: ["idle", "busy", n === 1 ? "busy" : "disconnected"].map((status) => ({
        name: `fleet-a-${n}`,
        instanceUuid: uuid(0x70000000 + n),
        status,
        labels: { fleet: "fleet-a" },
        enrolledAt: iso(began),
        lastSeenAt: iso(began),
        capacity: 1,
        activeDispatchIds: [],
      })),
      createdAt: began,
    });
  }
}

/** A UUID that says which number it is. */
export function uuid(n: number): string {
  const tail = (n & 0xfffffff).toString(16).padStart(12, "0");
  return `${(n >>> 0).toString(16).padStart(8, "0")}-2222-4333-8444-${tail}`;
}

function iso(time: number): string {
  return new Date(time).toISOString();
}

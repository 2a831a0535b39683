/**
 * The same requests, served as the reports describe: every change of any worker or token waits in one line, every change of
 * any lease in another; a new name has all definitions read twice with the line held; an update of a lease lists all leases
 * there ever were; and a request that was given up is only looked at before its turn. Nothing is flushed: what it costs is
 * what it does.
 */
import { randomUUID } from "node:crypto";
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createTransitionQueue } from "../../src/index.ts";
import { uuid, writeVersion } from "../support/artifacts.ts";
import { AUTO_ROOT, MODELS_ROOT, WORKER_TYPE, workerDocument } from "../support/definitions.ts";
import { listItems } from "../support/linear-boot.ts";
import { type LinearScan, linearScan } from "../support/linear-scan.ts";
import { nextTurn } from "./clock.ts";
import type { Dispatch, Enrolment, EnrolmentRequest, Gateway, RequestOptions, Resource, Step } from "./gateway.ts";

/** All changes of workers and tokens; all changes of leases. */
type Line = "gateway" | "dispatch";

export const LEASE_TYPE = "swamp/step-lease";
export const LEASE_MODEL = uuid(0xa0000001);

export class LinearGateway implements Gateway {
  readonly #queue = createTransitionQueue();
  readonly #scan: LinearScan;
  readonly #dataDir: string;
  readonly #versions = new Map<string, number>();

  constructor(repoDir: string, signal: AbortSignal) {
    this.#scan = linearScan([join(repoDir, MODELS_ROOT), join(repoDir, AUTO_ROOT)], signal);
    this.#dataDir = join(repoDir, ".swamp/data");
    mkdirSync(join(this.#dataDir, LEASE_TYPE, LEASE_MODEL), { recursive: true });
  }

  enroll({ token, machine, worker }: EnrolmentRequest, o?: RequestOptions): Promise<Enrolment> {
    return this.#inLine("gateway", o, async () => {
      this.#write("swamp/token", token, "binding", `${token}-${machine}`, { token, machine });
      const document = workerDocument({ id: randomUUID(), name: worker });
      await this.#scan.create(WORKER_TYPE, worker, document);
      o?.signal?.throwIfAborted();
      const connection = randomUUID();
      this.#writeStatus(worker, "idle");
      return { connection, definitionId: String(document["id"]), created: true };
    });
  }

  setStatus(worker: string, status: "idle" | "draining", o?: RequestOptions): Promise<void> {
    return this.#inLine("gateway", o, () => this.#writeStatus(worker, status));
  }

  disconnect(worker: string, _connection: string, o?: RequestOptions): Promise<void> {
    return this.#inLine("gateway", o, () => this.#writeStatus(worker, "disconnected"));
  }

  async dispatch(worker: string, step: Step, o?: RequestOptions): Promise<Dispatch> {
    const leaseId = randomUUID();
    await this.#inLine("gateway", o, () => this.#writeStatus(worker, "busy"));
    await this.#inLine("dispatch", o, () =>
      this.#updateLease(leaseId, { state: "active", workerName: worker, ...step }),
    );
    return { ...step, leaseId, worker };
  }

  /** By its name, as an index would find it: this is not what was slow. */
  async query(runId: string, spec: string, name: string): Promise<boolean> {
    return this.#versions.has(join("resource", runId, `${spec}-${name}`));
  }

  async writeResource({ leaseId, runId }: Dispatch, resource: Resource, o?: RequestOptions): Promise<void> {
    await this.#inLine("dispatch", o, () => this.#updateLease(leaseId, { state: "active", hasWrites: true }));
    o?.stages?.mark("lease bookkeeping");
    this.#write("resource", runId, resource.spec, `${resource.spec}-${resource.name}`, resource.attributes);
    o?.stages?.mark("persistence");
  }

  async complete({ leaseId, worker }: Dispatch, o?: RequestOptions): Promise<void> {
    await this.#inLine("dispatch", o, () => this.#updateLease(leaseId, { state: "completed" }));
    o?.stages?.mark("completion");
    await this.#inLine("gateway", o, () => this.#writeStatus(worker, "idle"));
    o?.stages?.mark("completion");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#queue.close();
  }

  /** What has been given up leaves the line; whose turn has come is served to the end. */
  #inLine<R>(line: Line, o: RequestOptions | undefined, serve: () => R | Promise<R>): Promise<R> {
    const turn = async (): Promise<R> => {
      o?.stages?.mark("queue wait");
      const answer = await serve();
      await nextTurn();
      return answer;
    };
    return this.#queue.run(line, turn, o?.signal === undefined ? {} : { signal: o.signal });
  }

  #updateLease(leaseId: string, content: Record<string, unknown>): void {
    listItems(join(this.#dataDir, LEASE_TYPE, LEASE_MODEL));
    this.#write(LEASE_TYPE, LEASE_MODEL, "lease", `lease-${leaseId}`, { leaseId, ...content });
  }

  #writeStatus(worker: string, status: string): void {
    this.#write(WORKER_TYPE, worker, "state", "state-main", { name: worker, status });
  }

  #write(type: string, modelId: string, specName: string, name: string, content: unknown): void {
    const item = join(this.#dataDir, type, modelId, name);
    const key = join(type, modelId, name);
    const version = (this.#versions.get(key) ?? 0) + 1;
    this.#versions.set(key, version);
    writeVersion(item, version, content, { type, modelId, modelName: modelId, specName, name, createdAt: Date.now() });
    writeFileSync(join(item, ".latest.tmp"), String(version));
    renameSync(join(item, ".latest.tmp"), join(item, "latest"));
  }
}

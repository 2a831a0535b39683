/** What a worker, or whoever hands out work, may ask of the server. The reports' server is asked the same. */
import type { AbortOptions } from "../../src/index.ts";
import type { Stages } from "./stages.ts";

export interface RequestOptions extends AbortOptions {
  /** Is told where the request's time went. */
  stages?: Stages | undefined;
}

export interface EnrolmentRequest {
  token: string;
  /** What stays the same when a worker is started again: its retry uses no further allowance. */
  machine: string;
  worker: string;
}

export interface Enrolment {
  /** Names this connection: what an earlier one says later is not heeded. */
  connection: string;
  definitionId: string;
  /** Whether the worker's definition was made for it. */
  created: boolean;
}

export interface Step {
  runId: string;
  method: string;
}

export interface Dispatch extends Step {
  leaseId: string;
  worker: string;
}

export interface Resource {
  spec: string;
  name: string;
  attributes: Record<string, unknown>;
}

export interface Gateway extends AsyncDisposable {
  enroll(request: EnrolmentRequest, o?: RequestOptions): Promise<Enrolment>;
  /** A worker that stops taking work, or takes it again. */
  setStatus(worker: string, status: "idle" | "draining", o?: RequestOptions): Promise<void>;
  disconnect(worker: string, connection: string, o?: RequestOptions): Promise<void>;
  /** Leases the worker for a step. */
  dispatch(worker: string, step: Step, o?: RequestOptions): Promise<Dispatch>;
  /** Whether a resource of this spec and name belongs to the run. */
  query(runId: string, spec: string, name: string, o?: RequestOptions): Promise<boolean>;
  writeResource(dispatch: Dispatch, resource: Resource, o?: RequestOptions): Promise<void>;
  complete(dispatch: Dispatch, o?: RequestOptions): Promise<void>;
}

/** The request was understood, and is refused: asking again will not help. */
export class RefusedError extends Error {
  override name = "RefusedError";
}

/** What the index and its worker say to each other. */
import type { ExamineOptions } from "../scan/examine.ts";
import type { AppliedPlace } from "./engine.ts";
import type { PendingPut } from "./store.ts";
import type { SweepTarget } from "./sweep.ts";

export interface WorkerData {
  /** The environment's directory. */
  path: string;
  examine: ExamineOptions;
  /** See gate.ts: the worker is inside while it is in a transaction or opens its store. */
  gate: SharedArrayBuffer;
}

export type WorkerRequest =
  | { id: number; kind: "commit"; puts: PendingPut[] }
  | { id: number; kind: "sweep"; target: SweepTarget }
  | { id: number; kind: "apply"; places: readonly AppliedPlace[] }
  /** Before the thread ends: LMDB must not be left open by it. */
  | { id: number; kind: "close" }
  | { id: number; kind: "abort" };

/** What of an error is left between threads: its class and its fields are not. */
export interface WorkerError {
  message: string;
  /** Of a DefinitionReadError. */
  path?: string | undefined;
  errno?: string | undefined;
  code?: string | undefined;
}

/** `id` 0: ready. */
export type WorkerReply =
  | { id: number; result: unknown }
  | { id: number; error: WorkerError }
  | { id: number; progress: { files: number; read: number } };

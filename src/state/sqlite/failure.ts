/** What SQLite's errors mean here. Node gives the result code; Deno often the message alone. */
import { dirname } from "node:path";
import {
  LifecycleMismatchError,
  SchemaVersionError,
  StateStoreBusyError,
  StateStoreCorruptError,
  StateStoreUnavailableError,
  StorageFullError,
} from "../../errors.ts";
import { isDiskFull } from "../../ffi/file-system.ts";
import { DamageError } from "./checks.ts";

export type FailureKind = "busy" | "full" | "corrupt" | "io" | "other";

/** A failure in a form that crosses threads. */
export interface Failure {
  readonly kind: FailureKind;
  readonly message: string;
  /** For a typed error of this library that was thrown beyond the thread: how to throw it again. */
  readonly typed?: { readonly name: string; readonly args: readonly unknown[] };
}

/** Primary result codes: https://sqlite.org/rescode.html. */
const KINDS: ReadonlyMap<number, FailureKind> = new Map([
  [5, "busy"],
  [6, "busy"],
  [7, "io"],
  [8, "io"],
  [10, "io"],
  [11, "corrupt"],
  [13, "full"],
  [14, "io"],
  [15, "busy"], // SQLITE_PROTOCOL: the race for WAL locks was lost many times over.
  [26, "corrupt"],
]);

const MESSAGES: readonly (readonly [string, FailureKind])[] = [
  ["database is locked", "busy"],
  ["database table is locked", "busy"],
  ["locking protocol", "busy"],
  ["database or disk is full", "full"],
  ["database disk image is malformed", "corrupt"],
  ["file is not a database", "corrupt"],
  ["malformed database schema", "corrupt"],
  // Of our own statements, against a schema that is not what it was.
  ["no such column", "corrupt"],
  ["no such table", "corrupt"],
  ["has no column named", "corrupt"],
  ["disk I/O error", "io"],
  ["unable to open database file", "io"],
  ["attempt to write a readonly database", "io"],
  ["out of memory", "io"],
];

/** A typed error that keeps its class and fields on its way through a thread boundary. */
export class TypedFailure extends Error {
  readonly typed: NonNullable<Failure["typed"]>;

  constructor(name: keyof typeof TYPED, ...args: readonly unknown[]) {
    super(name);
    this.typed = { name, args };
  }
}

const TYPED = {
  LifecycleMismatchError: (message: string) => new LifecycleMismatchError(message),
  SchemaVersionError: (path: string, found: number, known: number) => new SchemaVersionError(path, found, known),
  StateStoreCorruptError: (path: string, detail: string) => new StateStoreCorruptError(path, detail),
  StateStoreUnavailableError: (path: string, why: string) => new StateStoreUnavailableError(path, why),
} as const;

export function failureOf(error: unknown, path: string): Failure {
  if (error instanceof TypedFailure) return { kind: "other", message: error.message, typed: error.typed };
  const { message, errcode } = error as { message?: string; errcode?: number };
  const text = message ?? String(error);
  if (error instanceof DamageError || isOutOfRange(error) || error instanceof SyntaxError) {
    return { kind: "corrupt", message: text };
  }
  const kind =
    (errcode === undefined ? undefined : KINDS.get(errcode & 0xff)) ??
    MESSAGES.find(([part]) => text.includes(part))?.[1] ??
    "other";
  // On a full disk the shared-memory file cannot grow either, which SQLite calls an I/O error.
  return { kind: kind === "io" && isDiskFull(dirname(path)) ? "full" : kind, message: text };
}

export function toError(failure: Failure, path: string, waitedMs = 0): Error {
  if (failure.typed !== undefined) {
    const make = TYPED[failure.typed.name as keyof typeof TYPED] as (...args: readonly unknown[]) => Error;
    return make(...failure.typed.args);
  }
  const cause = new Error(failure.message);
  switch (failure.kind) {
    case "busy":
      return new StateStoreBusyError(path, waitedMs, { cause });
    case "full":
      return new StorageFullError(path, { cause });
    case "corrupt":
      return new StateStoreCorruptError(path, failure.message, { cause });
    default:
      return new StateStoreUnavailableError(path, `${failure.message}. Nothing of this call was written`, { cause });
  }
}

/** An integer that no healthy row of ours holds. */
function isOutOfRange(error: unknown): boolean {
  return (error as { code?: string }).code === "ERR_OUT_OF_RANGE";
}

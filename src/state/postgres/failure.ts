/** What the driver and the database say when something fails, and the typed errors that become of it. */
import {
  StateStoreBusyError,
  StateStoreCorruptError,
  StateStoreUnavailableError,
  StorageFullError,
  TussockError,
} from "../../errors.ts";
import { DamageError } from "../row.ts";

/**
 * `refused`: the statement never began, and another try may do. `lost`: the connection went while it ran. `conflict`: it was
 * undone for the sake of another transaction. `busy`: it was undone because it waited too long. The others: it was undone,
 * or never began, and another try would end the same way.
 */
export type FailureKind = "refused" | "lost" | "conflict" | "busy" | "full" | "corrupt" | "other";

/** Of the driver, while it connects: nothing was sent. */
const REFUSED = new Set([
  "ECONNREFUSED",
  "ENOENT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EAI_AGAIN",
  "CONNECT_TIMEOUT",
  "EMFILE",
]);
/** Of the system, for any socket: refused when it happened while connecting. */
const LOST = new Set(["ECONNRESET", "EPIPE", "ETIMEDOUT", "ECONNABORTED", "CONNECTION_CLOSED", "CONNECTION_DESTROYED"]);

/** Of the database: https://www.postgresql.org/docs/current/errcodes-appendix.html; the first two characters are the class. */
const KINDS: ReadonlyMap<string, FailureKind> = new Map<string, FailureKind>([
  ["40001", "conflict"], // serialization_failure
  ["40P01", "conflict"], // deadlock_detected
  ["53100", "full"], // disk_full
  ["53300", "refused"], // too_many_connections
  ["55P03", "busy"], // lock_not_available
  ["57014", "busy"], // query_canceled: by statement_timeout, or by an operator
  ["57P01", "lost"], // admin_shutdown
  ["57P02", "lost"], // crash_shutdown
  ["57P03", "refused"], // cannot_connect_now: it is starting, or shutting down
  ["57P05", "lost"], // idle_session_timeout
  ["XX001", "corrupt"], // data_corrupted
  ["XX002", "corrupt"], // index_corrupted
  ["TK001", "corrupt"], // raised by our own functions
  // Of our own statements, against tables that are not what they were.
  ["42P01", "corrupt"],
  ["42703", "corrupt"],
  ["42883", "corrupt"],
  ["3F000", "corrupt"],
]);

export function kindOf(error: unknown): FailureKind {
  if (error instanceof DamageError) return "corrupt";
  const { code, syscall } = error as { code?: unknown; syscall?: unknown };
  if (typeof code !== "string") return "other";
  if (REFUSED.has(code) || (LOST.has(code) && syscall === "connect")) return "refused";
  if (LOST.has(code)) return "lost";
  return KINDS.get(code) ?? (code.startsWith("08") ? "lost" : "other");
}

/** The code that the database gave, if it was the database. */
export function codeOf(error: unknown): string | undefined {
  const { code } = error as { code?: unknown };
  return typeof code === "string" ? code : undefined;
}

/** A typed error for what did not happen. */
export function toError(error: unknown, place: string, waitedMs: number): Error {
  if (error instanceof TussockError) return error;
  const cause = causeOf(error);
  const why = `${cause.message}. Nothing of this call was written`;
  switch (kindOf(error)) {
    case "conflict":
    case "busy":
      return new StateStoreBusyError(place, waitedMs, { cause });
    case "full":
      return new StorageFullError(place, { cause });
    case "corrupt": {
      const nextStep = "restore a backup, or mend the tables with the tools of PostgreSQL";
      return new StateStoreCorruptError(place, cause.message, { cause, nextStep });
    }
    default:
      return new StateStoreUnavailableError(place, why, { cause });
  }
}

/** The message and the code, and none of the statement, its parameters or the options of the connection. */
export function causeOf(error: unknown): Error {
  const { message, code } = error as { message?: unknown; code?: unknown };
  const text = typeof message === "string" && message !== "" ? message : String(code ?? error);
  return Object.assign(new Error(text), typeof code === "string" ? { code } : {});
}

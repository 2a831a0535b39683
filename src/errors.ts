/**
 * Every error that tussock throws on purpose. Each is a {@link TussockError} with a stable `code`, carries the path, key
 * or record concerned, keeps the underlying failure as `cause`, and says the next step in its message.
 */

/** Base of all errors of this library. `code` is stable across releases; messages are for people and may change. */
export abstract class TussockError extends Error {
  abstract readonly code: string;

  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** What can be wrong with a definition file. The first six keep a file from being found; the last three do not. */
export type ProblemKind =
  | "syntax"
  | "invalid"
  | "too-large"
  | "outside-boundary"
  | "dangling-symlink"
  | "bad-filename"
  | "duplicate-name"
  | "duplicate-id"
  | "mismatched";

/** Something that is wrong with one definition file. `line` and `column` count from 1. */
export interface DefinitionProblem {
  path: string;
  root: string;
  kind: ProblemKind;
  message: string;
  line?: number;
  column?: number;
}

/** `{name}.yaml` is there but cannot be read as a definition: mend or remove the file, then ask again. */
export class DefinitionProblemError extends TussockError {
  readonly code = "DEFINITION_PROBLEM";
  readonly problem: DefinitionProblem;
  readonly path: string;

  constructor(problem: DefinitionProblem, options?: { cause?: unknown }) {
    const place = problem.line === undefined ? "" : `:${problem.line}:${problem.column ?? 1}`;
    super(
      `${problem.path}${place}: ${problem.kind}: ${problem.message}. Mend or remove the file, then retry.`,
      options,
    );
    this.problem = problem;
    this.path = problem.path;
  }
}

/** The disk, not the file, is at fault (EMFILE, EACCES, EIO …): nothing can be said about the definition. */
export class DefinitionReadError extends TussockError {
  readonly code = "DEFINITION_READ";
  readonly path: string;
  /** The system's error code, such as `EACCES`; `NotCapable (--allow-read)` where Deno refuses without that flag. */
  readonly errno: string;

  constructor(path: string, errno: string, options?: { cause?: unknown }) {
    super(`cannot read ${path}: ${errno}. ${nextStepFor(errno)}, then retry.`, options);
    this.path = path;
    this.errno = errno;
  }
}

/** The disk refused a write (EACCES, EROFS, EIO …). What was not in place before still is not, unless the message says so. */
export class DefinitionWriteError extends TussockError {
  readonly code = "DEFINITION_WRITE";
  readonly path: string;
  /** The system's error code, such as `EROFS`; `NotCapable (--allow-write)` where Deno refuses without that flag. */
  readonly errno: string;

  constructor(path: string, errno: string, options?: { cause?: unknown; outcome?: string }) {
    const outcome = options?.outcome ?? "Nothing was changed";
    super(`cannot write ${path}: ${errno}. ${outcome}. ${nextStepFor(errno)}, then retry.`, options);
    this.path = path;
    this.errno = errno;
  }
}

/** A definition with this name and another id exists: choose another name, or load and change the existing one. */
export class DefinitionConflictError extends TussockError {
  readonly code = "DEFINITION_CONFLICT";
  readonly path: string;
  readonly existing: { id: string; name: string; type: string };

  constructor(path: string, existing: { id: string; name: string; type: string }, message: string) {
    super(message);
    this.path = path;
    this.existing = existing;
  }
}

/** The name exists under another type. */
export class DefinitionTypeError extends TussockError {
  readonly code = "DEFINITION_TYPE";
  readonly path: string;
  readonly wanted: string;
  readonly actual: string;

  constructor(name: string, wanted: string, actual: string, path: string) {
    super(`"${name}" exists as ${actual} (${path}), not as ${wanted}. Use that type, or choose another name.`);
    this.path = path;
    this.wanted = wanted;
    this.actual = actual;
  }
}

/** A type, name or id would lead outside its root. Nothing was written. */
export class UnsafePathError extends TussockError {
  readonly code = "UNSAFE_PATH";
  readonly path: string;

  constructor(path: string, why: string) {
    super(`refusing ${JSON.stringify(path)}: ${why}. Use a type and name that stay inside the root.`);
    this.path = path;
  }
}

/** Who holds a per-name lock, as far as its file tells. */
export interface NameLockHolder {
  holder?: string;
  hostname?: string;
  pid?: number;
  acquiredAt?: string;
  instanceId?: string;
}

/** The per-name lock was not free in time. `holder` is what its file said last, or null when the holder is unknown. */
export class NameLockTimeoutError extends TussockError {
  readonly code = "NAME_LOCK_TIMEOUT";
  readonly path: string;
  readonly holder: NameLockHolder | null;

  constructor(path: string, waitedMs: number, holder: NameLockHolder | null) {
    const who = holder === null ? "an unknown holder" : (holder.holder ?? `pid ${holder.pid ?? "?"}`);
    super(`${path} is still held by ${who} after ${Math.round(waitedMs)} ms. Retry, or raise maxWaitMs.`);
    this.path = path;
    this.holder = holder;
  }
}

/** Somebody took the per-name lock over while it was held. Nothing may be written under it any more. */
export class NameLockLostError extends TussockError {
  readonly code = "NAME_LOCK_LOST";
  readonly path: string;
  readonly holder: NameLockHolder | null;

  constructor(path: string, holder: NameLockHolder | null) {
    const who = holder === null ? "somebody" : (holder.holder ?? `pid ${holder.pid ?? "?"}`);
    super(`${path} was taken over by ${who} while it was held. Look the name up again, then retry.`);
    this.path = path;
    this.holder = holder;
  }
}

/** `insert` of an id that exists. `record` is the record as it is. */
export class RecordExistsError<R = unknown> extends TussockError {
  readonly code = "RECORD_EXISTS";
  readonly id: string;
  readonly record: R;

  constructor(index: string, id: string, record: R) {
    super(`${index}: a record "${id}" exists. Use put() or update() to change it, or choose another id.`);
    this.id = id;
    this.record = record;
  }
}

export class RecordNotFoundError extends TussockError {
  readonly code = "RECORD_NOT_FOUND";
  readonly id: string;

  constructor(index: string, id: string) {
    super(`${index}: there is no record "${id}". It was never inserted, or has been pruned.`);
    this.id = id;
  }
}

/** The lifecycle, `from` or `revision` forbids the change. `record` is the record as it is; nothing was changed. */
export class TransitionError<R = unknown> extends TussockError {
  readonly code = "TRANSITION";
  readonly id: string;
  readonly record: R;

  constructor(id: string, record: R, message: string) {
    super(message);
    this.id = id;
    this.record = record;
  }
}

/** The lifecycle given differs from the one that is stored, or a state is not in it. */
export class LifecycleMismatchError extends TussockError {
  readonly code = "LIFECYCLE_MISMATCH";
}

/** An id, key or name is over its documented length in bytes. */
export class KeyTooLongError extends TussockError {
  readonly code = "KEY_TOO_LONG";
  readonly key: string;
  readonly limit: number;

  constructor(what: string, key: string, bytes: number, limit: number) {
    super(`${what} ${JSON.stringify(key.slice(0, 40))}… has ${bytes} bytes; at most ${limit} are allowed. Shorten it.`);
    this.key = key;
    this.limit = limit;
  }
}

/** Another process held the store locked beyond the deadline. Nothing was written. */
export class StateStoreBusyError extends TussockError {
  readonly code = "STATE_STORE_BUSY";
  readonly path: string;

  constructor(path: string, waitedMs: number, options?: { cause?: unknown }) {
    super(`${path} is locked by another process and was not free within ${Math.round(waitedMs)} ms. Retry.`, options);
    this.path = path;
  }
}

/** The store's file is damaged. It is left as it is. */
export class StateStoreCorruptError extends TussockError {
  readonly code = "STATE_STORE_CORRUPT";
  readonly path: string;

  constructor(path: string, detail: string, options?: { cause?: unknown; nextStep?: string }) {
    const nextStep =
      options?.nextStep ??
      `restore a backup, or salvage it with "sqlite3 ${path} .recover", or move it aside and import again`;
    super(`${path} is damaged: ${detail}. It was left as it is: ${nextStep}.`, options);
    this.path = path;
  }
}

/** The store was written by a newer version of this library. It was left as it is. */
export class SchemaVersionError extends TussockError {
  readonly code = "SCHEMA_VERSION";
  readonly path: string;
  readonly found: number;
  readonly known: number;

  constructor(path: string, found: number, known: number) {
    super(
      `${path} has schema ${found}, written by a newer version; this version knows up to ${known}. Upgrade this program.`,
    );
    this.path = path;
    this.found = found;
    this.known = known;
  }
}

/** The store cannot be opened or written for a reason of the system's (permission, I/O error, file removed meanwhile). */
export class StateStoreUnavailableError extends TussockError {
  readonly code = "STATE_STORE_UNAVAILABLE";
  readonly path: string;

  constructor(path: string, why: string, options?: { cause?: unknown }) {
    super(`the state store ${path} is unavailable: ${why}`, options);
    this.path = path;
  }
}

/** A watcher fell so far behind that changes it has not seen are gone. List what is of interest, then watch again. */
export class WatchLaggedError extends TussockError {
  readonly code = "WATCH_LAGGED";

  constructor(index: string, kept: number) {
    super(
      `${index}: the watcher is more than ${kept} changes behind, and the oldest of them are gone. List again, then watch again.`,
    );
  }
}

/** The disk is full. What was not acknowledged was not written; free space and retry. */
export class StorageFullError extends TussockError {
  readonly code = "STORAGE_FULL";
  readonly path: string;

  constructor(path: string, options?: { cause?: unknown }) {
    super(`no space left to write ${path}. Nothing of this call was written; free space and retry.`, options);
    this.path = path;
  }
}

/**
 * A write did not finish by its deadline, or the connection to the store was lost under it. Its outcome is unknown: read the
 * record's revision to find out.
 */
export class WriteDeadlineError extends TussockError {
  readonly code = "WRITE_DEADLINE";
  readonly path: string;
  readonly deadlineMs: number;

  /** `cause`: what cut it short before its deadline; then `deadlineMs` is how long it took until then. */
  constructor(path: string, deadlineMs: number, options?: { cause?: unknown }) {
    const what =
      options?.cause === undefined
        ? `did not finish within ${deadlineMs} ms`
        : `was cut short after ${deadlineMs} ms by the loss of its connection`;
    super(
      `a write to ${path} ${what}; whether it took effect is unknown. Read the record's revision before retrying.`,
      options,
    );
    this.path = path;
    this.deadlineMs = deadlineMs;
  }
}

/** The definition index cannot be opened or used. The files themselves are untouched. */
export class IndexUnavailableError extends TussockError {
  readonly code = "INDEX_UNAVAILABLE";
  readonly path: string;

  constructor(path: string, why: string, options?: { cause?: unknown }) {
    super(`the index at ${path} is unavailable: ${why}`, options);
    this.path = path;
  }
}

/** The directory lies on a file system that cannot hold this store safely (NFS, SMB, FUSE …). */
export class UnsupportedFileSystemError extends TussockError {
  readonly code = "UNSUPPORTED_FILE_SYSTEM";
  readonly path: string;
  readonly fileSystem: string;

  constructor(path: string, fileSystem: string, nextStep: string) {
    super(`${path} lies on ${fileSystem}, where file locks and memory maps are not safe. ${nextStep}`);
    this.path = path;
    this.fileSystem = fileSystem;
  }
}

/** `run` was called inside a running transition of the same queue, which could deadlock. */
export class NestedTransitionError extends TussockError {
  readonly code = "NESTED_TRANSITION";
  readonly keys: readonly string[];

  constructor(keys: readonly string[]) {
    super(
      `run(${JSON.stringify(keys)}) inside a running transition of the same queue. Ask for all keys in the outer run().`,
    );
    this.keys = keys;
  }
}

/** The line for this key is at its bound; the transition was not accepted. */
export class QueueFullError extends TussockError {
  readonly code = "QUEUE_FULL";
  readonly key: string;
  readonly limit: number;

  constructor(key: string, limit: number) {
    super(`the line for "${key}" already holds ${limit} waiting transitions. Retry later, or raise maxPendingPerKey.`);
    this.key = key;
    this.limit = limit;
  }
}

/** An argument is not usable. The message names it and the value given. */
export class InvalidArgumentError extends TussockError {
  readonly code = "INVALID_ARGUMENT";
  readonly argument: string;

  constructor(argument: string, value: unknown, expected: string) {
    super(`${argument}: expected ${expected}, got ${describe(value)}`);
    this.argument = argument;
  }
}

/** The object was closed. Open it again to go on. */
export class ClosedError extends TussockError {
  readonly code = "CLOSED";

  constructor(what: string) {
    super(`${what} is closed. Open it again to go on.`);
  }
}

function nextStepFor(errno: string): string {
  const refused = /^NotCapable \((.*)\)$/.exec(errno);
  return refused === null ? "Check the file's permissions and the disk" : `Run the program with ${refused[1]}`;
}

function describe(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.length > 80 ? `${value.slice(0, 80)}…` : value);
  if (value === null || typeof value !== "object") return String(value);
  return Array.isArray(value) ? `an array of ${value.length}` : "an object";
}

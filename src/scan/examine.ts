/** Examines one file: what lies at a path, and whether it is a definition. Synchronous; a few microseconds a file. */
import { closeSync, constants, openSync, readSync, realpathSync } from "node:fs";
import { DefinitionReadError, type ProblemKind } from "../errors.ts";
import { errnoOf, missingPermission } from "../permissions.ts";
import { toFaithfulJson } from "./json.ts";
import { asReadError } from "./list.ts";
import type { DefinitionKeys } from "./model.ts";
import { asDocumentError, type Parse, parseYaml } from "./parse.ts";
import { recognize } from "./recognize.ts";
import { isRacyStamp, readStamp, readStampOfOpen, STAMP_BYTES, stampSize, wallClockNs } from "./stamp.ts";

export type { Parse } from "./parse.ts";

export interface ExamineOptions {
  keys: DefinitionKeys;
  /** Replaces the YAML parser for what the recognizer leaves. */
  parse?: Parse | undefined;
  /** Leave to the caller what the recognizer leaves: on a thread that the caller's parser cannot be brought to. */
  deferParsing?: boolean | undefined;
  /** A larger file is a problem of kind `too-large`. */
  maxFileBytes: number;
  /** Real path of the directory that no symbolic link may lead out of; null for no bound. */
  boundary: string | null;
  /** Whether the documents are wanted. */
  documents: boolean;
  /** Documents that take more bytes as JSON are not kept. */
  maxDocumentBytes: number;
}

interface Facts {
  /**
   * Of what the path leads to, taken before it was read; of the link itself where that leads nowhere. A content that is
   * newer than its stamp is found out at the next comparison; the other way round it never would be.
   */
  stamp: Uint8Array;
  symlink: boolean;
  /** The stamp may stay the same over a change: see {@link isRacyStamp}. */
  racy: boolean;
}

export interface ExaminedEntry extends Facts {
  kind: "entry";
  id: string;
  name: string;
  declaredType: string | null;
  /** The document, when it was asked for, survives a round trip through JSON and is small enough. */
  documentJson: string | null;
  /** The document as parsed, when it was asked for and `documentJson` could not hold it. */
  document?: unknown;
}

export interface ExaminedProblem extends Facts {
  kind: "problem";
  problemKind: ProblemKind;
  message: string;
  /** From 1; 0 where unknown. */
  line: number;
  column: number;
}

export type Examined =
  | { kind: "absent" }
  | { kind: "directory" }
  /** Only with `deferParsing`. */
  | ({ kind: "deferred" } & Facts)
  | ExaminedEntry
  | ExaminedProblem;

/** The document of an entry that was examined with `documents`. */
export function documentOf(entry: ExaminedEntry): unknown {
  return entry.documentJson === null ? entry.document : JSON.parse(entry.documentJson);
}

/** A file may grow, shrink or be replaced while it is read. After so many attempts, what was read stands. */
const MAX_ATTEMPTS = 5;

/**
 * Looks at `path` and reads it where it is a file. `isRegular`: it was just seen to be one, which saves looking again; nothing
 * else is ever opened, because a FIFO has a writer who notices, and a device may do anything.
 *
 * @throws DefinitionReadError when the disk or the process is at fault (EACCES, EMFILE, EIO …), not the file
 */
export function examineFile(path: string, options: ExamineOptions, isRegular = false): Examined {
  const facts: Facts = { stamp: new Uint8Array(STAMP_BYTES), symlink: false, racy: false };
  for (let attempt = isRegular ? 0 : 1; ; attempt++) {
    let real = path;
    if (attempt > 0) {
      const found = approach(path, facts, options);
      if (typeof found !== "string") return found;
      real = found;
    }
    const length = readWhole(real, facts, options.maxFileBytes);
    if (length === GONE && !facts.symlink) return { kind: "absent" };
    if (length === TOO_LARGE) {
      const size = stampSize(facts.stamp, 0);
      return problem(facts, "too-large", `${size} bytes, where at most ${options.maxFileBytes} are read`);
    }
    if (length >= 0 && (length === stampSize(facts.stamp, 0) || attempt === MAX_ATTEMPTS)) {
      return judge(length, path, facts, options);
    }
    if (attempt === MAX_ATTEMPTS) throw new DefinitionReadError(path, "EBUSY");
  }
}

/** Looks without opening: the path to open, links resolved; or the answer, when there is nothing to open. */
function approach(path: string, facts: Facts, options: ExamineOptions): string | Examined {
  let kind = readStamp(path, false, facts.stamp, 0);
  let real = path;
  facts.symlink = kind === "symlink";
  if (facts.symlink) {
    kind = readStamp(path, true, facts.stamp, 0);
    const target = kind === "absent" ? null : resolveLink(path);
    if (target === null) return problem(facts, "dangling-symlink", "the symbolic link leads nowhere");
    if (!isInside(target, options.boundary)) {
      return problem(facts, "outside-boundary", `the symbolic link leads out of ${options.boundary}`);
    }
    real = target;
  }
  if (kind === "absent" || kind === "directory") return { kind };
  return kind === "file" ? real : problem(facts, "invalid", "not a regular file");
}

function problem(facts: Facts, problemKind: ProblemKind, message: string, line = 0, column = 0): ExaminedProblem {
  return { kind: "problem", problemKind, message, line, column, ...facts };
}

// ── the way to the file ─────────────────────────────────────────────────────────────────────────────────────────

/** Null when the link has come to lead nowhere. */
function resolveLink(path: string): string | null {
  try {
    return realpathSync.native(path);
  } catch (error) {
    const code = errnoOf(error);
    if (code === "ENOENT" || code === "ENOTDIR" || code === "ELOOP") return null;
    throw new DefinitionReadError(path, code, { cause: error });
  }
}

/** By their names alone; no boundary holds everything. */
export function isInside(real: string, boundary: string | null): boolean {
  return boundary === null || real === boundary || real.startsWith(boundary.endsWith("/") ? boundary : `${boundary}/`);
}

// ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Without blocking on a FIFO, or following a link, that has taken the file's place since it was looked at. */
const OPEN_FLAGS = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0);

const GONE = -1;
/** Something that is not a file has taken its place. */
const REPLACED = -2;
const TOO_LARGE = -3;

/** Files up to this size share one buffer for ever. */
const SHARED_BYTES = 64 * 1024;
let buffer = Buffer.allocUnsafeSlow(SHARED_BYTES);

/**
 * Stamps the open file and reads it into `buffer`; its length, or one of the above. The stamp is of the very file that is
 * read, and older than what is read: so a change in between, or any later one, makes the next comparison fail.
 */
function readWhole(path: string, facts: Facts, maxBytes: number): number {
  let fd: number;
  try {
    fd = openSync(path, OPEN_FLAGS);
  } catch (error) {
    const code = errnoOf(error);
    if (code === "ENOENT" || code === "ENOTDIR" || code === "ENAMETOOLONG") return GONE;
    if (code === "ELOOP" || code === "ENXIO") return REPLACED;
    throw new DefinitionReadError(path, code, { cause: error });
  }
  try {
    const stampedAt = wallClockNs();
    if (readStampOfOpen(fd, path, facts.stamp, 0) !== "file") return REPLACED;
    facts.racy = isRacyStamp(facts.stamp, 0, stampedAt);
    const size = stampSize(facts.stamp, 0);
    return size > maxBytes ? TOO_LARGE : readUpTo(fd, size);
  } catch (error) {
    throw asReadError(path, error);
  } finally {
    closeSync(fd);
  }
}

/** Reads `size` bytes; fewer when the file has shrunk. */
function readUpTo(fd: number, size: number): number {
  if (size > buffer.length) buffer = Buffer.allocUnsafeSlow(size);
  else if (buffer.length > SHARED_BYTES && size <= SHARED_BYTES) buffer = Buffer.allocUnsafeSlow(SHARED_BYTES);
  let length = 0;
  while (length < size) {
    const count = readSync(fd, buffer, length, size - length, null);
    if (count === 0) break;
    length += count;
  }
  return length;
}

// ── judging ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Bytes that are no UTF-8 become U+FFFD, as in every reader of text files; a byte order mark goes. */
const decoder = new TextDecoder();

/** Judges the first `length` bytes of `buffer`. */
function judge(length: number, path: string, facts: Facts, options: ExamineOptions): Examined {
  const { keys, documents, maxDocumentBytes } = options;
  const recognized = recognize(buffer, length, keys);
  if (recognized !== null) {
    const { id, name, declaredType } = recognized;
    const kept = documents && recognized.jsonBytes <= maxDocumentBytes;
    const entry: ExaminedEntry = {
      kind: "entry",
      id,
      name,
      declaredType,
      documentJson: kept ? recognized.json() : null,
      ...facts,
    };
    if (documents && !kept) entry.document = JSON.parse(recognized.json());
    return entry;
  }
  if (options.deferParsing) return { kind: "deferred", ...facts };
  return judgeParsed(decoder.decode(buffer.subarray(0, length)), path, facts, options);
}

function judgeParsed(text: string, path: string, facts: Facts, options: ExamineOptions): Examined {
  const { keys, documents, maxDocumentBytes, parse } = options;
  let document: unknown;
  try {
    document = parse === undefined ? parseYaml(text) : parse(text, path);
  } catch (thrown) {
    // That the parser may not read a variable of its own is no fault of the file's.
    if (missingPermission(thrown) !== null) throw new DefinitionReadError(path, errnoOf(thrown), { cause: thrown });
    const { message, line, column } = asDocumentError(thrown);
    return problem(facts, "syntax", message, line, column);
  }
  if (typeof document !== "object" || document === null || Array.isArray(document)) {
    return problem(facts, "invalid", `the document is ${describe(document)}, not a mapping`);
  }
  const id = ownField(document, keys.id);
  const name = ownField(document, keys.name);
  const fault = faultOf(keys.id, id) ?? faultOf(keys.name, name);
  if (fault !== null) return problem(facts, "invalid", fault);
  const type = ownField(document, keys.type);
  const entry: ExaminedEntry = {
    kind: "entry",
    id: id as string,
    name: name as string,
    declaredType: typeof type === "string" ? type : null,
    documentJson: documents ? toFaithfulJson(document, maxDocumentBytes) : null,
    ...facts,
  };
  if (documents && entry.documentJson === null) entry.document = document;
  return entry;
}

/** Never from the prototype, which a document may have been made to replace. */
function ownField(document: object, key: string): unknown {
  return Object.hasOwn(document, key) ? (document as Record<string, unknown>)[key] : undefined;
}

function faultOf(key: string, value: unknown): string | null {
  if (value === undefined) return `it has no "${key}"`;
  if (typeof value !== "string") return `its "${key}" is ${describe(value)}, not a string; quote it`;
  if (value === "") return `its "${key}" is empty`;
  if (value.includes("\0")) return `its "${key}" holds a NUL`;
  // Half of a surrogate pair has no UTF-8: two such names could not be told apart on disk.
  return value.isWellFormed() ? null : `its "${key}" holds half of a surrogate pair`;
}

function describe(value: unknown): string {
  if (value === null || value === undefined) return "empty";
  if (Array.isArray(value)) return "a list";
  return typeof value === "object" ? "a mapping" : `a ${typeof value}`;
}

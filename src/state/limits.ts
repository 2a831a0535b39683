/** What is let in at the door: names, ids and keys of a bounded length, and data that JSON carries whole. */
import { InvalidArgumentError, KeyTooLongError } from "../errors.ts";

/** Bytes of UTF-8 that a record's id may have. */
export const MAX_ID_BYTES = 512;
/** Bytes of UTF-8 that a key of a secondary index may have. */
export const MAX_KEY_BYTES = 512;
/** Bytes of UTF-8 that the name of an index, of a secondary index or of an import may have. */
export const MAX_NAME_BYTES = 128;
/** Bytes of UTF-8 that an origin may have: a long path. */
export const MAX_ORIGIN_BYTES = 4_096;
/** Bytes of UTF-8 that a watermark may have. */
export const MAX_WATERMARK_BYTES = 65_536;
/** Keys that one secondary index may give one record. */
export const MAX_KEYS = 64;
/** Characters of JSON that one record's data may have. */
export const MAX_DATA_LENGTH = 1_048_576;
/** Levels of nesting in a record's data. What holds itself has more. */
const MAX_DEPTH = 200;
/** Characters of the path that an error names: one through an object that holds itself would be of hundreds. */
const MAX_SHOWN = 80;

export function checkId(id: unknown): string {
  return checkText("id", id, MAX_ID_BYTES);
}

/** A key may be empty: it is what a function has made of the data. */
export function checkKey(key: unknown): string {
  return key === "" ? key : checkText("key", key, MAX_KEY_BYTES);
}

/** Whether {@link checkKey} lets it through. */
export function isKey(key: unknown): key is string {
  return typeof key === "string" && !UNSAFE.test(key) && Buffer.byteLength(key) <= MAX_KEY_BYTES;
}

export function checkName(argument: string, name: unknown): string {
  return checkText(argument, name, MAX_NAME_BYTES);
}

/** NUL, and half a surrogate pair. */
const UNSAFE = /[\0\p{Surrogate}]/u;

/** Not empty, and the same after a way through UTF-8 and C strings. */
export function checkText(argument: string, value: unknown, limit: number): string {
  if (typeof value !== "string" || value === "") throw new InvalidArgumentError(argument, value, "a non-empty string");
  if (UNSAFE.test(value)) {
    throw new InvalidArgumentError(argument, value, "text without NUL and without half a surrogate pair");
  }
  // No string has more than three bytes of UTF-8 per unit: most need not be measured.
  if (value.length * 3 > limit) {
    const bytes = Buffer.byteLength(value);
    if (bytes > limit) throw new KeyTooLongError(argument, value, bytes, limit);
  }
  return value;
}

/** @throws InvalidArgumentError unless it is a whole number of at least `least`, within what a double holds exactly. */
export function checkInteger(argument: string, value: unknown, least = 0): number {
  if (!Number.isSafeInteger(value) || (value as number) < least) {
    throw new InvalidArgumentError(argument, value, `a whole number of at least ${least}`);
  }
  return value as number;
}

/** What a `Date` holds, either side of 1970: listings have their ends beyond. */
const FURTHEST_TIME = 8.64e15;

/** An end of a range of times: any whole number. */
export function checkBound(argument: string, value: unknown): number {
  return checkInteger(argument, value, Number.MIN_SAFE_INTEGER);
}

/** A point in time, before 1970 too. */
export function checkTime(argument: string, value: unknown): number {
  if (!Number.isSafeInteger(value) || Math.abs(value as number) > FURTHEST_TIME)
    throw new InvalidArgumentError(argument, value, `whole milliseconds since 1970, within ±${FURTHEST_TIME}`);
  return value as number;
}

/**
 * The data as JSON, from which `JSON.parse` makes what was given. @throws InvalidArgumentError for anything else.
 * `unchecked` is the part of it that did not come from JSON a moment ago; default: all.
 */
export function toJson(data: unknown, unchecked: unknown = data): string {
  const flaw = flawOf(unchecked, 0);
  if (flaw !== null) {
    const path = flaw.path.length > MAX_SHOWN ? `${flaw.path.slice(0, MAX_SHOWN)}…` : flaw.path;
    throw new InvalidArgumentError(`data${path}`, flaw.found, flaw.expected);
  }
  const json = JSON.stringify(data);
  if (json.length > MAX_DATA_LENGTH) {
    throw new InvalidArgumentError("data", `${json.length} characters of JSON`, `at most ${MAX_DATA_LENGTH}`);
  }
  return json;
}

/** A copy, which nobody changes any more. @throws InvalidArgumentError for anything but bytes */
export function checkBytes(data: unknown): Uint8Array {
  if (!(data instanceof Uint8Array)) throw new InvalidArgumentError("data", data, "bytes");
  return Buffer.from(data);
}

/** Where JSON would not carry it, as an accessor within the whole. */
interface Flaw {
  readonly path: string;
  readonly found: string;
  readonly expected: string;
}

function flawOf(value: unknown, depth: number): Flaw | null {
  switch (typeof value) {
    case "string":
    case "boolean":
      return null;
    case "number":
      if (Number.isFinite(value)) return null;
      break;
    case "object":
      if (depth > MAX_DEPTH) return { path: "", found: "more", expected: `at most ${MAX_DEPTH} levels of nesting` };
      if (value === null) return null;
      if (Array.isArray(value)) return flawOfItems(value, depth);
      if (isPlain(value)) return flawOfFields(value, depth);
  }
  const expected = "what JSON carries: null, booleans, finite numbers, strings, arrays, plain objects";
  return { path: "", found: nameOf(value), expected };
}

function flawOfItems(items: readonly unknown[], depth: number): Flaw | null {
  for (let at = 0; at < items.length; at++) {
    const flaw = flawOf(items[at], depth + 1);
    if (flaw !== null) return { ...flaw, path: `[${at}]${flaw.path}` };
  }
  return null;
}

function flawOfFields(object: Record<string, unknown>, depth: number): Flaw | null {
  for (const key of Object.keys(object)) {
    const flaw = flawOf(object[key], depth + 1);
    if (flaw !== null) return { ...flaw, path: `.${key}${flaw.path}` };
  }
  return null;
}

function isPlain(value: object): value is Record<string, unknown> {
  const prototype = Object.getPrototypeOf(value);
  return (
    (prototype === Object.prototype || prototype === null || isForeignPlain(prototype)) &&
    !("toJSON" in value && typeof value.toJSON === "function")
  );
}

/** The `Object.prototype` of another realm (a `vm` context, a test runner's). */
function isForeignPlain(prototype: object): boolean {
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, "hasOwnProperty");
}

/** What kind of value it is, for an error. */
export function nameOf(value: unknown): string {
  if (typeof value === "bigint" || typeof value === "symbol" || typeof value === "function") return typeof value;
  return typeof value === "object" && value !== null ? `a ${value.constructor?.name ?? "object"}` : String(value);
}

/** From a type, a name and an id to a path below a root, and the refusal of everything that would lead out of it. */
import { InvalidArgumentError, KeyTooLongError, UnsafePathError } from "../errors.ts";

/** A type as its users have it: a string, or an object that carries its normalized form. */
export type TypeRef = string | { readonly normalized: string };

/** Lower case; `::`, white space and `.` become `/`; repeated and outer slashes go. */
export function normalizeType(type: TypeRef): string {
  const text = textOf(type);
  if (NORMALIZED.test(text)) return text;
  return text
    .toLowerCase()
    .replace(/::|\s|\./g, "/")
    .replace(/\/{2,}/g, "/")
    .replace(/^\/|\/$/g, "");
}

/** What nearly all types look like; it saves the work for each of them. */
const NORMALIZED = /^[a-z0-9@_-]+(?:\/[a-z0-9@_-]+)*$/;

/**
 * The normalized type, if a directory may be made for it.
 *
 * @throws UnsafePathError for what would lead out of the root if it were taken at its word, although its normalized form
 * would not: a caller who writes `../x` means something else than `x`.
 */
export function writableType(type: TypeRef): string {
  const text = textOf(type);
  refuseEscape("the type", text);
  const normalized = normalizeType(type);
  if (normalized === "") throw new UnsafePathError(text, "the type is empty");
  for (const part of normalized.split("/")) refuseLong("a part of the type", part, MAX_FILENAME_BYTES);
  return normalized;
}

/** @throws UnsafePathError when the name, taken as a path, would lead out of the root. */
export function assertWritableName(name: string): void {
  refuseEscape("the name", name);
}

/** Whether a definition of this name is stored as `{name}.yaml`. All others are stored as `{id}.yaml`. */
export function isFilenameSafe(name: string): boolean {
  return name.length <= 64 && /^[a-z0-9][a-z0-9_-]*$/.test(name);
}

/** `{id}.yaml`. @throws UnsafePathError, KeyTooLongError when that is not the name of one file. */
export function filenameOfId(id: string): string {
  refuseEscape("the id", id);
  if (/[/\\]/.test(id)) throw new UnsafePathError(id, "the id holds a slash, and the file would be called after it");
  refuseLong("id", id, MAX_FILENAME_BYTES - ".yaml".length);
  return `${id}.yaml`;
}

/** Whether {@link filenameOfId} has one for it. */
export function isIdForFilename(id: string): boolean {
  try {
    filenameOfId(id);
    return true;
  } catch {
    return false;
  }
}

const MAX_FILENAME_BYTES = 255;

function textOf(type: TypeRef): string {
  const text: unknown = typeof type === "string" ? type : (type as { normalized?: unknown } | null)?.normalized;
  if (typeof text !== "string")
    throw new InvalidArgumentError("type", type, "a string, or an object with `normalized`");
  return text;
}

function refuseEscape(what: string, text: string): void {
  if (text.includes("\0")) throw new UnsafePathError(text, `${what} holds a NUL`);
  if (/\p{Surrogate}/u.test(text)) throw new UnsafePathError(text, `${what} is not valid Unicode`);
  if (/^[/\\]|^[a-z]:[/\\]/i.test(text)) throw new UnsafePathError(text, `${what} is an absolute path`);
  if (/(^|[/\\])\.\.([/\\]|$)/.test(text)) throw new UnsafePathError(text, `${what} leads upwards`);
}

function refuseLong(what: string, text: string, limit: number): void {
  const bytes = Buffer.byteLength(text);
  if (bytes > limit) throw new KeyTooLongError(what, text, bytes, limit);
}

/** Keys of control-plane records as paths: any text becomes file names that every file system keeps apart. */
import { InvalidArgumentError } from "../errors.ts";
import { checkText } from "./limits.ts";

/** Bytes of UTF-8 that a key may have. */
export const MAX_CONTROL_PLANE_KEY_BYTES = 1_024;

/** @throws InvalidArgumentError, KeyTooLongError */
export function checkControlPlaneKey(key: unknown): string {
  return checkText("key", key, MAX_CONTROL_PLANE_KEY_BYTES);
}

/** Any start of a key, the empty one too. @throws InvalidArgumentError for what no key can start with */
export function checkControlPlanePrefix(prefix: unknown): string {
  if (typeof prefix !== "string" || /[\0\p{Surrogate}]/u.test(prefix)) {
    throw new InvalidArgumentError("prefix", prefix, "text without NUL and without half a surrogate pair");
  }
  return prefix;
}

/** A file name has at most 255 bytes; a longer segment goes on in a directory. */
const PIECE = 200;
/** Ends the name of a record's file, and of no directory: `a` and `a/b` may both be keys. */
const RECORD = "=";
/** Ends the name of a directory that holds the rest of a segment. */
const GOES_ON = "+";
/** Stands for an empty segment: no escape is without its digits. */
const EMPTY = "%";

/** `heartbeats/x` is `heartbeats/x=`. Relative, with `/`. */
export function pathOfKey(key: string): string {
  return `${key.split("/").map(encodeSegment).join("/")}${RECORD}`;
}

/** The directory below which all keys with this prefix lie: that of its whole segments. */
export function directoryOfPrefix(prefix: string): string {
  return prefix.split("/").slice(0, -1).map(encodeSegment).join("/");
}

/**
 * What a directory's name adds to the keys below it, given what the directories above did; null for one that is not
 * ours.
 */
export function enterDirectory(above: string, name: string): string | null {
  if (name.endsWith(GOES_ON)) return decode(above, name.slice(0, -1));
  const key = decode(above, name);
  return key === null ? null : `${key}/`;
}

/** The key of a record's file, given what its directories say; null for a file that is not a record's. */
export function keyOfFile(above: string, name: string): string | null {
  return name.endsWith(RECORD) ? decode(above, name.slice(0, -1)) : null;
}

/** Letters, digits, `-`, `_` and inner `.` stay as they are; everything else is percent-encoded UTF-8. */
function encodeSegment(segment: string): string {
  let path = "";
  let piece = "";
  for (const character of segment) {
    const encoded = piece === "" && character === "." ? "%2E" : encodeCharacter(character);
    if (piece.length + encoded.length > PIECE) {
      path += `${piece}${GOES_ON}/`;
      piece = "";
    }
    piece += encoded;
  }
  return segment === "" ? EMPTY : path + piece;
}

function encodeCharacter(character: string): string {
  if (!/[!~*'()]/.test(character)) return encodeURIComponent(character);
  return `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
}

function decode(above: string, name: string): string | null {
  if (name === EMPTY) return above;
  try {
    return above + decodeURIComponent(name);
  } catch {
    return null;
  }
}

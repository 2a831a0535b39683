/**
 * How names, ids and paths become LMDB keys. LMDB ends at 1,978 bytes a key, file systems do not: what is longer keeps
 * its beginning, so that order and ranges hold, and a hash of the whole; the value then says what it really is.
 */
import { createHash } from "node:crypto";

const LONGEST_TEXT = 1900;
/** Of a text that is too long, this much stands in the key in front of its SHA-256. */
export const LONG_TEXT_KEPT = LONGEST_TEXT - 32;

const TYPE_ID_BYTES = 4;

/** `name` (or id) and the number of its type. NUL, which neither may hold, ends the name, so that all types of one name are a range. */
export function nameKey(name: string, typeId: number): Buffer {
  if (name.length * 3 <= LONGEST_TEXT) {
    const key = Buffer.allocUnsafe(name.length * 3 + 1 + TYPE_ID_BYTES);
    const end = key.write(name, 0, "utf8");
    key[end] = 0;
    key.writeUInt32BE(typeId, end + 1);
    return key.subarray(0, end + 1 + TYPE_ID_BYTES);
  }
  const text = shortened(Buffer.from(name, "utf8"));
  const key = Buffer.allocUnsafe(text.length + 1 + TYPE_ID_BYTES);
  text.copy(key);
  key[text.length] = 0;
  key.writeUInt32BE(typeId, text.length + 1);
  return key;
}

/** The range of all types' keys of one name. */
export function nameRange(name: string): { start: Buffer; end: Buffer } {
  const start = nameKey(name, 0);
  const end = nameKey(name, 0xffffffff);
  return { start, end: Buffer.concat([end, Buffer.of(0)]) };
}

export function typeIdOf(key: Buffer): number {
  return key.readUInt32BE(key.length - TYPE_ID_BYTES);
}

/** The path below a root: `type/filename`, or the filename alone for the root's own files. */
export function relativePath(type: string, filename: string): string {
  return type === "" ? filename : `${type}/${filename}`;
}

/** Keys of one root sort in the byte order of their paths. */
export function fileKey(root: number, relative: string): Buffer {
  const text = shortened(Buffer.from(relative, "utf8"));
  const key = Buffer.allocUnsafe(1 + text.length);
  key[0] = root;
  text.copy(key, 1);
  return key;
}

/** Whether the whole path stands in its key. */
export function isWhole(relative: string): boolean {
  return relative.length * 3 <= LONGEST_TEXT || Buffer.byteLength(relative, "utf8") <= LONGEST_TEXT;
}

/** The first key at or behind `relative` taken as a prefix. */
export function filePrefix(root: number, relative: string): Buffer {
  const text = Buffer.from(relative, "utf8").subarray(0, LONG_TEXT_KEPT);
  return Buffer.concat([Buffer.of(root), text]);
}

function shortened(text: Buffer): Buffer {
  if (text.length <= LONGEST_TEXT) return text;
  return Buffer.concat([text.subarray(0, LONG_TEXT_KEPT), createHash("sha256").update(text).digest()]);
}

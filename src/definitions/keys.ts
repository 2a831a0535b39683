/**
 * How names, ids and paths become LMDB keys. LMDB ends at 1,978 bytes a key, file systems do not: what is longer keeps
 * its beginning, so that order and ranges hold, and a hash of the whole; the value then says what it really is.
 */
import { sha256 } from "../digest.ts";

const LONGEST_TEXT = 1900;
/** Of a text that is too long, this much stands in the key in front of its SHA-256. */
export const LONG_TEXT_KEPT = LONGEST_TEXT - 32;

const TYPE_ID_BYTES = 4;

/** `name` (or id) and the number of its type. NUL, which neither may hold, ends the name, so that all types of one name are a range. */
export function nameKey(name: string, typeId: number): Buffer {
  const key = textKey(name, 0, 1 + TYPE_ID_BYTES);
  const end = key.length - 1 - TYPE_ID_BYTES;
  writeTypeId(key, end, typeId);
  return key;
}

/** What stands behind the name. */
export function writeTypeId(key: Buffer, at: number, typeId: number): number {
  key[at] = 0;
  return key.writeUInt32BE(typeId, at + 1);
}

/**
 * A key that is written straight into LMDB's memory: bytes of its own would be an object for each call. One serves many
 * calls, since it is written out before the call that takes it returns.
 */
export interface WrittenKey {
  /** The end of what it has written. */
  writeTo(target: Buffer, at: number): number;
}

export class WrittenNameKey implements WrittenKey {
  name = "";
  typeId = 0;

  writeTo(target: Buffer, at: number): number {
    const { name, typeId } = this;
    if (name.length * 3 > LONGEST_TEXT) return at + nameKey(name, typeId).copy(target, at);
    return writeTypeId(target, at + target.write(name, at, "utf8"), typeId);
  }
}

export class WrittenFileKey implements WrittenKey {
  root = 0;
  relative = "";

  writeTo(target: Buffer, at: number): number {
    const { root, relative } = this;
    if (relative.length * 3 > LONGEST_TEXT) return at + fileKey(root, relative).copy(target, at);
    target[at] = root;
    return at + 1 + target.write(relative, at + 1, "utf8");
  }
}

/** How LMDB is given a key. */
export const keyEncoder = {
  writeKey(key: Uint8Array | WrittenKey, target: Buffer, at: number): number {
    if (!(key instanceof Uint8Array)) return key.writeTo(target, at);
    target.set(key, at);
    return at + key.length;
  },
  readKey(source: Buffer, start: number, end: number): Buffer {
    return Uint8Array.prototype.slice.call(source, start, end) as Buffer;
  },
};

/** The range of all types' keys of one name. */
export function nameRange(name: string): { start: Buffer; end: Buffer } {
  const start = nameKey(name, 0);
  const end = nameKey(name, 0xffffffff);
  return { start, end: Buffer.concat([end, Buffer.of(0)]) };
}

/** Whether another name may share this one's key. */
export function mayShareKey(name: string): boolean {
  return name.length * 3 > LONGEST_TEXT;
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
  const key = textKey(relative, 1, 0);
  key[0] = root;
  return key;
}

/** Whether the whole path stands in its key. */
export function isWhole(relative: string): boolean {
  return relative.length * 3 <= LONGEST_TEXT || isWholeLength(Buffer.byteLength(relative, "utf8"));
}

/** Whether a text of so many bytes stands in its key as it is. */
export function isWholeLength(bytes: number): boolean {
  return bytes <= LONGEST_TEXT;
}

/** The first key at or behind `relative` taken as a prefix. */
export function filePrefix(root: number, relative: string): Buffer {
  const text = Buffer.from(relative, "utf8").subarray(0, LONG_TEXT_KEPT);
  return Buffer.concat([Buffer.of(root), text]);
}

/** A key with `text`, shortened where it must be, and room before and behind it. */
function textKey(text: string, before: number, behind: number): Buffer {
  if (text.length * 3 <= LONGEST_TEXT) {
    const key = Buffer.allocUnsafe(before + text.length * 3 + behind);
    return key.subarray(0, before + key.write(text, before, "utf8") + behind);
  }
  const bytes = Buffer.from(text, "utf8");
  const kept = bytes.length <= LONGEST_TEXT ? bytes : shortened(bytes);
  const key = Buffer.allocUnsafe(before + kept.length + behind);
  kept.copy(key, before);
  return key;
}

function shortened(text: Buffer): Buffer {
  return Buffer.concat([text.subarray(0, LONG_TEXT_KEPT), sha256(text)]);
}

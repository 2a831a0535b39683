/** Digests by built-in modules that take milliseconds to load: got at their first use, since importing the library is free. */

let crypto: typeof import("node:crypto") | undefined;
let zlib: typeof import("node:zlib") | undefined;

export function sha256(data: string | Uint8Array): Buffer {
  crypto ??= process.getBuiltinModule("node:crypto");
  return crypto.createHash("sha256").update(data).digest();
}

/** `value`: goes on from this checksum. */
export function crc32(data: string | Uint8Array, value = 0): number {
  zlib ??= process.getBuiltinModule("node:zlib");
  return zlib.crc32(data, value);
}

/**
 * Record locks that belong to an open file description (fcntl(2), Linux 3.15): they do not fall off when another descriptor
 * of the file is closed.
 */
export const F_OFD_GETLK = 36;
export const F_OFD_SETLK = 37;
export const F_RDLCK = 0;
export const F_WRLCK = 1;
export const F_UNLCK = 2;

/** `struct flock` with 64-bit offsets, as x86-64 and arm64 Linux have it; elsewhere there are no such locks here. */
export const hasRecordLocks = process.arch === "x64" || process.arch === "arm64";

/** A `struct flock` over so many bytes of a file. F_OFD_GETLK puts into it what stands in the way. */
export function recordLock(type: number, start: bigint, length: bigint): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(32);
  const view = new DataView(bytes.buffer);
  view.setInt16(0, type, true);
  view.setBigInt64(8, start, true);
  view.setBigInt64(16, length, true);
  return bytes;
}

export function typeOfLock(lock: Uint8Array<ArrayBuffer>): number {
  return new DataView(lock.buffer).getInt16(0, true);
}

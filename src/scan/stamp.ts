/**
 * Stamps: what a file's metadata tells about its content, packed into 40 bytes, so that a million of them are read,
 * compared and kept without an object or a BigInt each.
 *
 * Little-endian: mtime seconds (8), mtime ns (4), ctime seconds (8), ctime ns (4), size (8), inode (8). The two highest
 * bits of the mtime's ns, which a count below 2³⁰ leaves free, hold the granularity of the clock behind the times.
 */
import { type BigIntStats, fstatSync, lstatSync, statfsSync, statSync } from "node:fs";
import { endianness, release } from "node:os";
import { getSystemErrorName } from "node:util";
import { isMainThread } from "node:worker_threads";
import { DefinitionReadError } from "../errors.ts";
import { ENOENT, type Libc, libc, libcIfLoaded } from "../ffi/libc.ts";
import { environmentVariable, errnoOf } from "../permissions.ts";
import type { FileStamp } from "./model.ts";

export const STAMP_BYTES = 40;

const MTIME_S = 0;
const MTIME_NS = 8;
const CTIME_S = 12;
const CTIME_NS = 20;
const SIZE = 24;
const INODE = 32;

const EXACT = 0;
const TICK = 2;
const SECOND = 3;
/** By the code that a stamp holds. The second one is for tests of clocks that tick in milliseconds. */
const GRANULARITIES_NS = [0, 1e6, 1e7, 1e9] as const;

export type FileKind = "file" | "directory" | "symlink" | "other" | "absent";

/**
 * Writes the stamp of what lies at `path` to `into` and says what it is. `follow`: of the target, where it is a
 * symbolic link; a link that leads nowhere or in a circle is absent then, as is a path that no file can have (a NUL, a
 * name over 255 bytes). When absent, `into` is left as it is.
 *
 * @throws DefinitionReadError for every other failure (EACCES, EIO …)
 */
export function readStamp(path: string, follow: boolean, into: Uint8Array, offset: number): FileKind {
  if (path.includes("\0")) return "absent";
  const c = ffi();
  return c === null ? statThroughNode(path, follow, into, offset) : statThroughLibc(c, path, follow, into, offset);
}

/** The same of an open file. `path` is for errors. */
export function readStampOfOpen(fd: number, path: string, into: Uint8Array, offset: number): FileKind {
  const c = ffi();
  if (c === null) return packStats(fstatSync(fd, { bigint: true }), path, into, offset);
  if (c.statx(fd, NO_PATH, AT_EMPTY_PATH, STATX_BASIC_STATS, statx) !== 0) {
    throw new DefinitionReadError(path, getSystemErrorName(-c.errno()));
  }
  return packStatx(path, into, offset);
}

/** Whether both stamps are the same in every part. */
export function sameStamp(a: Uint8Array, aOffset: number, b: Uint8Array, bOffset: number): boolean {
  for (let i = 0; i < STAMP_BYTES; i++) if (a[aOffset + i] !== b[bOffset + i]) return false;
  return true;
}

export function unpackStamp(bytes: Uint8Array, offset: number): FileStamp {
  return {
    mtimeNs: nanoseconds(bytes, offset + MTIME_S),
    ctimeNs: nanoseconds(bytes, offset + CTIME_S),
    size: stampSize(bytes, offset),
    inode: uint64(bytes, offset + INODE),
    granularityNs: granularityOfStamp(bytes, offset),
  };
}

const [LOW, HIGH] = endianness() === "LE" ? [0, 1] : [1, 0];
const words = new Uint32Array(2);
const wide = new BigUint64Array(words.buffer);
const wideSigned = new BigInt64Array(words.buffer);

function uint64(bytes: Uint8Array, at: number): bigint {
  words[LOW] = uint32(bytes, at);
  words[HIGH] = uint32(bytes, at + 4);
  return wide[0] as bigint;
}

/** Before 1677 and after 2262, 64 bits do not hold the nanoseconds; file systems hold the times. */
const FURTHEST_S = 9_223_372_036;

/** Seconds (8) and nanoseconds (4) as one number, in two halves of 32 bits: each BigInt on the way would be an object. */
function nanoseconds(bytes: Uint8Array, at: number): bigint {
  const seconds = uint32(bytes, at) + int32(bytes, at + 4) * 0x1_0000_0000;
  const fraction = uint32(bytes, at + 8) & 0x3fffffff;
  if (Math.abs(seconds) >= FURTHEST_S) return BigInt(seconds) * SECOND_NS + BigInt(fraction);
  const high = Math.floor(seconds / 0x1_0000);
  const low = (seconds - high * 0x1_0000) * 1e9 + fraction;
  const middle = high * 1e9 + Math.floor(low / 0x1_0000);
  words[LOW] = (middle % 0x1_0000) * 0x1_0000 + (low % 0x1_0000);
  words[HIGH] = Math.floor(middle / 0x1_0000);
  return wideSigned[0] as bigint;
}

/** The file's size in bytes, as its stamp has it. */
export function stampSize(bytes: Uint8Array, offset: number): number {
  return uint32(bytes, offset + SIZE) + uint32(bytes, offset + SIZE + 4) * 0x1_0000_0000;
}

/** How far apart two changes must lie to be told apart by this stamp, in ns; 0 when each has its own time. */
export function granularityOfStamp(bytes: Uint8Array, offset: number): number {
  return GRANULARITIES_NS[((bytes[offset + MTIME_NS + 3] ?? 0) >> 6) as 0 | 1 | 2 | 3];
}

/** Now, in nanoseconds since the epoch, as far as a double and the runtime's clock tell: a moment to give {@link isRacyStamp}. */
export function wallClockNs(): number {
  return Date.now() * 1e6;
}

/**
 * Whether a file or directory that was stamped at `stampedAtNs` or later may change after that without its stamp
 * telling: its last change lies within the granularity, and a tick of the kernel, of that moment (git's "racy index"). The ctime decides, since no
 * call can set it back. Compare such a file by its content, and list such a directory again, until it has aged.
 */
export function isRacyStamp(
  bytes: Uint8Array,
  offset: number,
  stampedAtNs: number,
  granularityNs: number = granularityOfStamp(bytes, offset),
): boolean {
  if (granularityNs === 0) return false;
  const seconds = uint32(bytes, offset + CTIME_S) + int32(bytes, offset + CTIME_S + 4) * 0x1_0000_0000;
  return seconds * 1e9 + uint32(bytes, offset + CTIME_NS) > stampedAtNs - granularityNs - CLOCK_LAG_NS;
}

/** The clock that file times are taken from is only moved on at each tick of the kernel, at worst 100 times a second. */
const CLOCK_LAG_NS = 1e7;

/**
 * The granularity of times on the file system of `path`, in ns. 0 where a change that follows a look at the times gets a
 * time of its own: Linux ≥ 6.13 ("multigrain timestamps") on ext4, XFS, Btrfs and tmpfs. Else 10 ms, the longest tick
 * of a kernel. A single stamp may be coarser: see {@link granularityOfStamp}.
 */
export function stampGranularityNs(path = "."): number {
  return simulatedNs() ?? GRANULARITIES_NS[fileSystemGranularity(path)];
}

let simulated: number | null | undefined;

/**
 * For tests: times are cut to this many nanoseconds (1e6, 1e7 or 1e9) from now on, as on a kernel with such a clock;
 * null ends it. A child process or worker takes it from the variable TUSSOCK_STAMP_GRANULARITY_NS.
 */
export function simulateGranularity(ns: number | null): void {
  simulated = ns;
}

function simulatedNs(): number | null {
  if (simulated === undefined) simulated = Number(environmentVariable("TUSSOCK_STAMP_GRANULARITY_NS")) || null;
  return simulated;
}

function coarsen(into: Uint8Array, offset: number): void {
  const step = simulatedNs() ?? 1;
  const mtimeNs = uint32(into, offset + MTIME_NS) & 0x3fffffff;
  const ctimeNs = uint32(into, offset + CTIME_NS);
  setUint32(into, offset + MTIME_NS, mtimeNs - (mtimeNs % step));
  setUint32(into, offset + CTIME_NS, ctimeNs - (ctimeNs % step));
  setGranularity(into, offset, step >= 1e9 ? SECOND : step >= 1e7 ? TICK : 1);
}

// ── through statx(2): 0.7 µs on Deno, whose own stat takes 5 and cuts the times; on Node 1 instead of 3 ─────────────

/**
 * On Node only on the main thread: a worker that is terminated inside a call of koffi takes the whole process with it
 * ("FATAL ERROR: Error::ThrowAsJavaScriptException napi_throw").
 */
const ffi: () => Libc | null = "Deno" in globalThis ? libc : isMainThread ? libcIfLoaded : () => null;

const AT_FDCWD = -100;
const AT_SYMLINK_NOFOLLOW = 0x100;
const AT_EMPTY_PATH = 0x1000;
const STATX_BASIC_STATS = 0x7ff;
const ENOTDIR = 20;
const ENAMETOOLONG = 36;
const ELOOP = 40;

const PATH_MAX = 4096;
const encoder = new TextEncoder();
const pathBytes = new Uint8Array(PATH_MAX);
const NO_PATH = new Uint8Array(1);
const statx = new Uint8Array(256);

function statThroughLibc(c: Libc, path: string, follow: boolean, into: Uint8Array, offset: number): FileKind {
  const { read, written } = encoder.encodeInto(path, pathBytes);
  if (read < path.length || written === PATH_MAX) return "absent";
  pathBytes[written] = 0;
  if (c.statx(AT_FDCWD, pathBytes, follow ? 0 : AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, statx) !== 0) {
    const errno = c.errno();
    if (errno === ENOENT || errno === ENOTDIR || errno === ELOOP || errno === ENAMETOOLONG) return "absent";
    throw new DefinitionReadError(path, getSystemErrorName(-errno));
  }
  return packStatx(path, into, offset);
}

function packStatx(path: string, into: Uint8Array, offset: number): FileKind {
  copy(statx, 112, into, offset + MTIME_S, 12);
  copy(statx, 96, into, offset + CTIME_S, 12);
  copy(statx, 40, into, offset + SIZE, 8);
  copy(statx, 32, into, offset + INODE, 8);
  const device = uint32(statx, 136) * 0x10_0000 + uint32(statx, 140);
  finish(into, offset, device, path);
  return kindOf((statx[28] ?? 0) | ((statx[29] ?? 0) << 8));
}

// ── through the runtime ──────────────────────────────────────────────────────────────────

function statThroughNode(path: string, follow: boolean, into: Uint8Array, offset: number): FileKind {
  const options = { bigint: true, throwIfNoEntry: false } as const;
  let stats: BigIntStats | undefined;
  try {
    stats = follow ? statSync(path, options) : lstatSync(path, options);
  } catch (error) {
    const code = errnoOf(error);
    if (code !== "ENOENT" && code !== "ENOTDIR" && code !== "ELOOP" && code !== "ENAMETOOLONG") {
      throw new DefinitionReadError(path, code, { cause: error });
    }
  }
  return stats === undefined ? "absent" : packStats(stats, path, into, offset);
}

const packed = new Uint8Array(STAMP_BYTES);
const packedView = new DataView(packed.buffer);

function packStats(stats: BigIntStats, path: string, into: Uint8Array, offset: number): FileKind {
  putTime(MTIME_S, stats.mtimeNs);
  putTime(CTIME_S, stats.ctimeNs);
  packedView.setBigUint64(SIZE, stats.size, true);
  packedView.setBigUint64(INODE, stats.ino, true);
  copy(packed, 0, into, offset, STAMP_BYTES);
  finish(into, offset, Number(stats.dev), path);
  return kindOf(Number(stats.mode));
}

const SECOND_NS = 1_000_000_000n;

function putTime(at: number, ns: bigint): void {
  let seconds = ns / SECOND_NS;
  // Before the epoch, division rounds the wrong way.
  if (seconds * SECOND_NS > ns) seconds -= 1n;
  packedView.setBigInt64(at, seconds, true);
  packedView.setUint32(at + 8, Number(ns - seconds * SECOND_NS), true);
}

function finish(into: Uint8Array, offset: number, device: number, path: string): void {
  if (simulatedNs() === null) setGranularity(into, offset, granularityOn(device, path, into, offset));
  else coarsen(into, offset);
}

function kindOf(mode: number): FileKind {
  switch (mode & 0xf000) {
    case 0x8000:
      return "file";
    case 0x4000:
      return "directory";
    case 0xa000:
      return "symlink";
    default:
      return "other";
  }
}

// ── granularity ─────────────────────────────────────────────────────────────────────────────────────────────────

const byDevice = new Map<number, typeof EXACT | typeof TICK>();
let lastDevice = Number.NaN;
let lastGranularity: typeof EXACT | typeof TICK = TICK;

function granularityOn(device: number, path: string, stamp: Uint8Array, offset: number): 0 | 2 | 3 {
  // A change time without a fraction comes from a clock that has none: Deno's own stat, ext4 with small inodes, FAT.
  if (uint32(stamp, offset + CTIME_NS) === 0) return SECOND;
  if (device === lastDevice) return lastGranularity;
  let granularity = byDevice.get(device);
  if (granularity === undefined) {
    granularity = fileSystemGranularity(path);
    byDevice.set(device, granularity);
  }
  lastDevice = device;
  lastGranularity = granularity;
  return granularity;
}

/** ext4, XFS, Btrfs, tmpfs: the file systems that took part when multigrain timestamps came, in Linux 6.13. */
const MULTIGRAIN = new Set([0xef53, 0x58465342, 0x9123683e, 0x01021994]);

function fileSystemGranularity(path: string): typeof EXACT | typeof TICK {
  try {
    const [major = 0, minor = 0] = release().split(".").map(Number);
    if (process.platform !== "linux" || major < 6 || (major === 6 && minor < 13)) return TICK;
    return MULTIGRAIN.has(statfsSync(path).type) ? EXACT : TICK;
  } catch {
    return TICK; // Deno without --allow-sys, too.
  }
}

// ── bytes ───────────────────────────────────────────────────────────────────────────────────────────────────────

function setGranularity(into: Uint8Array, offset: number, code: number): void {
  const at = offset + MTIME_NS + 3;
  into[at] = ((into[at] ?? 0) & 0x3f) | (code << 6);
}

function copy(from: Uint8Array, at: number, into: Uint8Array, offset: number, length: number): void {
  for (let i = 0; i < length; i++) into[offset + i] = from[at + i] ?? 0;
}

/** Little-endian, without the checks of `readUInt32LE`: hot paths ask for many. */
export function uint32(bytes: Uint8Array, at: number): number {
  return int32(bytes, at) >>> 0;
}

function int32(bytes: Uint8Array, at: number): number {
  return (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8) | ((bytes[at + 2] ?? 0) << 16) | ((bytes[at + 3] ?? 0) << 24);
}

/** Little-endian. */
export function setUint32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value & 0xff;
  bytes[at + 1] = (value >>> 8) & 0xff;
  bytes[at + 2] = (value >>> 16) & 0xff;
  bytes[at + 3] = value >>> 24;
}

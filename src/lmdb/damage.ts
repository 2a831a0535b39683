/**
 * What can be said of an LMDB file before it is mapped. Mapping first and asking later is no option: a truncated file
 * ends the process with SIGBUS, one of random bytes with SIGSEGV.
 */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { endianness } from "node:os";

/** LMDB 0.9.90 (mdb.c): `MDB_page_header`, then `MDB_meta`, on each of the first two pages. 64-bit layout. */
const AT = {
  flags: 18,
  magic: 24,
  version: 28,
  pageSize: 48,
  roots: [88, 136],
  lastPage: 144,
  transaction: 152,
} as const;
const META_BYTES = 160;
const P_META = 0x08;
const MAGIC = 0xbeefc0de;
const DATA_VERSION = 2;
const NO_ROOT = 0xffff_ffff_ffff_ffffn;

interface Meta {
  pageSize: number;
  lastPage: bigint;
  transaction: bigint;
}

/**
 * What is wrong with the file at `path`, or null. Never call it while LMDB has the file open in this process: closing
 * a descriptor drops record locks.
 *
 * `wholePages`: demand that the file holds every page that its newest transaction counts. It can fail for a sound
 * file, whose last pages were freed in the transaction that took them and never written.
 */
export function damageOf(path: string, options: { wholePages: boolean }): string | null {
  const fd = openSync(path, "r");
  try {
    const { size } = fstatSync(fd);
    const first = readMeta(fd, 0, size);
    if (typeof first === "string") return first;
    const second = readMeta(fd, first.pageSize, size);
    if (typeof second === "string") return second;
    if (second.pageSize !== first.pageSize) return "its two meta pages disagree about the page size";
    if (size % first.pageSize !== 0) return `${size} bytes are not a number of whole pages`;
    const newest = second.transaction > first.transaction ? second : first;
    if (options.wholePages && newest.lastPage >= BigInt(size / first.pageSize)) {
      return `it holds ${size / first.pageSize} of ${newest.lastPage + 1n} pages`;
    }
    return null;
  } finally {
    closeSync(fd);
  }
}

function readMeta(fd: number, offset: number, size: number): Meta | string {
  const bytes = new DataView(new ArrayBuffer(META_BYTES));
  if (readSync(fd, bytes, 0, META_BYTES, offset) < META_BYTES) return `${size} bytes are too few`;
  const little = endianness() === "LE";
  if ((bytes.getUint16(AT.flags, little) & P_META) === 0) return `there is no meta page at ${offset}`;
  if (bytes.getUint32(AT.magic, little) !== MAGIC) return `there is no LMDB magic at ${offset}`;
  const version = bytes.getUint32(AT.version, little) & 0xffff;
  if (version !== DATA_VERSION) return `its format version is ${version}, not ${DATA_VERSION}`;
  const pageSize = bytes.getUint32(AT.pageSize, little);
  if (pageSize < 256 || pageSize > 65536 || (pageSize & (pageSize - 1)) !== 0) return `its page size is ${pageSize}`;
  const lastPage = bytes.getBigUint64(AT.lastPage, little);
  for (const at of AT.roots) {
    const root = bytes.getBigUint64(at, little);
    if (root !== NO_ROOT && (root < 2n || root > lastPage || root >= BigInt(Math.ceil(size / pageSize)))) {
      return `the root page ${root} of a tree lies outside of it`;
    }
  }
  return { pageSize, lastPage, transaction: bytes.getBigUint64(AT.transaction, little) };
}

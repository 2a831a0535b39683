/**
 * flock(2) through the FFI, and beside it the bytes that SQLite locks.
 *
 * flock and POSIX record locks do not see each other on a local file system, so a process with an FFI and one without
 * (see sqlite-lock.ts) would both believe that they own the file. Therefore whoever holds the flock also holds an *open
 * file description lock* (fcntl(2), Linux 3.15) on the bytes that SQLite locks for an exclusive transaction: the two
 * kinds of process keep each other out. Unlike a POSIX record lock it does not fall off when another descriptor of the
 * file is closed. It also lets a probe ask who holds the file without taking it for an instant.
 */
import { closeSync, constants as fsConstants, fstatSync, openSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { UnsupportedFileSystemError } from "../errors.ts";
import { fileSystemOf } from "../ffi/file-system.ts";
import { EACCES, EAGAIN, EINTR, type Libc, LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN } from "../ffi/libc.ts";
import {
  F_OFD_GETLK,
  F_OFD_SETLK,
  F_UNLCK,
  F_WRLCK,
  hasRecordLocks,
  recordLock,
  typeOfLock,
} from "../ffi/record-lock.ts";

/** SQLite's PENDING_BYTE, RESERVED_BYTE and SHARED range (sqlite3 src/os.h): stable, being part of its file format. */
const SQLITE_LOCK_START = 0x40000000n;
const SQLITE_LOCK_LENGTH = 512n;

/** Takes the lock, or returns null when somebody holds it. The descriptor returned is what keeps it. */
export function flockFile(c: Libc, path: string): number | null {
  for (;;) {
    // Both runtimes open with O_CLOEXEC: a program that this process starts does not inherit the lock.
    const fd = openSync(path, fsConstants.O_RDWR | fsConstants.O_CREAT, 0o666);
    try {
      if (!flock(c, fd, LOCK_EX, path) || !setBridge(c, fd, path)) {
        unflock(c, fd);
        return null;
      }
      if (isStill(fd, path)) return fd;
    } catch (error) {
      unflock(c, fd);
      throw error;
    }
    unflock(c, fd); // The path names another file by now: what we locked is nobody's.
  }
}

/** Unlocks and closes. Unlocked first, so that a child which is just being forked does not keep it for a moment. */
export function unflock(c: Libc, fd: number): void {
  c.flock(fd, LOCK_UN);
  closeSync(fd);
}

export function probeFlock(c: Libc, path: string): "held" | "free" | "absent" {
  let fd: number;
  try {
    fd = openSync(path, fsConstants.O_RDONLY);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return "absent";
    throw error;
  }
  try {
    if (hasRecordLocks && !onNetwork(fd, path)) {
      const query = bridgeRange();
      if (c.fcntl(fd, F_OFD_GETLK, query) === 0) {
        return typeOfLock(query) === F_UNLCK ? "free" : "held";
      }
    }
    return flock(c, fd, LOCK_SH, path) ? "free" : "held";
  } finally {
    unflock(c, fd);
  }
}

/** False when somebody else holds it. */
function flock(c: Libc, fd: number, operation: number, path: string): boolean {
  for (;;) {
    if (c.flock(fd, operation | LOCK_NB) === 0) return true;
    const errno = c.errno();
    if (errno === EAGAIN) return false;
    if (errno !== EINTR) {
      throw new UnsupportedFileSystemError(
        path,
        `${fileSystemOf(dirname(path)).name} (flock: errno ${errno})`,
        "Use a directory on a local disk.",
      );
    }
  }
}

/** False when a process without an FFI holds the file. A kernel that has no such locks leaves the flock alone. */
function setBridge(c: Libc, fd: number, path: string): boolean {
  if (!hasRecordLocks || onNetwork(fd, path)) return true;
  if (c.fcntl(fd, F_OFD_SETLK, bridgeRange()) === 0) return true;
  const errno = c.errno();
  return errno !== EAGAIN && errno !== EACCES;
}

function bridgeRange(): Uint8Array<ArrayBuffer> {
  return recordLock(F_WRLCK, SQLITE_LOCK_START, SQLITE_LOCK_LENGTH);
}

const networkByDevice = new Map<number, boolean>();

/** NFS turns flock into a record lock of the whole file (Linux 2.6.12), with which the bridge would collide. */
function onNetwork(fd: number, path: string): boolean {
  const { dev } = fstatSync(fd);
  let known = networkByDevice.get(dev);
  if (known === undefined) {
    known = fileSystemOf(dirname(path)).network;
    networkByDevice.set(dev, known);
  }
  return known;
}

function isStill(fd: number, path: string): boolean {
  const named = statSync(path, { bigint: true, throwIfNoEntry: false });
  const locked = fstatSync(fd, { bigint: true });
  return named !== undefined && named.ino === locked.ino && named.dev === locked.dev;
}

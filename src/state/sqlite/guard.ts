/**
 * Two locks beside SQLite's own, which are POSIX record locks: those fall off as soon as this process closes *any*
 * descriptor of the file (fcntl(2)), and a backup or a sync that reads the directory from within the process does just
 * that. The next process to close the store would then take itself for the last one and delete the WAL under us, and two
 * could write at once (sqlite.org/howtocorrupt.html, 2.2). The locks here belong to a descriptor and do not fall off:
 *
 * - as long as the store is open, a shared lock on the bytes that SQLite must lock exclusively to remove the WAL, and one on
 *   the first byte of `state.lock`, which says to others that somebody has it open, WAL and all;
 * - during each transaction, an exclusive one on `state.lock`.
 *
 * Without an FFI there are only SQLite's: then nothing else in the process may open these files.
 */
import { closeSync, openSync } from "node:fs";
import { EACCES, EAGAIN, EINTR, type Libc, LOCK_EX, LOCK_NB, LOCK_UN, libc } from "../../ffi/libc.ts";
import {
  F_OFD_GETLK,
  F_OFD_SETLK,
  F_RDLCK,
  F_UNLCK,
  F_WRLCK,
  hasRecordLocks,
  recordLock,
  typeOfLock,
} from "../../ffi/record-lock.ts";
import type { Gate } from "../../gate.ts";

/** SQLite's SHARED range (src/os.h), part of its file format. */
const SHARED_FIRST = 0x40000002n;
const SHARED_SIZE = 510n;

/** A range of bytes: the first, and how many. */
type Range = readonly [start: bigint, length: bigint];
const SHARED: Range = [SHARED_FIRST, SHARED_SIZE];
const OPEN: Range = [0n, 1n];

export class Guard {
  readonly #libc: Libc | null;
  readonly #gate: Gate;
  #database: number | null = null;
  #writers: number | null = null;

  /** `database` is there already. */
  constructor(database: string, lock: string, gate: Gate) {
    this.#gate = gate;
    this.#libc = gate.through(libc);
    if (this.#libc === null) return;
    this.#writers = openSync(lock, "a+");
    this.#database = openSync(database, "r");
  }

  /** False when somebody is just removing the WAL: try again. */
  hold(): boolean {
    return this.#setLock(this.#database, SHARED, F_RDLCK) && this.#setLock(this.#writers, OPEN, F_RDLCK);
  }

  /** Whether anybody else has called {@link hold}. */
  isHeld(): boolean {
    const [c, fd] = [this.#libc, this.#writers];
    if (c === null || fd === null || !hasRecordLocks) return false;
    const lock = recordLock(F_WRLCK, ...OPEN);
    // What stands in the way of it is put in its place.
    return this.#gate.through(() => c.fcntl(fd, F_OFD_GETLK, lock) === 0 && typeOfLock(lock) === F_RDLCK);
  }

  /** Lets the WAL go: call it right before the connection is closed. */
  letGo(): void {
    this.#setLock(this.#writers, OPEN, F_UNLCK);
    this.#setLock(this.#database, SHARED, F_UNLCK);
  }

  /** Begins a transaction among all processes; false when another one has begun. */
  lock(): boolean {
    return this.#flock(LOCK_EX | LOCK_NB);
  }

  unlock(): void {
    this.#flock(LOCK_UN);
  }

  /** Last, when no connection of this thread is open any more: closing a descriptor takes SQLite's locks with it. */
  release(): void {
    for (const fd of [this.#database, this.#writers]) if (fd !== null) closeSync(fd);
    this.#database = null;
    this.#writers = null;
  }

  #flock(operation: number): boolean {
    const [c, fd] = [this.#libc, this.#writers];
    if (c === null || fd === null) return true;
    return this.#gate.through(() => {
      for (;;) {
        if (c.flock(fd, operation) === 0) return true;
        const errno = c.errno();
        if (errno === EAGAIN) return false;
        if (errno !== EINTR) return true; // A file system without flock: SQLite's own lock decides.
      }
    });
  }

  #setLock(fd: number | null, range: Range, type: number): boolean {
    const c = this.#libc;
    if (c === null || fd === null || !hasRecordLocks) return true;
    const lock = recordLock(type, ...range);
    return this.#gate.through(() => {
      if (c.fcntl(fd, F_OFD_SETLK, lock) === 0) return true;
      const errno = c.errno();
      return errno !== EAGAIN && errno !== EACCES; // EINVAL: a kernel without such locks.
    });
  }
}

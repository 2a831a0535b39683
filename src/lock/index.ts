/** Locks among processes: the primitive on a file, and the lock of a name that is built on it. */
export { type AcquireOptions, acquireFileLock, type FileLock, probeFileLock, tryFileLock } from "./file-lock.ts";
export { type NameLock, type NameLockOptions, withNameLock } from "./name-lock.ts";

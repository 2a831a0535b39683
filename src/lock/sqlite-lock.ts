/**
 * The lock where there is no FFI: an exclusive transaction of `node:sqlite` on the lock file, which stays empty (0.4 ms).
 *
 * It rests on POSIX record locks, which fall off when this process closes *any* descriptor of the file: a backup that
 * reads lock files from within the process takes them away (Linux fcntl(2)). SQLite guards against its own descriptors,
 * nobody against foreign ones; so this mechanism is reported as degraded, and nothing in the library opens a lock file.
 */
import { closeSync, openSync, readdirSync, statSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";

/** Keeps the handles: a collected one would close its file and lose the lock in silence. */
const held = new Set<DatabaseSync>();

/** Takes the lock, or returns null when somebody holds it (or tries for it at the same instant). */
export function sqliteLockFile(path: string): DatabaseSync | null {
  const { DatabaseSync } = process.getBuiltinModule("node:sqlite");
  for (;;) {
    const before = identify(path) ?? create(path);
    const database = new DatabaseSync(path, { timeout: 0 });
    try {
      // The journal in memory: an exclusive transaction would otherwise create a file beside the lock.
      database.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
    } catch (error) {
      database.close();
      if (isBusy(error)) return null;
      throw error;
    }
    if (before !== null && identify(path) === before && isOpenHere(before)) {
      held.add(database);
      return database;
    }
    database.close(); // The path names another file by now: what we locked is nobody's.
  }
}

export function sqliteUnlock(database: DatabaseSync): void {
  held.delete(database);
  database.close();
}

export function probeSqliteLock(path: string): "held" | "free" | "absent" {
  if (identify(path) === null) return "absent";
  const database = sqliteLockFile(path);
  if (database === null) return "held";
  sqliteUnlock(database);
  return "free";
}

function identify(path: string): string | null {
  const stat = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stat === undefined ? null : `${stat.dev}:${stat.ino}`;
}

/**
 * Whether this process has the file open that the path names: SQLite does not tell which one it has opened, and the
 * inode number of a removed file is soon given to a new one. Asked of `/proc`; true where there is none.
 */
function isOpenHere(file: string): boolean {
  try {
    return readdirSync("/proc/self/fd").some((fd) => identify(`/proc/self/fd/${fd}`) === file);
  } catch {
    return true;
  }
}

/** A descriptor of a file that was not there before can be closed: nobody of this process holds it yet. */
function create(path: string): string | null {
  try {
    closeSync(openSync(path, "wx", 0o666));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
  return identify(path);
}

/** SQLITE_BUSY is 5; Deno gives the message only. */
function isBusy(error: unknown): boolean {
  const { errcode, message } = error as { errcode?: number; message?: string };
  return errcode === 5 || message === "database is locked";
}

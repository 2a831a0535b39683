/** Creating and opening `state.db`: whole or not at all, never over something that was there. */
import { closeSync, fsyncSync, linkSync, openSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Gate } from "../../gate.ts";
import { storeSum } from "./checks.ts";
import { type DatabaseSync, openDatabase, prepareWriter } from "./database.ts";
import { failureOf, TypedFailure } from "./failure.ts";
import { Guard } from "./guard.ts";
import { examine } from "./inspect.ts";
import { APPLICATION_ID, MIGRATIONS } from "./schema.ts";
import { SET_STORE, STORE } from "./sql.ts";
import { StoreFiles } from "./store-files.ts";

/** How the name of a store ends that is not yet linked into place; and how long making one takes at the very most. */
const DRAFT = ".new";
const DRAFT_LASTS_MS = 600_000;

export function databasePath(dir: string): string {
  return join(dir, "state.db");
}

export interface OpenStore {
  readonly database: DatabaseSync;
  readonly guard: Guard;
  readonly files: StoreFiles;
}

/**
 * Opens the store in `dir` for writing, and creates it where there is none. Throws an error of kind `busy` (see failure.ts) when
 * another process is at it: try again. A damaged store is left as it is.
 */
export function openForWriting(dir: string, gate: Gate): OpenStore {
  const path = databasePath(dir);
  // Whoever ends this thread waits until there is nothing half-made.
  if (!exists(path)) gate.through(() => create(dir, path));
  const guard = new Guard(path, join(dir, "state.lock"), gate);
  let database: DatabaseSync | undefined;
  try {
    assertWhole(path, guard);
    const version = examine(path);
    database = openDatabase(path);
    prepareWriter(database);
    if (version < MIGRATIONS.length) migrate(database);
    if (!guard.hold()) throw new Error("database is locked");
    return { database, guard, files: new StoreFiles(path) };
  } catch (error) {
    database?.close();
    guard.release();
    throw error;
  }
}

/**
 * The counterpart of {@link openForWriting}: moves the WAL into the file when no other process has it open. Where the WAL was
 * removed, whoever else has it open: nobody will find it any more. Where another one has its place, never: that is newer, and
 * SQLite would remove it by its name.
 */
export function closeStore({ database, guard, files }: OpenStore): void {
  if (!files.isReplaced) {
    if (files.moved() !== null) saveWal(database);
    guard.letGo();
  }
  database.close();
  guard.release();
}

function saveWal(database: DatabaseSync): void {
  try {
    database.exec("PRAGMA wal_checkpoint(PASSIVE)");
  } catch {
    // The disk is full, say: who closes it last tries again.
  }
}

/** Who has the store open goes by a WAL of its own, when the names of both lead nowhere: then a new one would be a second. */
function assertWhole(path: string, guard: Guard): void {
  // Asked in this order, and again: another process may be opening it, or closing it as the last, at this moment.
  if (StoreFiles.areBeside(path) || !guard.isHeld() || StoreFiles.areBeside(path)) return;
  const why =
    "another process has it open, and its WAL was removed. Close the index in every process, then open it again";
  throw new TypedFailure("StateStoreUnavailableError", path, why);
}

/** An empty file is not a new store: a store is linked into place complete. */
function exists(path: string): boolean {
  // Asked first: another process may link the store into place, and open it, between the two.
  const hadWal = statSync(`${path}-wal`, { throwIfNoEntry: false }) !== undefined;
  const size = statSync(path, { throwIfNoEntry: false })?.size;
  if (size === 0) throw new TypedFailure("StateStoreCorruptError", path, "the file is empty");
  if (size === undefined && hadWal) {
    throw new TypedFailure("StateStoreCorruptError", path, "the file is gone, though its WAL is there");
  }
  return size !== undefined;
}

function create(dir: string, path: string): void {
  clearDrafts(dir);
  const draft = `${path}.${crypto.randomUUID()}${DRAFT}`;
  try {
    const database = openDatabase(draft);
    try {
      database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA application_id = ${APPLICATION_ID}`);
      migrate(database);
    } finally {
      database.close();
    }
    try {
      linkSync(draft, path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error; // Somebody else was first.
    }
  } finally {
    for (const suffix of ["", "-wal", "-shm"]) rmSync(draft + suffix, { force: true });
  }
  flushDirectory(dir);
}

/** Of processes that were killed while they made a store: older than any that is still at it. */
function clearDrafts(dir: string): void {
  for (const name of readdirSync(dir)) {
    const path = join(dir, name);
    if (!name.startsWith("state.db.") || !name.includes(DRAFT)) continue;
    const stat = statSync(path, { throwIfNoEntry: false });
    if (stat !== undefined && Date.now() - stat.mtimeMs > DRAFT_LASTS_MS) rmSync(path, { force: true });
  }
}

function migrate(database: DatabaseSync): void {
  database.exec("BEGIN IMMEDIATE");
  try {
    const version = Number(database.prepare("PRAGMA user_version").get()?.["user_version"]);
    for (const migration of MIGRATIONS.slice(version)) database.exec(migration);
    database.prepare(SET_STORE).run(epochOf(database), storeSum(epochOf(database)));
    database.exec(`PRAGMA user_version = ${MIGRATIONS.length}; COMMIT`);
  } catch (error) {
    if (failureOf(error, "").kind !== "full") database.exec("ROLLBACK");
    throw error;
  }
}

/** 0 in a store that is just being made. */
function epochOf(database: DatabaseSync): number {
  return Number(database.prepare(STORE).get()?.["epoch"] ?? 0);
}

/** The new name lasts. */
function flushDirectory(dir: string): void {
  const fd = openSync(dir, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

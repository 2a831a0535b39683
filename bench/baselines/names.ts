/** Other ways to find a definition by its name: everything in a map, SQLite, and bare LMDB (the floor's get). */
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { type Database, open } from "lmdb";
import { type Stored, storedDefinition, TYPE, workerDocument } from "../support/definitions.ts";

export interface Found {
  id: string;
  path: string;
}

/** Scanned once, kept in memory; tells nobody of a change. */
export function mapOfNames({ n, typeDir }: Stored): (name: string) => Promise<Found | null> {
  const map = new Map<string, Found>();
  for (let i = 0; i < n; i++) {
    const { id, name, filename } = storedDefinition(i);
    map.set(name, { id, path: `${typeDir}/${filename}` });
  }
  return async (name) => map.get(name) ?? null;
}

/** One table with an index over type and name; does not look at the file either. */
export function sqliteOfNames({ n, dir, typeDir }: Stored): (name: string) => Promise<Found | null> {
  const file = join(dir, "names.sqlite");
  const db = new DatabaseSync(file);
  db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF");
  db.exec("CREATE TABLE IF NOT EXISTS definition (type TEXT, name TEXT, id TEXT, path TEXT, document TEXT) STRICT");
  const { stored } = db.prepare("SELECT count(*) AS stored FROM definition").get() as { stored: number };
  if (stored !== n) {
    db.exec("BEGIN; DELETE FROM definition");
    const insert = db.prepare("INSERT INTO definition VALUES (?, ?, ?, ?, ?)");
    for (let i = 0; i < n; i++) {
      const { id, name, filename } = storedDefinition(i);
      insert.run(TYPE, name, id, `${typeDir}/${filename}`, documentOf(i));
    }
    db.exec("CREATE INDEX IF NOT EXISTS by_name ON definition (type, name); COMMIT");
  }
  const select = db.prepare("SELECT id, path FROM definition WHERE type = ? AND name = ?");
  return async (name) => (select.get(TYPE, name) as Found | undefined) ?? null;
}

/** What one get takes out of as many records of the same size under the same keys. */
export function lmdbOfNames({ n, dir }: Stored): (name: string) => Buffer | undefined {
  const path = join(dir, "names.lmdb");
  const db = open<Buffer, Buffer>({ path, noSubdir: false, encoding: "binary", keyEncoding: "binary" });
  if ((db.getStats() as { entryCount: number }).entryCount !== n) fill(db, n);
  return (name) => db.getBinaryFast(keyOf(name));
}

function fill(db: Database<Buffer, Buffer>, n: number): void {
  db.clearSync();
  db.transactionSync(() => {
    for (let i = 0; i < n; i++) {
      const { id, name, filename } = storedDefinition(i);
      db.putSync(keyOf(name), Buffer.from(`${"\0".repeat(60)}${filename}${id}${name}${documentOf(i)}`));
    }
  });
}

const key = Buffer.alloc(512);

function keyOf(name: string): Buffer {
  return key.subarray(0, key.write(`${name}\0\0\0\0\x01`, "latin1"));
}

function documentOf(i: number): string {
  return JSON.stringify(workerDocument(storedDefinition(i)));
}

/** A place for one durable commit. */
export function bareLmdb(path: string): { commit(key: string): void; close(): Promise<void> } {
  rmSync(path, { recursive: true, force: true });
  mkdirSync(path, { recursive: true });
  const db = open<string, string>({ path, noSubdir: false, encoding: "string" });
  return {
    commit(key) {
      db.transactionSync(() => {
        db.putSync(key, key.repeat(20));
      });
    },
    close: () => db.close(),
  };
}

/**
 * The same records, entries, counters and log of changes written by hand: over bare SQLite (WAL, synchronous = FULL) and over
 * LMDB. Without checks, checksums, compare-and-set or abort: what the writes themselves cost.
 */
import { join } from "node:path";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { open, type RootDatabase } from "lmdb";
import type { StepLease } from "../../src/state/index.ts";

/** What a hand-written store can do; all inside {@link BareLeases.transaction}. */
export interface BareLeases {
  transaction(work: () => void): void;
  insert(id: string, data: StepLease): void;
  /** Another state, a patch over the data, or both. */
  change(id: string, state: string | null, patch: StepLease): void;
  /** One that has ended long ago, for a history: without its changes. */
  insertEnded(id: string, since: number, data: StepLease): void;
  /** Reads records and data. */
  active(): { id: string; data: StepLease }[];
  close(): unknown;
}

interface Stored {
  rec: number;
  state: string;
  since: number;
  data: string;
}

/** The keys that a lease is listed under beside its state: worker and dispatch. */
function keysOf({ workerName = "", dispatchId = "" }: StepLease): string[] {
  return [`\0`, `worker\0${workerName}`, `dispatch\0${dispatchId}`];
}

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS record (rec INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, state TEXT NOT NULL, since INTEGER NOT NULL,
    revision INTEGER NOT NULL, data TEXT NOT NULL) STRICT;
  CREATE TABLE IF NOT EXISTS entry (key TEXT NOT NULL, state TEXT NOT NULL, since INTEGER NOT NULL, rec INTEGER NOT NULL,
    PRIMARY KEY (key, state, since, rec)) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS counter (state TEXT PRIMARY KEY, n INTEGER NOT NULL) STRICT;
  CREATE TABLE IF NOT EXISTS change (seq INTEGER PRIMARY KEY, rec INTEGER NOT NULL, id TEXT NOT NULL, state TEXT NOT NULL,
    since INTEGER NOT NULL, data TEXT NOT NULL) STRICT;
`;

export function sqliteLeases(dir: string): BareLeases {
  const db = new DatabaseSync(join(dir, "leases.sqlite"));
  db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -16000; ${SCHEMA}`);
  const prepared = new Map<string, StatementSync>();
  const sql = (text: string): StatementSync => {
    const statement = prepared.get(text) ?? db.prepare(text);
    prepared.set(text, statement);
    return statement;
  };
  const list = (rec: number, state: string, since: number, data: StepLease): void => {
    for (const key of keysOf(data)) sql("INSERT INTO entry VALUES (?, ?, ?, ?)").run(key, state, since, rec);
    sql("INSERT INTO counter VALUES (?, 1) ON CONFLICT (state) DO UPDATE SET n = n + 1").run(state);
  };
  const log = (rec: number, id: string, state: string, since: number, json: string): void => {
    sql("INSERT INTO change VALUES (NULL, ?, ?, ?, ?, ?)").run(rec, id, state, since, json);
  };
  return {
    transaction(work) {
      db.exec("BEGIN IMMEDIATE");
      work();
      db.exec("COMMIT");
    },
    insert(id, data) {
      const [json, since] = [JSON.stringify(data), Date.now()];
      const insert = sql("INSERT INTO record VALUES (NULL, ?, 'active', ?, 1, ?)");
      const rec = Number(insert.run(id, since, json).lastInsertRowid);
      list(rec, "active", since, data);
      log(rec, id, "active", since, json);
    },
    change(id, state, patch) {
      const old = sql("SELECT rec, state, since, data FROM record WHERE id = ?").get(id) as unknown as Stored;
      const data = { ...(JSON.parse(old.data) as StepLease), ...patch };
      const [json, since, now] = [JSON.stringify(data), state === null ? old.since : Date.now(), state ?? old.state];
      sql("UPDATE record SET state = ?, since = ?, revision = revision + 1, data = ? WHERE rec = ?").run(
        now,
        since,
        json,
        old.rec,
      );
      if (state !== null) {
        const remove = sql("DELETE FROM entry WHERE key = ? AND state = ? AND since = ? AND rec = ?");
        for (const key of keysOf(data)) remove.run(key, old.state, old.since, old.rec);
        sql("UPDATE counter SET n = n - 1 WHERE state = ?").run(old.state);
        list(old.rec, state, since, data);
      }
      log(old.rec, id, now, since, json);
    },
    insertEnded(id, since, data) {
      const insert = sql("INSERT INTO record VALUES (NULL, ?, 'completed', ?, 3, ?)");
      list(Number(insert.run(id, since, JSON.stringify(data)).lastInsertRowid), "completed", since, data);
    },
    active: () =>
      sql(`SELECT r.id, r.data FROM entry AS e JOIN record AS r ON r.rec = e.rec
        WHERE e.key = char(0) AND e.state = 'active' ORDER BY e.since, e.rec`)
        .all()
        .map((row) => ({ id: String(row["id"]), data: JSON.parse(String(row["data"])) as StepLease })),
    close: () => db.close(),
  };
}

export function lmdbLeases(dir: string): BareLeases {
  const root: RootDatabase<string, string> = open({ path: join(dir, "lmdb"), noSubdir: false, encoding: "string" });
  const [records, entries, counters] = ["record", "entry", "counter"].map((name) =>
    root.openDB<string, string>({ name, encoding: "string" }),
  ) as [RootDatabase<string, string>, RootDatabase<string, string>, RootDatabase<string, string>];
  const count = (state: string, by: number): void => {
    counters.putSync(state, String(Number(counters.get(state) ?? 0) + by));
  };
  const entryKeys = (id: string, state: string, since: number, data: StepLease): string[] =>
    keysOf(data).map((key) => `${key}\0${state}\0${since}\0${id}`);
  return {
    transaction(work) {
      root.transactionSync(() => {
        work();
      });
    },
    insert(id, data) {
      const since = Date.now();
      records.putSync(id, JSON.stringify({ state: "active", since, revision: 1, data }));
      for (const key of entryKeys(id, "active", since, data)) entries.putSync(key, id);
      count("active", 1);
    },
    change(id, state, patch) {
      const old = JSON.parse(records.get(id) ?? "") as {
        state: string;
        since: number;
        revision: number;
        data: StepLease;
      };
      const data = { ...old.data, ...patch };
      const since = state === null ? old.since : Date.now();
      const now = state ?? old.state;
      records.putSync(id, JSON.stringify({ state: now, since, revision: old.revision + 1, data }));
      if (state === null) return;
      for (const key of entryKeys(id, old.state, old.since, data)) entries.removeSync(key);
      for (const key of entryKeys(id, state, since, data)) entries.putSync(key, id);
      count(old.state, -1);
      count(state, 1);
    },
    insertEnded(id, since, data) {
      records.putSync(id, JSON.stringify({ state: "completed", since, revision: 3, data }));
      for (const key of entryKeys(id, "completed", since, data)) entries.putSync(key, id);
      count("completed", 1);
    },
    active() {
      const found: { id: string; data: StepLease }[] = [];
      for (const { value: id } of entries.getRange({ start: "\0\0active\0", end: "\0\0active\x01" })) {
        found.push({ id, data: (JSON.parse(records.get(id) ?? "") as { data: StepLease }).data });
      }
      return found;
    },
    close: () => root.close(),
  };
}

/** Group commit by hand: what is asked for in one turn is one transaction. */
export function batched(leases: BareLeases): (work: () => void) => Promise<void> {
  let waiting: { work: () => void; done: () => void }[] = [];
  return (work) =>
    new Promise((done) => {
      if (waiting.length === 0) {
        queueMicrotask(() => {
          const batch = waiting;
          waiting = [];
          leases.transaction(() => {
            for (const each of batch) each.work();
          });
          for (const each of batch) each.done();
        });
      }
      waiting.push({ work, done });
    });
}

/** Whether a store is whole: every structure, every checksum, every entry and counter against every record. */
import { statSync } from "node:fs";
import type { VerifyProblem } from "../model.ts";
import { checksum, keysOf, type StoredRow } from "../row.ts";
import { describe } from "./catalog.ts";
import { changeSum, storeSum, sumOf } from "./checks.ts";
import { type Column, type DatabaseSync, openDatabase, Statements } from "./database.ts";
import { type Failure, failureOf, TypedFailure } from "./failure.ts";
import type { Description } from "./protocol.ts";
import { storedRow } from "./reader.ts";
import { APPLICATION_ID, MIGRATIONS } from "./schema.ts";
import * as sql from "./sql.ts";

/** Stores up to this size are inspected whole each time they are opened (about 15 ms); larger ones by `verify()`. */
const INSPECTED_AT_OPEN_BYTES = 4 * 1_048_576;

/** Problems that a report holds. */
const MOST_PROBLEMS = 1_000;

/**
 * Looks at an existing file through a connection that cannot write, and returns its schema version.
 * @throws TypedFailure for a file that is damaged, foreign, or of a newer version.
 */
export function examine(path: string): number {
  const database = openDatabase(path, { readOnly: true });
  try {
    const pragma = (name: string) => Number(database.prepare(`PRAGMA ${name}`).get()?.[name]);
    if (pragma("application_id") !== APPLICATION_ID) {
      throw new TypedFailure("StateStoreCorruptError", path, "it is not a state store of this library");
    }
    const version = pragma("user_version");
    if (version > MIGRATIONS.length) throw new TypedFailure("SchemaVersionError", path, version, MIGRATIONS.length);
    const store = database.prepare(sql.STORE).get();
    // The store's row vouches for the version: a damaged one must not set off a migration.
    if (store?.["sum"] !== storeSum(Number(store?.["epoch"]), version)) {
      throw new TypedFailure("StateStoreCorruptError", path, "the store's own row does not fit its checksum");
    }
    checkSchema(database, version, path);
    if (version === MIGRATIONS.length && statSync(path).size <= INSPECTED_AT_OPEN_BYTES) {
      const [problem] = inspect(database, null).problems;
      if (problem !== undefined) throw new TypedFailure("StateStoreCorruptError", path, problem.message);
    }
    return version;
  } finally {
    database.close();
  }
}

/** The tables as the migrations make them: a damaged definition would give statements another meaning. */
function checkSchema(database: DatabaseSync, version: number, path: string): void {
  const model = openDatabase(":memory:");
  try {
    for (const migration of MIGRATIONS.slice(0, version)) model.exec(migration);
    const found = new Map(
      database
        .prepare(sql.SCHEMA)
        .all()
        .map(({ name, sql }) => [name, sql]),
    );
    for (const { name, sql: definition } of model.prepare(sql.SCHEMA).all()) {
      if (found.get(name) === definition) continue;
      throw new TypedFailure("StateStoreCorruptError", path, `the definition of ${name} is not what it was made with`);
    }
  } finally {
    model.close();
  }
}

/** What {@link inspectStore} answers, also from another thread. */
export type Answer =
  | { readonly ok: true; readonly value: Inspection }
  | { readonly ok: false; readonly failure: Failure };

/** Looks at the file through a connection of its own. */
export function inspectStore(path: string, index: number): Answer {
  try {
    const database = openDatabase(path, { readOnly: true });
    try {
      return { ok: true, value: inspect(database, index) };
    } finally {
      database.close();
    }
  } catch (error) {
    return { ok: false, failure: failureOf(error, path) };
  }
}

export interface Inspection {
  /** Records that were looked at. */
  records: number;
  problems: VerifyProblem[];
}

/** Of one state index, or of all (null). One snapshot: other processes go on writing meanwhile. */
export function inspect(database: DatabaseSync, only: number | null): Inspection {
  const found: Inspection = { records: 0, problems: [] };
  const report = (part: VerifyProblem["part"], message: string, id?: string): void => {
    if (found.problems.length < MOST_PROBLEMS)
      found.problems.push({ part, message, ...(id === undefined ? {} : { id }) });
  };
  try {
    database.exec("BEGIN");
    checkFile(database, report);
    if (found.problems.length === 0) checkContent(new Statements(database), only, found, report);
  } catch (error) {
    // What cannot even be read. Anything but damage is for the caller.
    const failure = failureOf(error, "");
    if (failure.kind !== "corrupt") throw error;
    report("file", failure.message);
  } finally {
    if (database.isTransaction !== false) database.exec("ROLLBACK");
  }
  return found;
}

type Report = (part: VerifyProblem["part"], message: string, id?: string) => void;

/** SQLite's own view: pages, order of keys, every row in every index. */
function checkFile(database: DatabaseSync, report: Report): void {
  for (const row of database.prepare(`PRAGMA integrity_check(${MOST_PROBLEMS})`).all()) {
    const message = String(Object.values(row)[0]);
    if (message !== "ok") report("file", message);
  }
}

function checkContent(statements: Statements, only: number | null, found: Inspection, report: Report): void {
  const catalog = checkCatalog(statements, report);
  const expected = new Expected();
  for (const [index, row] of records(statements)) {
    const description = catalog.get(index);
    if (description === undefined) {
      report("record", `the record belongs to state index ${index}, which is not there`, row.id);
      continue;
    }
    if (only === null || only === index) found.records++;
    if (checksum(index, row) !== row.sum) report("record", "the record does not fit its checksum", row.id);
    expected.state(index, row.state);
    for (const [number, key] of entriesOf(row, description)) {
      expected.entry(number);
      if (statements.one(sql.HAS_ENTRY, number, row.state, key, row.since, row.rec) === undefined) {
        report(
          number === description.listing ? "state" : "index",
          `the record is not listed under "${key}" in "${row.state}"`,
          row.id,
        );
      }
    }
  }
  checkEntryCounts(statements, expected, report);
  checkCounters(statements, expected, report);
  checkLogs(statements, report);
}

/** What entries and counters should come to. */
class Expected {
  readonly entries = new Map<number, number>();
  readonly states = new Map<string, { index: number; state: string; n: number }>();

  entry(number: number): void {
    this.entries.set(number, (this.entries.get(number) ?? 0) + 1);
  }

  state(index: number, state: string): void {
    const name = `${index} ${state}`;
    const there = this.states.get(name);
    if (there === undefined) this.states.set(name, { index, state, n: 1 });
    else there.n++;
  }
}

function checkCatalog(statements: Statements, report: Report): Map<number, Description> {
  const epoch = Number(statements.one(sql.STORE)?.["epoch"]);
  if (statements.one(sql.STORE)?.["sum"] !== storeSum(epoch))
    report("file", "the store's own row does not fit its checksum");
  const indexes = statements.all(sql.STATE_INDEXES).map(({ idx }) => describe(statements, Number(idx)));
  return new Map(indexes.map((description) => [description.index, description]));
}

function* records(statements: Statements): Iterable<[number, StoredRow]> {
  for (let after = 0; ; ) {
    const page = statements.allColumns(sql.RECORDS_FROM, after, 512);
    for (const [index, ...columns] of page) {
      const row = storedRow(columns);
      after = row.rec;
      yield [Number(index), row];
    }
    if (page.length === 0) return;
  }
}

/** Where the record should be listed. Keys of an index that was given up count no more. */
function* entriesOf(row: StoredRow, { listing, secondary }: Description): Iterable<[number, string]> {
  yield [listing, ""];
  const keys = keysOf(row);
  for (let at = 0; at < keys.length; at += 2) {
    if (secondary.some(({ number }) => number === keys[at])) yield [Number(keys[at]), String(keys[at + 1])];
  }
}

function checkEntryCounts(statements: Statements, expected: Expected, report: Report): void {
  for (const { ix, n } of statements.all(sql.ENTRY_COUNTS)) {
    const should = expected.entries.get(Number(ix)) ?? 0;
    if (n !== should) report("index", `secondary index ${ix} has ${n} entries, not ${should}`);
  }
}

function checkCounters(statements: Statements, { states }: Expected, report: Report): void {
  const missing = new Map(states);
  for (const { idx, state, n, sum } of statements.all(sql.COUNTERS)) {
    const should = states.get(`${idx} ${state}`)?.n ?? 0;
    missing.delete(`${idx} ${state}`);
    if (n !== should || sum !== sumOf(Number(idx), String(state), should)) {
      report("counter", `the counter of "${state}" is ${n}, not ${should}`);
    }
  }
  for (const { state, n } of missing.values())
    report("counter", `the counter of "${state}" is missing; it should be ${n}`);
}

function checkLogs(statements: Statements, report: Report): void {
  const check = (part: VerifyProblem["part"], statement: string): void => {
    for (let after = 0; ; ) {
      const page = statements.allColumns(statement, after, 512);
      for (const [seq, index, prev, ...columns] of page) {
        after = Number(seq);
        const row = storedRow(columns);
        if (changeSum(checksum(Number(index), row), prev as string | null) !== row.sum) {
          report(part, `change ${seq} does not fit its checksum`, row.id);
        }
      }
      if (page.length === 0) return;
    }
  };
  check("file", sql.CHANGES_FROM);
  check("outbox", sql.OUTBOX_FROM);
  for (const { idx, name, watermark, sum } of statements.all(sql.MARKS)) {
    if (sum !== sumOf(idx as Column, name as Column, watermark as Column))
      report("file", `the watermark of import "${name}" does not fit its checksum`);
  }
  for (const { idx, id, state, since, origin, sum } of statements.all(sql.ALL_TOMBSTONES)) {
    const columns = [idx, id, state, since, origin] as Column[];
    if (sum !== sumOf(...columns))
      report("file", "the note that the record was pruned does not fit its checksum", String(id));
  }
}

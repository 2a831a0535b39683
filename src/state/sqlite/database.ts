/** Opening connections to `state.db`. The module is loaded at first use, not on import. */
import { createRequire } from "node:module";
import type { DatabaseSync, StatementSync } from "node:sqlite";

export type { DatabaseSync, StatementSync } from "node:sqlite";

/** Bytes of WAL after which a commit moves it into the database, in pages of 4 KiB: what bounds the file. */
const CHECKPOINT_PAGES = 1_000;
const WAL_BYTES_KEPT = 2 * CHECKPOINT_PAGES * 4_096;

export function openDatabase(path: string, options: { readOnly?: boolean } = {}): DatabaseSync {
  const { DatabaseSync } = createRequire(import.meta.url)("node:sqlite") as typeof import("node:sqlite");
  // No waiting inside SQLite: it would block the thread with pauses of up to 100 ms; whoever calls waits.
  return new DatabaseSync(path, { timeout: 0, readOnly: options.readOnly ?? false });
}

export function prepareWriter(database: DatabaseSync): void {
  database.exec(
    `PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES};
     PRAGMA journal_size_limit = ${WAL_BYTES_KEPT}; PRAGMA cache_size = -4000; PRAGMA temp_store = MEMORY`,
  );
}

export function prepareReader(database: DatabaseSync): void {
  database.exec("PRAGMA query_only = ON; PRAGMA cache_size = -8000; PRAGMA temp_store = MEMORY");
}

export type Column = string | number | null;
export type Row = Record<string, Column>;

/** The statements of one connection, each prepared at first use. */
export class Statements {
  readonly #database: DatabaseSync;
  readonly #prepared = new Map<string, StatementSync>();
  readonly #returningArrays = new Map<string, StatementSync>();

  constructor(database: DatabaseSync) {
    this.#database = database;
  }

  get(sql: string): StatementSync {
    let statement = this.#prepared.get(sql);
    if (statement === undefined) {
      statement = this.#database.prepare(sql);
      this.#prepared.set(sql, statement);
    }
    return statement;
  }

  one(sql: string, ...values: Column[]): Row | undefined {
    return this.get(sql).get(...values) as Row | undefined;
  }

  /** The columns of the first row, in the order of the statement. */
  columns(sql: string, ...values: Column[]): Column[] | undefined {
    const row = this.#arrays(sql).get(...values) as Column[] | Row | undefined;
    return row === undefined || Array.isArray(row) ? row : Object.values(row);
  }

  allColumns(sql: string, ...values: Column[]): Column[][] {
    const rows = this.#arrays(sql).all(...values) as unknown as Column[][] | Row[];
    return isArrays(rows) ? rows : rows.map((row) => Object.values(row));
  }

  all(sql: string, ...values: Column[]): Row[] {
    return this.get(sql).all(...values) as Row[];
  }

  /** Rows changed. */
  run(sql: string, ...values: Column[]): number {
    return Number(this.get(sql).run(...values).changes);
  }

  /** Arrays take a third less time than objects. Node has them from 24.0. */
  #arrays(sql: string): StatementSync {
    let statement = this.#returningArrays.get(sql);
    if (statement === undefined) {
      statement = this.#database.prepare(sql);
      statement.setReturnArrays?.(true);
      this.#returningArrays.set(sql, statement);
    }
    return statement;
  }
}

function isArrays(rows: Column[][] | Row[]): rows is Column[][] {
  return Array.isArray(rows[0]);
}

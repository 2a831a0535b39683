/** Control-plane records as rows of a table: each call is one statement. */

import type { AbortOptions } from "../../abort.ts";
import { checkOptions } from "../../arguments.ts";
import { Underway } from "../../churn.ts";
import { ClosedError } from "../../errors.ts";
import { checkControlPlaneKey, checkControlPlanePrefix } from "../control-plane-keys.ts";
import { checkBytes } from "../limits.ts";
import type { ControlPlaneStore } from "../model.ts";
import type { Scope } from "../record-store.ts";
import type { Columns, Parameter } from "./database.ts";
import { acquireStore, type StoreLease } from "./open.ts";
import type { Place } from "./source.ts";

/** How long a call may take. */
const DEADLINE_MS = 30_000;

export async function openPostgresControlPlane(
  place: Place,
  signal: AbortSignal | undefined,
): Promise<ControlPlaneStore> {
  return new PostgresControlPlane(await acquireStore(place, { signal, until: performance.now() + DEADLINE_MS }));
}

class PostgresControlPlane implements ControlPlaneStore {
  readonly #lease: StoreLease;
  readonly #table: string;
  readonly #calls = new Underway();
  #closing: Promise<void> | null = null;

  constructor(lease: StoreLease) {
    this.#lease = lease;
    this.#table = `${lease.store.database.schema}.control_plane`;
  }

  /** Point of no return: the statement is sent. */
  async put(key: string, data: Uint8Array, o?: AbortOptions): Promise<void> {
    const statement = `INSERT INTO ${this.#table} (key, data) VALUES ($1, $2)
      ON CONFLICT (key) DO UPDATE SET data = excluded.data`;
    await this.#write(statement, [checkControlPlaneKey(key), checkBytes(data)], o);
  }

  /** Point of no return: the statement is sent. */
  async putIfAbsent(key: string, data: Uint8Array, o?: AbortOptions): Promise<boolean> {
    const statement = `INSERT INTO ${this.#table} (key, data) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING RETURNING 1`;
    const rows = await this.#write(statement, [checkControlPlaneKey(key), checkBytes(data)], o);
    return rows.length > 0;
  }

  async get(key: string, o?: AbortOptions): Promise<Uint8Array | null> {
    const statement = `SELECT data FROM ${this.#table} WHERE key = $1`;
    const [row] = await this.#read(statement, [checkControlPlaneKey(key)], o);
    return row === undefined ? null : new Uint8Array(row[0] as Uint8Array);
  }

  /** Point of no return: the statement is sent. */
  async delete(key: string, o?: AbortOptions): Promise<void> {
    await this.#write(`DELETE FROM ${this.#table} WHERE key = $1`, [checkControlPlaneKey(key)], o);
  }

  /** One snapshot. */
  async list(prefix: string, o?: AbortOptions): Promise<string[]> {
    const statement = `SELECT key FROM ${this.#table} WHERE key ^@ $1 ORDER BY key`;
    const rows = await this.#read(statement, [checkControlPlanePrefix(prefix)], o);
    return rows.map(([key]) => String(key));
  }

  close(): Promise<void> {
    this.#closing ??= this.#calls.over().then(() => this.#lease.release());
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #read(statement: string, parameters: readonly Parameter[], o: AbortOptions | undefined): Promise<Columns[]> {
    const scope = this.#scope(o);
    return this.#calls.track(this.#lease.store.database.read(statement, parameters, scope));
  }

  #write(statement: string, parameters: readonly Parameter[], o: AbortOptions | undefined): Promise<Columns[]> {
    const scope = this.#scope(o);
    return this.#calls.track(this.#lease.store.database.write(statement, () => parameters, scope));
  }

  #scope(o: AbortOptions | undefined): Scope {
    const { place } = this.#lease.store.database;
    if (this.#closing !== null) throw new ClosedError(`the control-plane store ${place}`);
    checkOptions(o);
    o?.signal?.throwIfAborted();
    return { signal: o?.signal, until: performance.now() + DEADLINE_MS };
  }
}

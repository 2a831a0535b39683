/** The records of one state index in PostgreSQL. */
import { LifecycleMismatchError } from "../../errors.ts";
import type { VerifyProblem } from "../model.ts";
import { RecentRows } from "../recent.ts";
import type {
  ChangeMark,
  MirrorRight,
  PageQuery,
  RecordStore,
  RowChange,
  Scope,
  Standing,
  StoredChange,
  WriteOptions,
} from "../record-store.ts";
import type { StoredRow } from "../row.ts";
import type { Registration } from "../secondary.ts";
import { arrayOf, type Columns, type Parameter } from "./database.ts";
import { codeOf } from "./failure.ts";
import { inspect } from "./inspect.ts";
import { acquireStore, type StoreLease } from "./open.ts";
import { changeOf, listedOf, ROW, rowOf, standingOf } from "./rows.ts";
import type { Place } from "./source.ts";
import type { PostgresStore } from "./store.ts";
import { Writer } from "./writer.ts";

/** A state index as the database describes it. */
interface Description {
  readonly index: number;
  readonly generation: number;
  readonly mirrored: boolean;
  readonly secondary: readonly { readonly name: string; readonly number: number }[];
  /** Numbers of those in which some records are not yet as they should be. */
  readonly unbuilt: readonly number[];
}

export interface Wanted {
  readonly name: string;
  readonly lifecycle: string;
  /** Secondary indexes that the caller has the function of, and those that it gives up. */
  readonly functions: readonly string[];
  readonly dropped: readonly string[];
  /** True: from now on every change goes into the outbox; false: no more; null: as it is. */
  readonly mirrored: boolean | null;
}

export async function openPostgresRecords(
  place: Place,
  flushed: boolean,
  wanted: Wanted,
  scope: Scope,
): Promise<PostgresRecords> {
  const lease = await acquireStore(place, scope);
  try {
    return await PostgresRecords.register(lease, flushed, wanted, scope);
  } catch (error) {
    await lease.release();
    throw error;
  }
}

/** Raised by `register`. */
const OTHER_LIFECYCLE = "TK002";
const CHANGE = `seq, prev, ${ROW}`;

export class PostgresRecords implements RecordStore {
  readonly #lease: StoreLease;
  readonly #store: PostgresStore;
  readonly #flushed: boolean;
  readonly #name: string;
  readonly #recent = new RecentRows();
  readonly #writer: Writer;
  #description: Description;
  #registration: Registration;

  private constructor(lease: StoreLease, flushed: boolean, name: string, description: Description) {
    this.#lease = lease;
    this.#store = lease.store;
    this.#flushed = flushed;
    this.#name = name;
    this.#description = description;
    this.#registration = registrationOf(description);
    this.#writer = new Writer(lease.store, flushed);
  }

  /** Writes only where something is to be changed. */
  static async register(lease: StoreLease, flushed: boolean, wanted: Wanted, scope: Scope): Promise<PostgresRecords> {
    const { store } = lease;
    let found = await describe(store, wanted.name, scope);
    if (found === null || !isAsWanted(found, wanted)) {
      const { name, lifecycle, functions, dropped, mirrored } = wanted;
      const statement = `SELECT ${store.database.schema}.register($1, $2, $3, $4, $5, $6, $7)`;
      const given = [name, lifecycle, arrayOf(functions), arrayOf(dropped), mirrored];
      try {
        await store.database.write(statement, (patience) => [flushed, patience, ...given], scope);
      } catch (error) {
        const { cause } = error as { cause?: Error };
        if (codeOf(cause ?? {}) === OTHER_LIFECYCLE) throw otherLifecycle(wanted, cause?.message);
        throw error;
      }
      found = await describe(store, wanted.name, scope);
    }
    if (found === null) throw new Error(`state index "${wanted.name}" is gone again`);
    return new PostgresRecords(lease, flushed, wanted.name, found.description);
  }

  get registration(): Registration {
    return this.#registration;
  }

  get epoch(): number {
    return this.#store.epoch;
  }

  refresh(scope: Scope): Promise<void> {
    return this.#redescribe(scope);
  }

  get unbuilt(): readonly number[] {
    return this.#description.unbuilt;
  }

  now(): number {
    return this.#store.database.clock.now();
  }

  async get(id: string, scope: Scope): Promise<StoredRow | null> {
    const [columns] = await this.#read(ROW, "get_record", [this.#index, id], scope);
    return columns === undefined ? null : this.#checked(() => rowOf(this.#index, columns));
  }

  recall(id: string): StoredRow | undefined {
    return this.#recent.get(id);
  }

  async page({ secondary, key, states, from, to, reverse, limit }: PageQuery, scope: Scope): Promise<StoredRow[]> {
    const direction = reverse ? "down" : "up";
    const range = [arrayOf(states), from.since, from.rec, to.since, to.rec, limit];
    if (secondary === null) {
      const rows = await this.#read(ROW, `states_${direction}`, [this.#index, ...range], scope);
      return this.#checked(() => rows.map((columns) => rowOf(this.#index, columns)));
    }
    const rows = await this.#read("*", `key_${direction}`, [this.#index, secondary, key, ...range], scope);
    return this.#checked(() => rows.map((columns) => listedOf(this.#index, columns)));
  }

  async counts(scope: Scope): Promise<ReadonlyMap<string, number>> {
    const { database } = this.#store;
    const statement = `SELECT state, sum(n) FROM ${database.schema}.counter WHERE idx = $1 GROUP BY state`;
    const rows = await database.read(statement, [this.#index], scope);
    return new Map(rows.map(([state, n]) => [String(state), Number(n)]));
  }

  async write(changes: readonly RowChange[], options: WriteOptions, scope: Scope): Promise<(StoredRow | null)[]> {
    const { recs, epoch, isCurrent } = await this.#writer.submit(changes, options, scope);
    if (epoch > this.#store.epoch) this.#store.epoch = epoch;
    if (!isCurrent) {
      await this.#redescribe(scope);
      // A mark alone does not depend on what the indexes are; without a change no null would say that it was not stored.
      if (changes.length === 0) return this.write(changes, { ...options, registration: this.#registration }, scope);
    }
    return this.#recent.written(changes, recs);
  }

  async prune(
    { state, before, keep, limit }: { state: string; before: number; keep: number; limit: number },
    scope: Scope,
  ): Promise<{ pruned: number; more: boolean }> {
    const { database } = this.#store;
    const statement = `SELECT * FROM ${database.schema}.prune($1, $2, $3, $4, $5, $6, $7)`;
    const parameters = (patience: number) => [this.#index, this.#flushed, patience, state, before, keep, limit];
    const [row] = await database.write(statement, parameters, scope);
    return { pruned: Number(row?.[0]), more: row?.[1] === true };
  }

  async beginEpoch(scope: Scope): Promise<number> {
    const [row] = await this.#write("begin_epoch", [], scope);
    const epoch = Number(row?.[0]);
    this.#store.epoch = Math.max(this.#store.epoch, epoch);
    return epoch;
  }

  async currentEpoch(scope: Scope): Promise<number> {
    const { database } = this.#store;
    const [row] = await database.read(`SELECT epoch FROM ${database.schema}.store`, [], scope);
    return Number(row?.[0]);
  }

  async standing(ids: readonly string[], scope: Scope): Promise<Standing[]> {
    const rows = await this.#read("*", "standing", [this.#index, arrayOf(ids)], scope);
    return this.#checked(() => rows.map((columns) => standingOf(this.#index, columns)));
  }

  async watermark(name: string, scope: Scope): Promise<string | null> {
    const { database } = this.#store;
    const statement = `SELECT watermark FROM ${database.schema}.import_mark WHERE idx = $1 AND name = $2`;
    const [row] = await database.read(statement, [this.#index, name], scope);
    return (row?.[0] ?? null) as string | null;
  }

  async unkeyed(limit: number, scope: Scope): Promise<StoredRow[]> {
    const rows = await this.#read(ROW, "unkeyed", [this.#index, limit], scope);
    return this.#checked(() => rows.map((columns) => rowOf(this.#index, columns)));
  }

  async setBuilt(secondary: readonly number[], scope: Scope): Promise<void> {
    await this.#write("set_built", [this.#index, arrayOf(secondary)], scope);
    await this.#redescribe(scope);
  }

  /** Asked for at once, and no write of this process is sent before the answer is there. */
  async lastChange(scope: Scope): Promise<ChangeMark> {
    const found = this.#read("bound, seen", "last_change", [], scope);
    this.#store.barriers.add(found);
    try {
      const [row] = await found;
      const seen = String(row?.[1]);
      // Below the first number while a transaction is under way that is older than the schema.
      const mark = { seq: Math.max(Number(row?.[0]) - 1, 0) };
      return seen === "" ? mark : { ...mark, seen: new Set(seen.split(",").map(Number)) };
    } finally {
      this.#store.barriers.delete(found);
    }
  }

  async changes(
    after: ChangeMark,
    limit: number,
    scope: Scope,
  ): Promise<{ changes: StoredChange[]; upTo: ChangeMark } | null> {
    const askedAt = performance.now();
    const rows = await this.#read("*", "changes_after", [this.#index, after.seq, limit], scope);
    const [trimmed, bound, more, clock] = rows[0] ?? [];
    this.#store.database.clock.observe(askedAt, performance.now(), Number(clock));
    if (Number(trimmed) > after.seq) return null;
    const found = rows.filter((columns) => columns[4] !== null);
    const last = found.length < limit ? Number(bound) - 1 : Number(found.at(-1)?.[4]);
    const changes = this.#checked(() => found.map((columns) => changeOf(this.#index, columns.slice(4))));
    // What is there, and not shown yet: nobody else says when it can be.
    if (more !== true) this.#store.sawAll();
    else if (found.length < limit) this.#store.lookAgain();
    const { seen } = after;
    const upTo = { seq: Math.max(last, after.seq) };
    if (seen === undefined) return { changes, upTo };
    const left = new Set([...seen].filter((seq) => seq > upTo.seq));
    const mark = left.size === 0 ? upTo : { ...upTo, seen: left };
    const unseen = changes.filter(({ seq }) => !seen.has(seq));
    // Nothing new among so many: it lies behind them, if anywhere, and who is told of none would wait for the next commit.
    if (unseen.length === 0 && found.length === limit) return this.changes(mark, limit, scope);
    return { changes: unseen, upTo: mark };
  }

  subscribe(listener: () => void): () => void {
    return this.#store.subscribe(listener);
  }

  async outbox(after: number, limit: number, scope: Scope): Promise<StoredChange[]> {
    const rows = await this.#read(CHANGE, "outbox", [this.#index, after, limit], scope);
    return this.#checked(() => rows.map((columns) => changeOf(this.#index, columns)));
  }

  async outboxStats(scope: Scope): Promise<{ pending: number; oldestAt: number | null }> {
    const { database } = this.#store;
    const statement = `SELECT count(*), min(at) FROM ${database.schema}.change WHERE idx = $1 AND mirror`;
    const [row] = await database.read(statement, [this.#index], scope);
    const oldest = row?.[1] ?? null;
    return { pending: Number(row?.[0]), oldestAt: oldest === null ? null : Number(oldest) };
  }

  async delivered(sequences: readonly number[], scope: Scope): Promise<void> {
    await this.#write("delivered", [this.#index, arrayOf(sequences)], scope);
  }

  lockMirror(): Promise<MirrorRight | null> {
    return this.#store.session.tryLock(`mirror ${this.#index}`);
  }

  inspect(signal: AbortSignal | undefined): Promise<{ records: number; problems: VerifyProblem[] }> {
    return inspect(this.#store.database, this.#index, signal);
  }

  close(): Promise<void> {
    return this.#lease.release();
  }

  get #index(): number {
    return this.#description.index;
  }

  #read(columns: string, name: string, parameters: readonly Parameter[], scope: Scope): Promise<Columns[]> {
    const { database } = this.#store;
    const places = parameters.map((_, at) => `$${at + 1}`).join(", ");
    return database.read(`SELECT ${columns} FROM ${database.schema}.${name}(${places})`, parameters, scope);
  }

  #write(name: string, parameters: readonly Parameter[], scope: Scope): Promise<Columns[]> {
    const { database } = this.#store;
    const places = Array.from({ length: parameters.length + 2 }, (_, at) => `$${at + 1}`).join(", ");
    const all = (patience: number) => [this.#flushed, patience, ...parameters];
    return database.write(`SELECT ${database.schema}.${name}(${places})`, all, scope);
  }

  #checked<T>(make: () => T): T {
    try {
      return make();
    } catch (error) {
      throw this.#store.database.error(error, 0);
    }
  }

  async #redescribe(scope: Scope): Promise<void> {
    const found = await describe(this.#store, this.#name, scope);
    if (found === null) return;
    const { description } = found;
    // What is asked at once may be answered in another order.
    if (description.generation < this.#description.generation) return;
    this.#description = description;
    this.#registration = registrationOf(description);
  }
}

interface Found {
  readonly lifecycle: string;
  readonly description: Description;
}

async function describe({ database }: PostgresStore, name: string, scope: Scope): Promise<Found | null> {
  const { schema } = database;
  const secondaries = `SELECT json_agg(json_build_array(x.ix, x.name, x.built) ORDER BY x.ix)::text
    FROM ${schema}.secondary AS x WHERE x.idx = i.idx`;
  const [row] = await database.read(
    `SELECT i.idx, i.lifecycle, i.generation, i.mirrored, (${secondaries})
      FROM ${schema}.state_index AS i WHERE i.name = $1`,
    [name],
    scope,
  );
  if (row === undefined) return null;
  const [index, lifecycle, generation, mirrored, list] = row;
  const all = JSON.parse(String(list)) as [number, string, boolean][];
  const description = {
    index: Number(index),
    generation: Number(generation),
    mirrored: mirrored === true,
    // The one without a name stands for the keys of all.
    secondary: all.filter(([, name]) => name !== "").map(([number, name]) => ({ name, number })),
    unbuilt: all.filter(([, , built]) => !built).map(([number]) => number),
  };
  return { lifecycle: String(lifecycle), description };
}

/** @throws LifecycleMismatchError */
function isAsWanted({ lifecycle, description }: Found, wanted: Wanted): boolean {
  if (lifecycle !== wanted.lifecycle) throw otherLifecycle(wanted, lifecycle);
  const known = new Set(description.secondary.map(({ name }) => name));
  return (
    wanted.functions.every((name) => known.has(name)) &&
    !wanted.dropped.some((name) => known.has(name)) &&
    (wanted.mirrored ?? description.mirrored) === description.mirrored
  );
}

function otherLifecycle({ name, lifecycle }: Wanted, stored: string | undefined): LifecycleMismatchError {
  return new LifecycleMismatchError(
    `state index "${name}" was made with another lifecycle. Stored: ${stored}; given: ${lifecycle}. Use another name, or the lifecycle that is stored.`,
  );
}

function registrationOf({ index, generation, secondary }: Description): Registration {
  return { index, generation, secondary: new Map(secondary.map(({ name, number }) => [name, number])) };
}

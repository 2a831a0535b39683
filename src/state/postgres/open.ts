/** Opening a database: its schema as this version needs it, shared by all of this process who open the same. */
import { abortable } from "../../abort.ts";
import { InvalidArgumentError, SchemaVersionError, StateStoreUnavailableError } from "../../errors.ts";
import type { Scope } from "../record-store.ts";
import { clientsOf } from "./client.ts";
import { codeOf } from "./failure.ts";
import { NOW } from "./functions.ts";
import { migration, SCHEMA_VERSION } from "./schema.ts";
import type { Place } from "./source.ts";
import { PostgresStore } from "./store.ts";

const OLDEST_SERVER = 140_000;
/** Undefined table; no such schema. */
const NOT_THERE = ["42P01", "3F000"];

interface Entry {
  readonly opening: Promise<PostgresStore>;
  /** Ends the opening when nobody waits for it any more. */
  readonly abandon: AbortController;
  users: number;
}

const entries = new Map<string, Entry>();
/** Clients, and whatever else is in options that has no text. */
const identities = new WeakMap<object, string>();

export interface StoreLease {
  readonly store: PostgresStore;
  /** The last one closes the store, and ends the client if it is not the caller's. */
  release(): Promise<void>;
}

/** Aborted before it is open: nothing of it is left but, perhaps, the schema. */
export async function acquireStore(place: Place, scope: Scope): Promise<StoreLease> {
  scope.signal?.throwIfAborted();
  const key = keyOf(place);
  let entry = entries.get(key);
  if (entry === undefined) {
    const abandon = new AbortController();
    const opening = open(place, { until: scope.until, signal: abandon.signal });
    entry = { opening, abandon, users: 0 };
    entries.set(key, entry);
  }
  const shared = entry;
  shared.users++;
  const release = async (): Promise<void> => {
    shared.users--;
    if (shared.users > 0) return;
    entries.delete(key);
    shared.abandon.abort();
    const store = await shared.opening.catch(() => null);
    await store?.close();
  };
  try {
    return { store: await abortable(shared.opening, scope.signal), release: once(release) };
  } catch (error) {
    const ended = release();
    ended.catch(() => {});
    // What makes the schema, once it is sent, takes as long as it takes.
    if (!scope.signal?.aborted) await ended;
    throw error;
  }
}

async function open(place: Place, scope: Scope): Promise<PostgresStore> {
  const store = new PostgresStore(clientsOf(place), place.schema);
  try {
    await checkServer(store, scope);
    await migrate(store, scope);
    return store;
  } catch (error) {
    await store.abandon();
    throw error;
  }
}

async function checkServer({ database }: PostgresStore, scope: Scope): Promise<void> {
  const settings = ["server_version_num", "server_encoding", "transaction_isolation", "server_version"];
  const columns = settings.map((name) => `current_setting('${name}')`).join(", ");
  const askedAt = performance.now();
  const [row] = await database.read(`SELECT ${NOW}, ${columns}`, [], scope);
  const [clock, number, encoding, isolation, version] = (row ?? []) as string[];
  database.clock.observe(askedAt, performance.now(), Number(clock));
  if (Number(number) < OLDEST_SERVER)
    throw new StateStoreUnavailableError(database.place, `it is PostgreSQL ${version}; 14 or later is needed`);
  if (encoding !== "UTF8")
    throw new StateStoreUnavailableError(database.place, `its encoding is ${encoding}; UTF8 is needed`);
  if (isolation !== "read committed") {
    const expected = 'a client whose transactions are "read committed" by default';
    throw new InvalidArgumentError("postgres.client", isolation, expected);
  }
}

async function migrate(store: PostgresStore, scope: Scope): Promise<void> {
  const { database } = store;
  if ((await versionOf(store, scope)) !== SCHEMA_VERSION) {
    await database.write(migration(database.schema), () => [], scope);
    const version = await versionOf(store, scope);
    if (version > SCHEMA_VERSION) throw new SchemaVersionError(database.place, version, SCHEMA_VERSION);
  }
  const { schema } = database;
  const [row] = await database.read(
    `SELECT epoch, xid_base, (SELECT max(seq) FROM ${schema}.change),
    pg_snapshot_xmax(pg_current_snapshot())::text FROM ${schema}.store`,
    [],
    scope,
  );
  const [epoch, base, last, xid] = (row ?? []).map(Number) as [number, number, number, number];
  store.epoch = epoch;
  if (last / 4_096 > xid - base) await database.write(`SELECT ${schema}.rebase()`, () => [], scope);
}

async function versionOf({ database }: PostgresStore, scope: Scope): Promise<number> {
  try {
    const [row] = await database.read(`SELECT version FROM ${database.schema}.version`, [], scope);
    return Number(row?.[0]);
  } catch (error) {
    const { cause } = error as Error;
    if (NOT_THERE.includes(codeOf(cause) ?? "")) return 0;
    throw error;
  }
}

function keyOf({ client, driver, url, options, schema }: Place): string {
  const named = (_: string, value: unknown): unknown => {
    if (typeof value !== "function" && !(value instanceof Uint8Array)) return value;
    return identityOf(value);
  };
  const [own, code] = [client, driver].map((each) => (each === null ? null : identityOf(each)));
  return JSON.stringify([schema, own, code, url ?? null, options], named);
}

function identityOf(value: object): string {
  const identity = identities.get(value) ?? crypto.randomUUID();
  identities.set(value, identity);
  return identity;
}

function once(release: () => Promise<void>): () => Promise<void> {
  let released: Promise<void> | undefined;
  return () => {
    released ??= release();
    return released;
  };
}

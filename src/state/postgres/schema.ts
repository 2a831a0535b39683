/**
 * The tables and functions of a PostgreSQL store, by numbered migrations: append to the list, never change an entry that
 * was released. The table `version` holds how many have been applied.
 *
 * Whatever is done is one call of one function: one round trip, one transaction of one statement. The functions fix how they
 * are planned (each look-up by its index), since their plans are kept while tables grow from nothing to millions of rows.
 */
import { crc32 } from "../../digest.ts";
import { FUNCTIONS } from "./functions.ts";

const TABLES = `
  -- One row: what holds for the whole store. Changes are numbered from xid_base; those up to trimmed are gone.
  CREATE TABLE $s.store (
    one       int PRIMARY KEY CHECK (one = 1),
    epoch     bigint NOT NULL,
    xid_base  bigint NOT NULL,
    trimmed   bigint NOT NULL
  );
  INSERT INTO $s.store VALUES (1, 0, pg_current_xact_id()::text::bigint - 1, 0);

  -- A state index: a name and the lifecycle it was opened with. The generation counts changes of its secondary indexes.
  CREATE TABLE $s.state_index (
    idx         int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text COLLATE "C" NOT NULL UNIQUE,
    lifecycle   text NOT NULL,
    generation  int NOT NULL,
    mirrored    boolean NOT NULL
  );

  -- A secondary index of a state index. The one named '' stands for the keys of all: not built when some are given up.
  CREATE TABLE $s.secondary (
    ix     int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    idx    int NOT NULL,
    name   text COLLATE "C" NOT NULL,
    built  boolean NOT NULL,
    UNIQUE (idx, name)
  );

  -- In blocks: a transaction numbers the records that it inserts from the start of one.
  CREATE SEQUENCE $s.record_block INCREMENT BY 1024 MINVALUE 0 START 0;

  -- Listings by state walk record_state; the table has no list beside it that could disagree.
  CREATE TABLE $s.record (
    rec       bigint PRIMARY KEY,
    idx       int NOT NULL,
    id        text COLLATE "C" NOT NULL,
    state     text COLLATE "C" NOT NULL,
    since     bigint NOT NULL,
    created   bigint NOT NULL,
    revision  bigint NOT NULL,
    epoch     bigint NOT NULL,
    origin    text,
    keys      text,              -- JSON [ix, key, ix, key, …]; null until a process that has all functions fills it in
    data      text NOT NULL,     -- JSON
    sum       bigint NOT NULL    -- CRC-32 over everything above but rec
  ) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
  -- One alone begins with idx: of two, the planner may take the wrong one for a look-up by id, and keep to it, as long as it
  -- takes the table for empty.
  CREATE UNIQUE INDEX record_id ON $s.record (idx, id);
  CREATE INDEX record_state ON $s.record (state, idx, since, rec) WITH (fillfactor = 80);
  CREATE INDEX record_unkeyed ON $s.record (rec) WHERE keys IS NULL;

  -- What listings by key walk. Redundant: made of record, in the same transaction, always.
  CREATE TABLE $s.entry (
    ix     int NOT NULL,
    state  text COLLATE "C" NOT NULL,
    key    text COLLATE "C" NOT NULL,
    since  bigint NOT NULL,
    rec    bigint NOT NULL,
    PRIMARY KEY (ix, state, key, since, rec)
  ) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

  -- How many records are in a state: the sum over its shards. Each connection counts in a shard of its own, as good as
  -- always, so that no writer waits for the commit of another; a shard alone may be below zero.
  CREATE TABLE $s.counter (
    idx    int NOT NULL,
    state  text COLLATE "C" NOT NULL,
    shard  int NOT NULL,
    n      bigint NOT NULL,
    PRIMARY KEY (idx, state, shard)
  ) WITH (fillfactor = 20);

  -- The latest changes of all indexes, for watchers, and those that a mirror has not delivered yet. The number is that of
  -- the transaction, then the place within it: below the oldest transaction that is under way no other will ever come.
  CREATE TABLE $s.change (
    seq       bigint PRIMARY KEY,
    at        bigint NOT NULL,
    prev      text,
    mirror    boolean NOT NULL,
    idx       int NOT NULL,
    rec       bigint NOT NULL,
    id        text NOT NULL,
    state     text NOT NULL,
    since     bigint NOT NULL,
    created   bigint NOT NULL,
    revision  bigint NOT NULL,
    epoch     bigint NOT NULL,
    origin    text,
    keys      text,
    data      text NOT NULL,
    sum       bigint NOT NULL
  ) WITH (autovacuum_vacuum_scale_factor = 0.5, autovacuum_vacuum_insert_scale_factor = 0.5);
  CREATE INDEX change_outbox ON $s.change (idx, seq) WHERE mirror;
  CREATE INDEX change_outbox_record ON $s.change (rec) WHERE mirror;

  -- How far each import has come; null when its source has never said.
  CREATE TABLE $s.import_mark (
    idx        int NOT NULL,
    name       text COLLATE "C" NOT NULL,
    watermark  text,
    PRIMARY KEY (idx, name)
  );

  -- Records that were pruned and that a source might bring back. sum: the record's.
  CREATE TABLE $s.tombstone (
    idx     int NOT NULL,
    id      text COLLATE "C" NOT NULL,
    state   text NOT NULL,
    since   bigint NOT NULL,
    origin  text,
    sum     bigint NOT NULL,
    PRIMARY KEY (idx, id)
  );

  CREATE TABLE $s.control_plane (
    key   text COLLATE "C" PRIMARY KEY,
    data  bytea NOT NULL
  );
`;

const MIGRATIONS: readonly string[] = [TABLES + FUNCTIONS];

/** What this version knows. */
export const SCHEMA_VERSION = MIGRATIONS.length;

/** Of advisory locks: what tells this library's from others of the database. */
const LOCK_SPACE = 0x7475736b; // "tusk"

/** The two numbers of an advisory lock, as SQL. */
export function lockOf(schema: string, what: string): string {
  return `${LOCK_SPACE}, ${crc32(`${schema} ${what}`) | 0}`;
}

/** On this channel a server is told that others have committed. */
export function channelOf(schema: string): string {
  return `tussock_${schema}`;
}

/** One statement that brings the schema up to date, whoever else does the same just now. */
export function migration(schema: string): string {
  const steps = MIGRATIONS.map((step, at) => {
    const text = step.replaceAll(/\$s\b/g, schema).replaceAll(/\$writers\b/g, lockOf(schema, "writers"));
    return `IF known < ${at + 1} THEN EXECUTE $migration$${text}$migration$; END IF;`;
  });
  return `DO $do$ DECLARE known int; BEGIN
    PERFORM pg_advisory_xact_lock(${lockOf(schema, "migration")});
    IF to_regnamespace('${schema}') IS NULL THEN CREATE SCHEMA ${schema}; END IF;
    IF to_regclass('${schema}.version') IS NULL THEN
      CREATE TABLE ${schema}.version (one int PRIMARY KEY CHECK (one = 1), version int NOT NULL);
      INSERT INTO ${schema}.version VALUES (1, 0);
    END IF;
    SELECT version INTO known FROM ${schema}.version;
    ${steps.join("\n")}
    IF known < ${MIGRATIONS.length} THEN UPDATE ${schema}.version SET version = ${MIGRATIONS.length}; END IF;
  END $do$`;
}

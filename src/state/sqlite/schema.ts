/**
 * The tables of `state.db`, by numbered migrations: append to the list, never change an entry that was released.
 * `PRAGMA user_version` holds how many have been applied. Every `sum` is a CRC-32 over the row: see checks.ts.
 */
export const APPLICATION_ID = 0x7475736b; // "tusk"

export const MIGRATIONS: readonly string[] = [
  `
  -- One row: what holds for the whole store.
  CREATE TABLE store (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    epoch  INTEGER NOT NULL,
    sum    INTEGER NOT NULL
  ) STRICT;

  -- A state index: a name and the lifecycle it was opened with. The generation counts changes of its secondary indexes.
  CREATE TABLE state_index (
    idx         INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    lifecycle   TEXT NOT NULL,
    generation  INTEGER NOT NULL,
    mirrored    INTEGER NOT NULL,
    sum         INTEGER NOT NULL
  ) STRICT;

  -- A secondary index of a state index. The one named '' lists by state alone, under the key ''.
  CREATE TABLE secondary (
    ix     INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used again
    idx    INTEGER NOT NULL,
    name   TEXT NOT NULL,
    built  INTEGER NOT NULL,
    sum    INTEGER NOT NULL,
    UNIQUE (idx, name)
  ) STRICT;

  CREATE TABLE record (
    rec       INTEGER PRIMARY KEY,
    idx       INTEGER NOT NULL,
    id        TEXT NOT NULL,
    state     TEXT NOT NULL,
    since     INTEGER NOT NULL,
    created   INTEGER NOT NULL,
    revision  INTEGER NOT NULL,
    epoch     INTEGER NOT NULL,
    origin    TEXT,
    keys      TEXT,              -- JSON [ix, key, ix, key, …]; NULL until a process that has all functions fills it in
    data      TEXT NOT NULL,     -- JSON
    sum       INTEGER NOT NULL   -- CRC-32 over everything above but rec
  ) STRICT;
  CREATE UNIQUE INDEX record_id ON record (idx, id);
  CREATE INDEX record_unkeyed ON record (idx) WHERE keys IS NULL;

  -- What listings walk. Redundant: made of record, in the same transaction, always.
  CREATE TABLE entry (
    ix     INTEGER NOT NULL,
    key    TEXT NOT NULL,
    state  TEXT NOT NULL,
    since  INTEGER NOT NULL,
    rec    INTEGER NOT NULL,
    PRIMARY KEY (ix, key, state, since, rec)
  ) STRICT, WITHOUT ROWID;

  -- How many records are in a state. Redundant like entry.
  CREATE TABLE counter (
    idx    INTEGER NOT NULL,
    state  TEXT NOT NULL,
    n      INTEGER NOT NULL,
    sum    INTEGER NOT NULL,
    PRIMARY KEY (idx, state)
  ) STRICT, WITHOUT ROWID;

  -- The latest changes of all indexes, for watchers. sum goes on from the record's over prev.
  CREATE TABLE change (
    seq       INTEGER PRIMARY KEY,
    prev      TEXT,
    idx       INTEGER NOT NULL,
    rec       INTEGER NOT NULL,
    id        TEXT NOT NULL,
    state     TEXT NOT NULL,
    since     INTEGER NOT NULL,
    created   INTEGER NOT NULL,
    revision  INTEGER NOT NULL,
    epoch     INTEGER NOT NULL,
    origin    TEXT,
    keys      TEXT,
    data      TEXT NOT NULL,
    sum       INTEGER NOT NULL
  ) STRICT;

  -- Changes of mirrored indexes that the mirror has not delivered yet.
  CREATE TABLE outbox (
    seq       INTEGER PRIMARY KEY,
    at        INTEGER NOT NULL,
    prev      TEXT,
    idx       INTEGER NOT NULL,
    rec       INTEGER NOT NULL,
    id        TEXT NOT NULL,
    state     TEXT NOT NULL,
    since     INTEGER NOT NULL,
    created   INTEGER NOT NULL,
    revision  INTEGER NOT NULL,
    epoch     INTEGER NOT NULL,
    origin    TEXT,
    keys      TEXT,
    data      TEXT NOT NULL,
    sum       INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX outbox_order ON outbox (idx, seq);
  CREATE INDEX outbox_record ON outbox (idx, rec, seq);

  -- How far each import has come; NULL when its source has never said.
  CREATE TABLE import_mark (
    idx        INTEGER NOT NULL,
    name       TEXT NOT NULL,
    watermark  TEXT,
    sum        INTEGER NOT NULL,
    PRIMARY KEY (idx, name)
  ) STRICT, WITHOUT ROWID;

  -- Records that were pruned and that a source might bring back.
  CREATE TABLE tombstone (
    idx     INTEGER NOT NULL,
    id      TEXT NOT NULL,
    state   TEXT NOT NULL,
    since   INTEGER NOT NULL,
    origin  TEXT,
    sum     INTEGER NOT NULL,
    PRIMARY KEY (idx, id)
  ) STRICT, WITHOUT ROWID;
  `,
  `
  -- Entries by state first: what is in a live state lies together, whatever its keys, and a commit of many workers'
  -- changes touches few pages.
  CREATE TABLE entry_by_state (
    ix     INTEGER NOT NULL,
    state  TEXT NOT NULL,
    key    TEXT NOT NULL,
    since  INTEGER NOT NULL,
    rec    INTEGER NOT NULL,
    PRIMARY KEY (ix, state, key, since, rec)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO entry_by_state (ix, state, key, since, rec) SELECT ix, state, key, since, rec FROM entry
    ORDER BY ix, state, key, since, rec;
  DROP TABLE entry;
  ALTER TABLE entry_by_state RENAME TO entry;
  `,
];

/** Every statement that runs against `state.db`, apart from the schema. */

const COLUMNS = "rec, id, state, since, created, revision, epoch, origin, keys, data, sum";
const RECORD = COLUMNS.replaceAll(/\w+/g, "r.$&");
const VALUES = "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?";
/**
 * In place of a bare parameter behind LIMIT: SQLite plans by that one's value, and so compiles the statement anew each time it
 * is bound (as `sqlite3_prepare_v2` documents of parameters that might influence a plan): half of a short listing's time.
 */
const AS_INTEGER = "CAST(? AS INTEGER)";

// ── the store, its indexes, their secondary indexes ─────────────────────────────────────────────────

/** Another one whenever another connection has committed; inside a transaction, before it began. */
export const DATA_VERSION = "PRAGMA data_version";

export const STORE = "SELECT epoch, sum FROM store WHERE one = 1";
export const SET_STORE =
  "INSERT INTO store (one, epoch, sum) VALUES (1, ?, ?) ON CONFLICT (one) DO UPDATE SET epoch = excluded.epoch, sum = excluded.sum";

export const STATE_INDEX_BY_NUMBER =
  "SELECT idx, name, lifecycle, generation, mirrored, sum FROM state_index WHERE idx = ?";
export const STATE_INDEXES = "SELECT idx, name, lifecycle, generation, mirrored, sum FROM state_index ORDER BY idx";
export const INSERT_STATE_INDEX =
  "INSERT INTO state_index (idx, name, lifecycle, generation, mirrored, sum) VALUES (?, ?, ?, ?, ?, ?)";
export const UPDATE_STATE_INDEX = "UPDATE state_index SET generation = ?, mirrored = ?, sum = ? WHERE idx = ?";
export const NEXT_STATE_INDEX = "SELECT coalesce(max(idx), 0) + 1 AS next FROM state_index";

export const SECONDARIES = "SELECT ix, idx, name, built, sum FROM secondary ORDER BY ix";
export const INSERT_SECONDARY = "INSERT INTO secondary (idx, name, built, sum) VALUES (?, ?, ?, ?)";
export const SET_BUILT = "UPDATE secondary SET built = ?, sum = ? WHERE ix = ?";
export const DELETE_SECONDARY = "DELETE FROM secondary WHERE ix = ?";
export const DROP_ENTRIES = "DELETE FROM entry WHERE ix = ?";

// ── records ─────────────────────────────────────────────────────────────────────────────────────────

export const GET = `SELECT ${COLUMNS} FROM record WHERE idx = ? AND id = ?`;
/** Ids as the records have them that the index of ids leads to. */
const ids = (which: string) =>
  `SELECT b.id FROM (SELECT rec FROM record WHERE idx = ?1 ${which}) AS a CROSS JOIN record AS b ON b.rec = a.rec`;
/**
 * What the index of ids has around an id: the record itself, the two on either side (the nearest first), the one before
 * the next, the first and the last. One statement, so that it sees one state. Parameters: idx, id.
 */
export const AROUND_ID = `
  SELECT 'at' AS place, id FROM (${ids("AND id = ?2")})
  UNION ALL SELECT 'before', id FROM (${ids("AND id < ?2 ORDER BY id DESC LIMIT 2")})
  UNION ALL SELECT 'behind', id FROM (${ids("AND id > ?2 ORDER BY id LIMIT 2")})
  UNION ALL SELECT 'beforeNext', id FROM (${ids(`AND id < (${ids("AND id > ?2 ORDER BY id LIMIT 1")}) ORDER BY id DESC LIMIT 1`)})
  UNION ALL SELECT 'first', id FROM (${ids("ORDER BY id LIMIT 1")})
  UNION ALL SELECT 'last', id FROM (${ids("ORDER BY id DESC LIMIT 1")})`;
export const INSERT = `INSERT INTO record (idx, ${COLUMNS}) VALUES (?, NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (idx, id) DO NOTHING`;
/** Compare-and-set: the checksum stands for the whole row, also for one that was pruned and inserted anew. */
export const UPDATE = `UPDATE record SET state = ?, since = ?, created = ?, revision = ?, epoch = ?, origin = ?, keys = ?, data = ?, sum = ?
  WHERE rec = ? AND idx = ? AND id = ? AND revision = ? AND sum = ?`;
export const DELETE = "DELETE FROM record WHERE rec = ? AND idx = ? AND id = ?";
export const UNKEYED = `SELECT ${COLUMNS} FROM record WHERE idx = ? AND keys IS NULL LIMIT ${AS_INTEGER}`;
export const RECORDS_FROM = `SELECT idx, ${COLUMNS} FROM record WHERE rec > ? ORDER BY rec LIMIT ${AS_INTEGER}`;

export const INSERT_ENTRY = "INSERT INTO entry (ix, state, key, since, rec) VALUES (?, ?, ?, ?, ?)";
export const DELETE_ENTRY = "DELETE FROM entry WHERE ix = ? AND state = ? AND key = ? AND since = ? AND rec = ?";

/** Small, and read whole: a row that its own index has lost does not go unnoticed. */
export const COUNTERS = "SELECT idx, state, n, sum FROM counter";
export const COUNTER = "SELECT n, sum FROM counter WHERE idx = ? AND state = ?";
export const SET_COUNTER =
  "INSERT INTO counter (idx, state, n, sum) VALUES (?, ?, ?, ?) ON CONFLICT (idx, state) DO UPDATE SET n = excluded.n, sum = excluded.sum";

// ── listings ────────────────────────────────────────────────────────────────────────────────────────

const UP = "ORDER BY ix, state, key, since, rec";
const DOWN = "ORDER BY ix DESC, state DESC, key DESC, since DESC, rec DESC";

/**
 * Entries of one key in one state, with their records: those of one time, and those between two times, the ends left out. One
 * comparison of times and numbers together would be made again for each entry, and one that is damaged left out without a
 * word. `fits` says whether the entry is that of its record; an entry whose record is gone comes with nulls. Parameters: idx,
 * ix, state, key, then since, rec above, rec below, or since above, since below; limit.
 */
const walk = (
  range: string,
  order: string,
) => `SELECT ${RECORD}, r.idx = ? AND e.state = r.state AND e.since = r.since AS fits
  FROM entry AS e LEFT JOIN record AS r ON r.rec = e.rec
  WHERE e.ix = ? AND e.state = ? AND e.key = ? AND ${range} ${order} LIMIT ${AS_INTEGER}`;
const ONE_TIME = "e.since = ? AND e.rec > ? AND e.rec < ?";
const BETWEEN_TIMES = "e.since > ? AND e.since < ?";
export const WALK = {
  up: {
    oneTime: walk(ONE_TIME, "ORDER BY e.rec"),
    between: walk(BETWEEN_TIMES, "ORDER BY e.since, e.rec"),
  },
  down: {
    oneTime: walk(ONE_TIME, "ORDER BY e.rec DESC"),
    between: walk(BETWEEN_TIMES, "ORDER BY e.since DESC, e.rec DESC"),
  },
} as const;

/** The two entries next to a place, whatever they belong to. Parameters: ix, state, key, since, rec. */
const neighbours = (side: string, order: string) => `SELECT e.ix, e.state, e.key, e.since, e.rec, r.idx, r.keys,
    e.state = r.state AND e.since = r.since AS fits
  FROM (SELECT * FROM entry WHERE (ix, state, key, since, rec) ${side} (?, ?, ?, ?, ?) ${order} LIMIT 2) AS e
  LEFT JOIN record AS r ON r.rec = e.rec`;
export const ENTRIES_UP_TO = neighbours("<=", DOWN);
export const ENTRIES_BEHIND = neighbours(">", UP);
export const ENTRIES_FROM = neighbours(">=", UP);
export const ENTRIES_BEFORE = neighbours("<", DOWN);

/** The last of one state, or the one so many before it. */
export const LAST_ENTRY =
  "SELECT since, rec FROM entry WHERE ix = ? AND state = ? AND key = ? ORDER BY since DESC, rec DESC LIMIT 1 OFFSET ?";

// ── pruning ─────────────────────────────────────────────────────────────────────────────────────────

/** Parameters: ix, state, before (since), up to (since, rec) inclusive, limit. What the mirror still has to write stays. */
export const PRUNABLE = `SELECT ${RECORD} FROM entry AS e JOIN record AS r ON r.rec = e.rec
  WHERE e.ix = ? AND e.state = ? AND e.key = '' AND e.since < ? AND (e.since, e.rec) <= (?, ?)
    AND NOT EXISTS (SELECT 1 FROM outbox AS o WHERE o.idx = r.idx AND o.rec = r.rec)
  ORDER BY e.since, e.rec LIMIT ${AS_INTEGER}`;

export const TOMBSTONE = "SELECT state, since, origin, sum FROM tombstone WHERE idx = ? AND id = ?";
export const SET_TOMBSTONE =
  "INSERT INTO tombstone (idx, id, state, since, origin, sum) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (idx, id) DO UPDATE SET state = excluded.state, since = excluded.since, origin = excluded.origin, sum = excluded.sum";
export const DELETE_TOMBSTONE = "DELETE FROM tombstone WHERE idx = ? AND id = ?";
/** Whether some source could bring pruned records back: an import or a mirror has been seen. */
export const HAS_IMPORTS = "SELECT 1 AS yes FROM import_mark WHERE idx = ? LIMIT 1";

// ── changes and the mirror's outbox ─────────────────────────────────────────────────────────────────

export const INSERT_CHANGE = `INSERT INTO change (seq, prev, idx, ${COLUMNS}) VALUES (NULL, ?, ?, ${VALUES})`;
export const TRIM_CHANGES = "DELETE FROM change WHERE seq <= ?";
/** One by one: SQLite finds the least and the greatest at the ends of the tree only where it is asked for one of them. */
export const CHANGE_RANGE =
  "SELECT coalesce((SELECT min(seq) FROM change), 0) AS first, coalesce((SELECT max(seq) FROM change), 0) AS last";
export const CHANGES = `SELECT seq, prev, ${COLUMNS} FROM change WHERE seq > ? AND seq <= ? AND idx = ? ORDER BY seq LIMIT ${AS_INTEGER}`;

export const INSERT_OUTBOX = `INSERT INTO outbox (seq, at, prev, idx, ${COLUMNS}) VALUES (?, ?, ?, ?, ${VALUES})`;
export const OUTBOX = `SELECT seq, prev, ${COLUMNS} FROM outbox WHERE idx = ? AND seq > ? ORDER BY seq LIMIT ${AS_INTEGER}`;
export const OUTBOX_STATS = "SELECT count(*) AS pending, min(at) AS oldest FROM outbox WHERE idx = ?";
export const DELETE_OUTBOX = "DELETE FROM outbox WHERE seq = ? AND idx = ?";
export const CLEAR_OUTBOX = "DELETE FROM outbox WHERE idx = ?";

// ── imports ─────────────────────────────────────────────────────────────────────────────────────────

export const MARKS = "SELECT idx, name, watermark, sum FROM import_mark";
/** A mark that is NULL leaves the one that is there. */
export const SET_MARK =
  "INSERT INTO import_mark (idx, name, watermark, sum) VALUES (?, ?, ?, ?) ON CONFLICT (idx, name) DO UPDATE SET watermark = excluded.watermark, sum = excluded.sum WHERE excluded.watermark IS NOT NULL";

// ── inspection ──────────────────────────────────────────────────────────────────────────────────────

export const SCHEMA = "SELECT name, sql FROM sqlite_schema WHERE type IN ('table', 'index') ORDER BY name";
export const HAS_ENTRY = "SELECT 1 AS yes FROM entry WHERE ix = ? AND state = ? AND key = ? AND since = ? AND rec = ?";
export const ENTRY_COUNTS = "SELECT ix, count(*) AS n FROM entry GROUP BY ix";
export const CHANGES_FROM = `SELECT seq, idx, prev, ${COLUMNS} FROM change WHERE seq > ? ORDER BY seq LIMIT ${AS_INTEGER}`;
export const OUTBOX_FROM = `SELECT seq, idx, prev, ${COLUMNS} FROM outbox WHERE seq > ? ORDER BY seq LIMIT ${AS_INTEGER}`;
export const ALL_TOMBSTONES = "SELECT idx, id, state, since, origin, sum FROM tombstone";

/**
 * What is done to the tables, as functions of the database: part of the first migration. `$s` is the schema, `$writers` the
 * lock that writers share and that whoever changes the epoch or the indexes has alone.
 */

/** Every look-up by its index, whatever the planner thinks of tables that were small a moment ago. */
const PLANNED = "SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off";

/** Epoch milliseconds, as the statement is run. */
export const NOW = "extract(epoch FROM clock_timestamp())::float8 * 1000";

/** How a transaction of one statement begins. In a mode of its own for commits, and never waiting longer than its caller. */
const BEGIN_WRITE = `
    IF NOT p_flushed THEN PERFORM set_config('synchronous_commit', 'off', true);
    ELSIF current_setting('synchronous_commit') = 'off' THEN PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM set_config('lock_timeout', p_patience::text, true);`;

/** Shared: the epoch, the secondary indexes and the mirror stay as they are read until this transaction has ended. */
const SHARE = "PERFORM pg_advisory_xact_lock_shared($writers);";
const EXCLUDE = "PERFORM pg_advisory_xact_lock($writers);";

/**
 * Where an entry lies. As one of a list of places, or joined by its place, each is looked up by itself: by its columns the
 * planner may join a table that was small when it was last analyzed by going through all of it, for each row.
 */
const entryAt = (ix: string, state: string, key: string, since: string, rec: string) =>
  `(SELECT a.ctid FROM $s.entry AS a
    WHERE a.ix = ${ix} AND a.state = ${state} AND a.key = ${key} AND a.since = ${since} AND a.rec = ${rec} LIMIT 1)`;

/** The mirror has nothing of this record to write any more. In this form it is one search for each, see {@link entryAt}. */
const NOT_PENDING = `NOT EXISTS (
          SELECT FROM (SELECT o.rec FROM $s.change AS o WHERE o.mirror AND o.rec >= r.rec ORDER BY o.rec LIMIT 1) AS f
          WHERE f.rec = r.rec)`;

const COLUMNS = "rec, idx, id, state, since, created, revision, epoch, origin, keys, data, sum";

/**
 * Applies each change whose base is what is stored, all in one transaction. Arrays of one length: the changes, in the order
 * of their bases' numbers, so that two transactions never wait for each other. base 0: there must be none of that id.
 * made_in -1: in whatever epoch. tombstone -2: whatever is known of pruned ones, -1: none. e_…: which entries go with which
 * change; from null: a new one, to null: one to remove.
 */
const WRITE = `
  CREATE FUNCTION $s.write_changes(
    p_idx int, p_generation int, p_flushed boolean, p_patience int, p_quiet boolean, p_mark text, p_watermark text,
    p_base bigint[], p_base_revision bigint[], p_base_sum bigint[], p_base_state text[], p_made_in bigint[],
    p_tombstone bigint[], p_id text[], p_state text[], p_since bigint[], p_created bigint[], p_revision bigint[],
    p_epoch bigint[], p_origin text[], p_keys text[], p_data text[], p_sum bigint[],
    e_n int[], e_ix int[], e_key text[], e_from text[], e_from_since bigint[], e_to text[], e_to_since bigint[]
  ) RETURNS TABLE (done text, store_epoch bigint, is_current boolean, clock float8)
  LANGUAGE plpgsql ${PLANNED} AS $fn$
  #variable_conflict use_column
  DECLARE
    v_store record;
    v_rec bigint[] := array_fill(0::bigint, ARRAY[cardinality(p_id)]);
    v_block bigint;
    v_n bigint;
    v_r bigint;
    v_applied int := 0;
    v_expected int;
    v_found int;
  BEGIN${BEGIN_WRITE}
    ${SHARE}
    SELECT s.epoch, s.xid_base, i.generation, i.mirrored INTO v_store
      FROM $s.store AS s, $s.state_index AS i WHERE i.idx = p_idx;
    IF NOT FOUND THEN RAISE 'state index % is gone', p_idx USING ERRCODE = 'TK001'; END IF;
    IF v_store.generation <> p_generation THEN
      RETURN QUERY SELECT '', v_store.epoch, false, ${NOW};
      RETURN;
    END IF;

    FOR v_n, v_r IN
      UPDATE $s.record AS r SET state = i.state, since = i.since, created = i.created, revision = i.revision,
        epoch = i.epoch, origin = i.origin, keys = i.keys, data = i.data, sum = i.sum
      FROM (
        SELECT c.*, (SELECT a.ctid FROM $s.record AS a WHERE a.rec >= c.base ORDER BY a.rec LIMIT 1) AS place
        FROM unnest(p_base, p_base_revision, p_base_sum, p_made_in, p_id, p_state, p_since, p_created, p_revision,
            p_epoch, p_origin, p_keys, p_data, p_sum) WITH ORDINALITY
          AS c (base, base_revision, base_sum, made_in, id, state, since, created, revision, epoch, origin, keys, data, sum, n)
        WHERE c.base > 0 AND (c.made_in = -1 OR c.made_in = v_store.epoch) OFFSET 0
      ) AS i
      WHERE r.ctid = i.place
        AND r.rec = i.base AND r.idx = p_idx AND r.id = i.id AND r.revision = i.base_revision AND r.sum = i.base_sum
      RETURNING i.n, r.rec
    LOOP
      v_rec[v_n] := v_r;
      v_applied := v_applied + 1;
    END LOOP;

    IF 0 = ANY (p_base) THEN
      v_block := nextval('$s.record_block');
      FOR v_r IN
        INSERT INTO $s.record (${COLUMNS})
        SELECT v_block + i.n, p_idx, i.id, i.state, i.since, i.created, i.revision, i.epoch, i.origin, i.keys, i.data, i.sum
        FROM unnest(p_base, p_made_in, p_tombstone, p_id, p_state, p_since, p_created, p_revision, p_epoch, p_origin,
            p_keys, p_data, p_sum) WITH ORDINALITY
          AS i (base, made_in, tombstone, id, state, since, created, revision, epoch, origin, keys, data, sum, n)
        WHERE i.base = 0 AND (i.made_in = -1 OR i.made_in = v_store.epoch) AND (i.tombstone = -2 OR i.tombstone =
          coalesce((SELECT t.sum FROM $s.tombstone AS t WHERE t.idx = p_idx AND t.id = i.id), -1))
        ORDER BY i.id
        ON CONFLICT (idx, id) DO NOTHING
        RETURNING rec
      LOOP
        v_rec[v_r - v_block] := v_r;
        v_applied := v_applied + 1;
      END LOOP;
    END IF;

    IF v_applied > 0 THEN
      IF cardinality(e_n) > 0 THEN
        SELECT count(*) FILTER (WHERE e.origin IS NOT NULL) INTO v_expected
          FROM unnest(e_n, e_from) AS e (n, origin) WHERE v_rec[e.n] > 0;
        v_found := 0;
        IF v_expected > 0 THEN
          UPDATE $s.entry AS t SET state = e.into_state, since = e.into_since
            FROM (
              SELECT d.into_state, d.into_since, ${entryAt("d.ix", "d.from_state", "d.key", "d.from_since", "v_rec[d.n]")} AS place
              FROM unnest(e_n, e_ix, e_key, e_from, e_from_since, e_to, e_to_since)
                AS d (n, ix, key, from_state, from_since, into_state, into_since)
              WHERE v_rec[d.n] > 0 AND d.from_state IS NOT NULL AND d.into_state IS NOT NULL OFFSET 0
            ) AS e
            WHERE t.ctid = e.place;
          GET DIAGNOSTICS v_found = ROW_COUNT;
        END IF;
        IF v_found < v_expected THEN
          DELETE FROM $s.entry AS t WHERE t.ctid = ANY (ARRAY (
            SELECT ${entryAt("d.ix", "d.from_state", "d.key", "d.from_since", "v_rec[d.n]")}
            FROM unnest(e_n, e_ix, e_key, e_from, e_from_since, e_to) AS d (n, ix, key, from_state, from_since, into_state)
            WHERE v_rec[d.n] > 0 AND d.from_state IS NOT NULL AND d.into_state IS NULL));
          GET DIAGNOSTICS v_n = ROW_COUNT;
          IF v_found + v_n <> v_expected THEN
            RAISE 'of % entries % are not there', v_expected, v_expected - v_found - v_n USING ERRCODE = 'TK001';
          END IF;
        END IF;
        IF v_expected < cardinality(e_n) THEN
          INSERT INTO $s.entry (ix, state, key, since, rec)
            SELECT e.ix, e.into_state, e.key, e.into_since, v_rec[e.n]
            FROM unnest(e_n, e_ix, e_key, e_from, e_to, e_to_since) AS e (n, ix, key, from_state, into_state, into_since)
            WHERE v_rec[e.n] > 0 AND e.from_state IS NULL;
        END IF;
      END IF;

      IF NOT p_quiet THEN
        INSERT INTO $s.change (seq, at, prev, mirror, ${COLUMNS})
          SELECT (pg_current_xact_id()::text::bigint - v_store.xid_base) * 4096 + i.n, ${NOW}, i.prev, v_store.mirrored,
            i.rec, p_idx, i.id, i.state, i.since, i.created, i.revision, i.epoch, i.origin, i.keys, i.data, i.sum
          FROM unnest(v_rec, p_base_state, p_id, p_state, p_since, p_created, p_revision, p_epoch, p_origin, p_keys, p_data,
              p_sum) WITH ORDINALITY
            AS i (rec, prev, id, state, since, created, revision, epoch, origin, keys, data, sum, n)
          WHERE i.rec > 0;
      END IF;

      INSERT INTO $s.counter AS c (idx, state, shard, n)
        SELECT p_idx, d.state, pg_backend_pid() % 32, sum(d.by) FROM (
          SELECT i.state, 1 AS by FROM unnest(v_rec, p_base_state, p_state) AS i (rec, base, state)
            WHERE i.rec > 0 AND i.base IS DISTINCT FROM i.state
          UNION ALL
          SELECT i.base, -1 FROM unnest(v_rec, p_base_state, p_state) AS i (rec, base, state)
            WHERE i.rec > 0 AND i.base <> i.state
        ) AS d GROUP BY d.state HAVING sum(d.by) <> 0 ORDER BY d.state
        ON CONFLICT (idx, state, shard) DO UPDATE SET n = c.n + excluded.n;
    END IF;

    IF p_mark IS NOT NULL AND v_applied = cardinality(p_id) THEN
      INSERT INTO $s.import_mark AS m (idx, name, watermark) VALUES (p_idx, p_mark, p_watermark)
        ON CONFLICT (idx, name) DO UPDATE SET watermark = coalesce(excluded.watermark, m.watermark);
    END IF;
    RETURN QUERY SELECT array_to_string(v_rec, ','), v_store.epoch, true, ${NOW};
  END $fn$;
`;

/**
 * Removes the oldest of a state. First they are locked, then looked at once more: what was changed until then goes on. What
 * the mirror still has to write stays.
 */
const PRUNE = `
  CREATE FUNCTION $s.prune(
    p_idx int, p_flushed boolean, p_patience int, p_state text, p_before bigint, p_keep bigint, p_limit int
  ) RETURNS TABLE (pruned int, more boolean)
  LANGUAGE plpgsql ${PLANNED} AS $fn$
  DECLARE
    v_end record;
    v_buries boolean;
    v_locked tid[];
    v_pruned int;
  BEGIN${BEGIN_WRITE}
    ${SHARE}
    SELECT r.since, r.rec INTO v_end FROM $s.record AS r WHERE r.idx = p_idx AND r.state = p_state
      ORDER BY r.since DESC, r.rec DESC OFFSET p_keep LIMIT 1;
    IF NOT FOUND THEN
      RETURN QUERY SELECT 0, false;
      RETURN;
    END IF;
    SELECT i.mirrored OR EXISTS (SELECT FROM $s.import_mark AS m WHERE m.idx = p_idx) INTO v_buries
      FROM $s.state_index AS i WHERE i.idx = p_idx;
    v_locked := ARRAY (
      SELECT r.ctid FROM $s.record AS r
      WHERE r.idx = p_idx AND r.state = p_state AND r.since < p_before AND (r.since, r.rec) <= (v_end.since, v_end.rec)
        AND ${NOT_PENDING}
      ORDER BY r.since, r.rec LIMIT p_limit FOR UPDATE OF r SKIP LOCKED);
    WITH gone AS (
      DELETE FROM $s.record AS r
      WHERE r.ctid = ANY (v_locked) AND r.idx = p_idx AND r.state = p_state AND r.since < p_before AND ${NOT_PENDING}
      RETURNING r.rec, r.id, r.state, r.since, r.origin, r.keys, r.sum
    ), listed AS (
      SELECT (k.keys ->> (2 * at))::int AS ix, k.state, k.keys ->> (2 * at + 1) AS key, k.since, k.rec
      FROM (SELECT gone.keys::jsonb AS keys, gone.state, gone.since, gone.rec FROM gone WHERE gone.keys IS NOT NULL) AS k,
        generate_series(0, jsonb_array_length(k.keys) / 2 - 1) AS at
    ), unlisted AS (
      DELETE FROM $s.entry AS e WHERE e.ctid = ANY (ARRAY (
        SELECT ${entryAt("l.ix", "l.state", "l.key", "l.since", "l.rec")} FROM listed AS l))
    ), buried AS (
      INSERT INTO $s.tombstone AS t (idx, id, state, since, origin, sum)
      SELECT p_idx, gone.id, p_state, gone.since, gone.origin, gone.sum FROM gone
        WHERE v_buries OR gone.origin IS NOT NULL ORDER BY gone.id
      ON CONFLICT (idx, id) DO UPDATE SET state = excluded.state, since = excluded.since, origin = excluded.origin,
        sum = excluded.sum
    )
    SELECT count(*) INTO v_pruned FROM gone;
    IF v_pruned > 0 THEN
      INSERT INTO $s.counter AS c (idx, state, shard, n) VALUES (p_idx, p_state, pg_backend_pid() % 32, -v_pruned)
        ON CONFLICT (idx, state, shard) DO UPDATE SET n = c.n + excluded.n;
    END IF;
    RETURN QUERY SELECT v_pruned, cardinality(v_locked) = p_limit;
  END $fn$;
`;

/** Finds the index of that name or makes it, and brings its secondary indexes to what the caller has functions for. */
const REGISTER = `
  CREATE FUNCTION $s.register(
    p_flushed boolean, p_patience int, p_name text, p_lifecycle text, p_functions text[], p_dropped text[],
    p_mirrored boolean
  ) RETURNS void LANGUAGE plpgsql ${PLANNED} AS $fn$
  DECLARE
    v_index record;
    v_moved boolean := false;
    v_gone int[];
  BEGIN${BEGIN_WRITE}
    ${EXCLUDE}
    SELECT * INTO v_index FROM $s.state_index AS i WHERE i.name = p_name;
    IF NOT FOUND THEN
      INSERT INTO $s.state_index (name, lifecycle, generation, mirrored)
        VALUES (p_name, p_lifecycle, 1, coalesce(p_mirrored, false)) RETURNING * INTO v_index;
      INSERT INTO $s.secondary (idx, name, built)
        SELECT v_index.idx, each.name, true FROM unnest(array_prepend(''::text, p_functions)) AS each (name);
      RETURN;
    END IF;
    IF v_index.lifecycle <> p_lifecycle THEN
      RAISE '%', v_index.lifecycle USING ERRCODE = 'TK002';
    END IF;
    INSERT INTO $s.secondary (idx, name, built) SELECT v_index.idx, each.name, false
      FROM unnest(p_functions) AS each (name) ON CONFLICT (idx, name) DO NOTHING;
    v_moved := FOUND;
    WITH gone AS (
      DELETE FROM $s.secondary AS x WHERE x.idx = v_index.idx AND x.name = ANY (p_dropped) RETURNING x.ix
    ) SELECT array_agg(gone.ix) INTO v_gone FROM gone;
    IF v_gone IS NOT NULL THEN
      v_moved := true;
      DELETE FROM $s.entry AS e WHERE e.ix = ANY (v_gone);
      -- Records still say that they are under its keys: the next process that knows all functions goes through them.
      UPDATE $s.secondary AS x SET built = false WHERE x.idx = v_index.idx AND x.name = '';
    END IF;
    UPDATE $s.state_index AS i SET mirrored = coalesce(p_mirrored, i.mirrored) WHERE i.idx = v_index.idx;
    IF v_index.mirrored AND NOT coalesce(p_mirrored, true) THEN
      UPDATE $s.change AS c SET mirror = false WHERE c.idx = v_index.idx AND c.mirror;
    END IF;
    IF v_moved THEN
      UPDATE $s.state_index AS i SET generation = i.generation + 1 WHERE i.idx = v_index.idx;
    END IF;
  END $fn$;
`;

const CATALOG = `
  CREATE FUNCTION $s.begin_epoch(p_flushed boolean, p_patience int) RETURNS bigint LANGUAGE plpgsql AS $fn$
  DECLARE
    v_epoch bigint;
  BEGIN${BEGIN_WRITE}
    ${EXCLUDE}
    UPDATE $s.store SET epoch = epoch + 1 RETURNING epoch INTO v_epoch;
    RETURN v_epoch;
  END $fn$;

  CREATE FUNCTION $s.set_built(p_flushed boolean, p_patience int, p_idx int, p_secondary int[]) RETURNS void
  LANGUAGE plpgsql AS $fn$
  BEGIN${BEGIN_WRITE}
    ${EXCLUDE}
    UPDATE $s.secondary AS x SET built = true WHERE x.idx = p_idx AND x.ix = ANY (p_secondary);
  END $fn$;
`;

/**
 * After the database was moved to another server without its transaction numbers (a dump), new changes would get lower
 * numbers than those that are there: then they are counted from another base.
 */
const REBASE = `
  CREATE FUNCTION $s.rebase() RETURNS void LANGUAGE plpgsql ${PLANNED} AS $fn$
  DECLARE
    v_last bigint;
  BEGIN
    ${EXCLUDE}
    SELECT max(c.seq) INTO v_last FROM $s.change AS c;
    UPDATE $s.store AS s SET xid_base = pg_current_xact_id()::text::bigint - v_last / 4096 - 2
      WHERE v_last / 4096 > pg_current_xact_id()::text::bigint - s.xid_base;
  END $fn$;
`;

/** Each gives its rows in one snapshot. */
const READS = `
  CREATE FUNCTION $s.get_record(p_idx int, p_id text) RETURNS SETOF $s.record LANGUAGE plpgsql STABLE ${PLANNED} AS $fn$
  BEGIN
    RETURN QUERY SELECT * FROM (
      SELECT * FROM $s.record AS r WHERE r.idx = p_idx AND r.id >= p_id ORDER BY r.id LIMIT 1
    ) AS f WHERE f.id = p_id;
  END $fn$;

  CREATE FUNCTION $s.standing(p_idx int, p_ids text[]) RETURNS TABLE (
    rec bigint, id text, state text, since bigint, created bigint, revision bigint, epoch bigint, origin text, keys text,
    data text, sum bigint, pruned_state text, pruned_since bigint, pruned_origin text, pruned_sum bigint)
  LANGUAGE plpgsql STABLE ${PLANNED} AS $fn$
  #variable_conflict use_column
  BEGIN
    RETURN QUERY SELECT r.rec, r.id, r.state, r.since, r.created, r.revision, r.epoch, r.origin, r.keys, r.data, r.sum,
        t.state, t.since, t.origin, t.sum
      FROM unnest(p_ids) WITH ORDINALITY AS w (id, at)
      LEFT JOIN LATERAL (
        SELECT * FROM $s.record AS a WHERE a.idx = p_idx AND a.id >= w.id ORDER BY a.id LIMIT 1
      ) AS r ON r.id = w.id
      LEFT JOIN LATERAL (
        SELECT * FROM $s.tombstone AS b WHERE b.idx = p_idx AND b.id >= w.id ORDER BY b.id LIMIT 1
      ) AS t ON t.id = w.id
      ORDER BY w.at;
  END $fn$;

  CREATE FUNCTION $s.unkeyed(p_idx int, p_limit int) RETURNS SETOF $s.record LANGUAGE plpgsql STABLE ${PLANNED} AS $fn$
  BEGIN
    -- "+ 0": by the index of just these.
    RETURN QUERY SELECT * FROM $s.record AS r WHERE r.idx + 0 = p_idx AND r.keys IS NULL LIMIT p_limit;
  END $fn$;

  CREATE FUNCTION $s.records_from(p_after bigint, p_limit int) RETURNS SETOF $s.record
  LANGUAGE plpgsql STABLE ${PLANNED} AS $fn$
  BEGIN
    RETURN QUERY SELECT * FROM $s.record AS r WHERE r.rec > p_after ORDER BY r.rec LIMIT p_limit;
  END $fn$;

${page("")}${page("DESC")}
  CREATE FUNCTION $s.changes_after(p_idx int, p_after bigint, p_limit int) RETURNS TABLE (
    trimmed bigint, bound bigint, more boolean, clock float8, seq bigint, prev text, rec bigint, id text, state text,
    since bigint, created bigint, revision bigint, epoch bigint, origin text, keys text, data text, sum bigint)
  LANGUAGE plpgsql STABLE ${PLANNED} AS $fn$
  BEGIN
    RETURN QUERY SELECT s.trimmed, b.bound, EXISTS (SELECT FROM $s.change AS n WHERE n.seq >= b.bound), ${NOW}, c.*
      FROM $s.store AS s CROSS JOIN LATERAL (
        SELECT (pg_snapshot_xmin(pg_current_snapshot())::text::bigint - s.xid_base) * 4096 AS bound
      ) AS b LEFT JOIN LATERAL (
        SELECT l.seq, l.prev, l.rec, l.id, l.state, l.since, l.created, l.revision, l.epoch, l.origin, l.keys, l.data, l.sum
        FROM $s.change AS l WHERE l.seq > p_after AND l.seq < b.bound AND l.idx = p_idx ORDER BY l.seq LIMIT p_limit
      ) AS c ON true;
  END $fn$;

  CREATE FUNCTION $s.last_change() RETURNS TABLE (bound bigint, seen text) LANGUAGE plpgsql STABLE ${PLANNED} AS $fn$
  BEGIN
    RETURN QUERY SELECT b.bound, array_to_string(ARRAY (SELECT c.seq FROM $s.change AS c WHERE c.seq >= b.bound), ',')
      FROM $s.store AS s CROSS JOIN LATERAL (
        SELECT (pg_snapshot_xmin(pg_current_snapshot())::text::bigint - s.xid_base) * 4096 AS bound) AS b;
  END $fn$;

  CREATE FUNCTION $s.outbox(p_idx int, p_after bigint, p_limit int) RETURNS SETOF $s.change
  LANGUAGE plpgsql STABLE ${PLANNED} AS $fn$
  BEGIN
    RETURN QUERY SELECT c.* FROM $s.change AS c CROSS JOIN $s.store AS s
      WHERE c.idx = p_idx AND c.mirror AND c.seq > p_after
        AND c.seq < (pg_snapshot_xmin(pg_current_snapshot())::text::bigint - s.xid_base) * 4096
      ORDER BY c.seq LIMIT p_limit;
  END $fn$;
`;

/** A page in one direction, by state and by key. Each state is walked by itself; together they are cut at the limit. */
function page(direction: "" | "DESC"): string {
  const name = direction === "" ? "up" : "down";
  const range = (of: string) => `(${of}.since, ${of}.rec) > (p_from_since, p_from_rec)
        AND (${of}.since, ${of}.rec) < (p_to_since, p_to_rec)`;
  const order = (of: string) => `ORDER BY ${of}.since ${direction}, ${of}.rec ${direction} LIMIT p_limit`;
  return `
  CREATE FUNCTION $s.states_${name}(
    p_idx int, p_states text[], p_from_since bigint, p_from_rec bigint, p_to_since bigint, p_to_rec bigint, p_limit int
  ) RETURNS SETOF $s.record LANGUAGE plpgsql STABLE ${PLANNED} AS $fn$
  BEGIN
    RETURN QUERY SELECT w.* FROM unnest(p_states) AS s (state) CROSS JOIN LATERAL (
      SELECT r.* FROM $s.record AS r WHERE r.idx = p_idx AND r.state = s.state AND ${range("r")}
      ${order("r")}) AS w ${order("w")};
  END $fn$;

  CREATE FUNCTION $s.key_${name}(
    p_idx int, p_ix int, p_key text, p_states text[], p_from_since bigint, p_from_rec bigint, p_to_since bigint,
    p_to_rec bigint, p_limit int
  ) RETURNS TABLE (fits boolean, rec bigint, id text, state text, since bigint, created bigint, revision bigint,
    epoch bigint, origin text, keys text, data text, sum bigint) LANGUAGE plpgsql STABLE ${PLANNED} AS $fn$
  BEGIN
    RETURN QUERY SELECT coalesce(r.idx = p_idx AND r.state = w.state AND r.since = w.since, false), w.rec, r.id, w.state,
      w.since, r.created, r.revision, r.epoch, r.origin, r.keys, r.data, r.sum
      FROM (
        SELECT e.* FROM unnest(p_states) AS s (state) CROSS JOIN LATERAL (
          SELECT i.state, i.since, i.rec FROM $s.entry AS i
          WHERE i.ix = p_ix AND i.state = s.state AND i.key = p_key AND ${range("i")}
          ${order("i")}) AS e ${order("e")}
      ) AS w LEFT JOIN $s.record AS r ON r.rec = w.rec ${order("w")};
  END $fn$;
`;
}

const CHANGES = `
  CREATE FUNCTION $s.delivered(p_flushed boolean, p_patience int, p_idx int, p_seq bigint[]) RETURNS void
  LANGUAGE plpgsql ${PLANNED} AS $fn$
  BEGIN${BEGIN_WRITE}
    DELETE FROM $s.change AS c USING $s.store AS s WHERE c.seq = ANY (p_seq) AND c.idx = p_idx AND c.seq <= s.trimmed;
    UPDATE $s.change AS c SET mirror = false WHERE c.seq = ANY (p_seq) AND c.idx = p_idx;
  END $fn$;

  -- Keeps the latest for watchers, and what the mirror still has to write.
  CREATE FUNCTION $s.trim_changes(p_flushed boolean, p_patience int, p_keep int) RETURNS void
  LANGUAGE plpgsql ${PLANNED} AS $fn$
  DECLARE
    v_upto bigint;
  BEGIN${BEGIN_WRITE}
    SELECT c.seq INTO v_upto FROM $s.change AS c ORDER BY c.seq DESC OFFSET p_keep LIMIT 1;
    IF FOUND THEN
      UPDATE $s.store SET trimmed = greatest(trimmed, v_upto);
      DELETE FROM $s.change AS c WHERE c.seq <= v_upto AND NOT c.mirror;
    END IF;
  END $fn$;
`;

/** What is derived, held against the records in one snapshot. */
const INSPECT = `
  CREATE FUNCTION $s.inspect(p_idx int, p_limit int) RETURNS TABLE (part text, id text, message text)
  LANGUAGE plpgsql STABLE AS $fn$
  BEGIN
    RETURN QUERY
      WITH expected AS (
        SELECT (k.keys ->> (2 * at))::int AS ix, k.state, k.keys ->> (2 * at + 1) AS key, k.since, k.rec, k.id
        FROM (SELECT r.keys::jsonb AS keys, r.state, r.since, r.rec, r.id FROM $s.record AS r
              WHERE r.idx = p_idx AND r.keys IS NOT NULL) AS k,
          generate_series(0, jsonb_array_length(k.keys) / 2 - 1) AS at
        WHERE (k.keys ->> (2 * at))::int IN (SELECT x.ix FROM $s.secondary AS x WHERE x.idx = p_idx)
      ), found AS (
        SELECT e.* FROM $s.entry AS e WHERE e.ix IN (SELECT x.ix FROM $s.secondary AS x WHERE x.idx = p_idx)
      )
      SELECT 'index', x.id, 'the record is not listed under "' || x.key || '" in "' || x.state || '"'
        FROM expected AS x LEFT JOIN found AS f USING (ix, state, key, since, rec) WHERE f.ix IS NULL
      UNION ALL
      SELECT 'index', r.id, 'record ' || f.rec || ' is listed under "' || f.key || '" in "' || f.state || '", where it is not'
        FROM found AS f LEFT JOIN expected AS x USING (ix, state, key, since, rec) LEFT JOIN $s.record AS r USING (rec)
        WHERE x.ix IS NULL
      UNION ALL
      SELECT 'counter', NULL, 'the counter of "' || state || '" is ' || coalesce(c.n, 0) || ', not ' || coalesce(r.n, 0)
        FROM (SELECT o.state, sum(o.n) AS n FROM $s.counter AS o WHERE o.idx = p_idx GROUP BY o.state) AS c
        FULL JOIN (SELECT o.state, count(*) AS n FROM $s.record AS o WHERE o.idx = p_idx GROUP BY o.state) AS r USING (state)
        WHERE coalesce(c.n, 0) <> coalesce(r.n, 0)
      LIMIT p_limit;
  END $fn$;
`;

export const FUNCTIONS = [WRITE, PRUNE, REGISTER, CATALOG, REBASE, READS, CHANGES, INSPECT].join("\n");

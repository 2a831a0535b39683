/** How many transitions can 36 clients make through the PostgreSQL store, against statements written by hand for the same server? */
import postgres, { type Sql } from "postgres";
import { workerLifecycle } from "../../src/state/index.ts";
import { type OwnServer, startServer } from "../../test/support/postgres.ts";
import { type Contestant, race } from "../harness.ts";
import { type Context, count } from "../support/context.ts";
import { load } from "../support/library.ts";
import { type Answer, figure, row, timesFaster } from "../support/rows.ts";

const CLIENTS = 36;
/** Each client moves records of its own, one after another. */
const RECORDS = 20;
const CYCLES = 60;
const CYCLES_QUICK = 15;

/** Moves a record of this client's into the state; resolves when it is on the disk. */
type Move = (client: number, record: number, state: "idle" | "busy") => Promise<unknown>;

export async function answer(context: Context): Promise<Answer> {
  let server: OwnServer;
  try {
    server = await startServer({ fsync: true });
  } catch (error) {
    return { rows: [], unmeasured: { postgres: `no server: ${(error as Error).message}` } };
  }
  const sql = postgres(server.url, { max: CLIENTS, fetch_types: false, onnotice: () => {} });
  const { openStateIndex } = await load(context.library, "state");
  const index = await openStateIndex({
    name: "bench",
    lifecycle: workerLifecycle,
    postgres: { url: server.url, max: CLIENTS },
    indexes: { host: ({ data }: { data: { host: string } }) => data.host },
    retention: false,
  });
  try {
    await prepareByHand(sql);
    const all = Array.from({ length: CLIENTS * RECORDS }, (_, n) => ({ id: idOf(n), data: dataOf(n) }));
    await Promise.all(all.map((record) => index.insert(record)));
    const cycles = context.quick ? CYCLES_QUICK : CYCLES;
    const contestant = (move: Move): Contestant => ({ per: CLIENTS * cycles, run: () => work(move, cycles) });
    const series = await race(
      {
        ours: contestant((client, record, state) => index.transition(idOf(client * RECORDS + record), state)),
        update: contestant(updateByHand(sql)),
        same: contestant(sameByHand(sql)),
      },
      context.race("postgres", { warmups: 3 }),
    );
    const perSecond = (ms: number) => count(Math.round(1000 / ms));
    return {
      rows: [
        row("postgres", `${count(all.length)} records`, series.ours, {
          rivals: { "one statement that writes the same rows": figure(series.same) },
          floor: figure(series.update),
          verdicts: [timesFaster(series.ours, series.update, 0.8, "a single-statement update by hand")],
          notes: [
            `transitions a second: ${perSecond(series.ours.median)}; by hand ${perSecond(series.update.median)}, ${perSecond(series.same.median)} with the same rows`,
            "the floor is one UPDATE of the record alone, each client with a connection of its own",
          ],
        }),
      ],
    };
  } finally {
    await index.close();
    await sql.end();
    await server.remove();
  }
}

function idOf(n: number): string {
  return `worker-${n.toString(16).padStart(8, "0")}`;
}

function dataOf(n: number) {
  return {
    host: `host-${n % CLIENTS}`,
    queue: "default",
    version: "1.4.2",
    capabilities: ["shell", "docker", "gpu"],
    n,
  };
}

/** All clients at once, each of them step by step: busy and idle again. */
async function work(move: Move, cycles: number): Promise<void> {
  const client = async (_: unknown, at: number): Promise<void> => {
    for (let cycle = 0; cycle < cycles; cycle++)
      await move(at, (cycle >> 1) % RECORDS, cycle % 2 === 0 ? "busy" : "idle");
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
}

/** The same tables that the store has, as far as a transition writes them. */
async function prepareByHand(sql: Sql): Promise<void> {
  await sql.unsafe(`
    CREATE SCHEMA hand;
    CREATE TABLE hand.record (rec bigint PRIMARY KEY, id text NOT NULL UNIQUE, state text NOT NULL, since bigint NOT NULL,
      revision bigint NOT NULL, data text NOT NULL) WITH (fillfactor = 80);
    CREATE INDEX ON hand.record (state, since, rec);
    CREATE TABLE hand.entry (key text, state text, since bigint, rec bigint, PRIMARY KEY (key, state, since, rec));
    CREATE TABLE hand.counter (state text, shard int, n bigint, PRIMARY KEY (state, shard)) WITH (fillfactor = 20);
    CREATE TABLE hand.change (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, rec bigint, id text, state text,
      since bigint, revision bigint, data text)`);
  for (let n = 0; n < CLIENTS * RECORDS; n++) {
    const { host } = dataOf(n);
    await sql`INSERT INTO hand.record VALUES (${n}, ${idOf(n)}, 'idle', 0, 1, ${JSON.stringify(dataOf(n))})`;
    await sql`INSERT INTO hand.entry VALUES (${host}, 'idle', 0, ${n})`;
  }
}

function updateByHand(sql: Sql): Move {
  return (client, record, state) => {
    const n = client * RECORDS + record;
    return sql`UPDATE hand.record SET state = ${state}, since = ${Date.now()}, revision = revision + 1,
      data = ${JSON.stringify(dataOf(n))} WHERE id = ${idOf(n)} AND state <> ${state}`;
  };
}

/** Record, entry, counters and log of changes, as the store writes them; without compare-and-set, checksum and epoch. */
function sameByHand(sql: Sql): Move {
  return (client, record, state) => {
    const n = client * RECORDS + record;
    const before = state === "busy" ? "idle" : "busy";
    return sql`
      WITH r AS (
        UPDATE hand.record AS r SET state = ${state}, since = ${Date.now()}, revision = r.revision + 1,
          data = ${JSON.stringify(dataOf(n))}
        FROM (SELECT rec, since FROM hand.record WHERE id = ${idOf(n)}) AS o WHERE r.rec = o.rec
        RETURNING r.*, o.since AS old_since
      ), e AS (
        UPDATE hand.entry AS e SET state = r.state, since = r.since FROM r
        WHERE e.key = ${dataOf(n).host} AND e.state = ${before} AND e.since = r.old_since AND e.rec = r.rec
      ), c AS (
        INSERT INTO hand.counter AS c SELECT s.state, pg_backend_pid() % 32, s.n
          FROM r, (VALUES ('busy', ${state === "busy" ? 1 : -1}::int), ('idle', ${state === "busy" ? -1 : 1}::int)) AS s (state, n)
        ON CONFLICT (state, shard) DO UPDATE SET n = c.n + excluded.n
      )
      INSERT INTO hand.change (rec, id, state, since, revision, data) SELECT rec, id, state, since, revision, data FROM r`;
  };
}

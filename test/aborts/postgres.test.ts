/** The calls on a state index and on control-plane records over PostgreSQL, aborted in the same ways, and at the very moment at which a statement is sent. */
import postgres from "postgres";
import { describe } from "vitest";
import { stepLeaseLifecycle } from "../../src/state/lifecycle.ts";
import { openStateIndex } from "../../src/state/open.ts";
import type { PostgresClient } from "../../src/state/postgres/source.ts";
import { createPlace, unavailable } from "../state/postgres/place.ts";
import { abortRoom } from "./abort-room.ts";
import { type Attempt, type Call, type Room, turns } from "./call.ts";
import { controlPlaneIn, type RecordsPlace } from "./control-plane.ts";
import { type StatePlace, stateIn, stateOpeningsIn, type Things } from "./state.ts";

/** Is told of each statement before it is sent. */
let onStatement: ((text: string) => void) | null = null;

/** The package `postgres`, overheard. */
function driver(...from: never[]): PostgresClient {
  const client = postgres(...from) as PostgresClient;
  const unsafe: PostgresClient["unsafe"] = (text, ...more) => {
    onStatement?.(text);
    return client.unsafe(text, ...more);
  };
  return { unsafe, end: (o) => client.end(o), options: client.options };
}

/** For statements; one more listens. */
const CONNECTIONS = 4;
const CONNECTION = "the connection of ";

function placeOf(): StatePlace & { rows(table: string, columns: string): Promise<string[][]> } {
  const { source, schema, admin, remove } = createPlace();
  // By which the server tells whose a connection is.
  const postgres = { ...source, max: CONNECTIONS, driver: driver as never, connection: { application_name: schema } };
  const own = "FROM pg_stat_activity WHERE application_name = $1";
  const all = `
    SELECT '${CONNECTION}' || pid ${own}
    UNION ALL SELECT 'a transaction of ' || pid ${own} AND (xact_start IS NOT NULL OR state <> 'idle')
    UNION ALL SELECT 'a lock of ' || pid FROM pg_locks WHERE pid IN (SELECT pid ${own})`;
  const left = async () => (await admin.unsafe(all, [schema]).values()).map(([what]) => String(what));
  const apart: string[] = [];
  return {
    where: { postgres },
    many: 600,
    apart(n) {
      const name = `${schema}_${n}`;
      apart.push(name);
      return { postgres: { ...postgres, schema: name } };
    },
    left,
    rows: async (table, columns) => admin.unsafe(`SELECT ${columns} FROM ${schema}.${table}`).values(),
    async connect(index: Things) {
      const changes = index.watch();
      const first = changes.next();
      await Promise.all(Array.from({ length: CONNECTIONS }, () => index.stats()));
      const connections = async () => (await left()).filter((what) => what.startsWith(CONNECTION)).length;
      while ((await connections()) <= CONNECTIONS) await turns(10);
      await changes.return?.();
      await first;
    },
    async remove() {
      for (const name of apart) await admin.unsafe(`DROP SCHEMA IF EXISTS ${name} CASCADE`);
      await remove();
    },
  };
}

function recordsPlace(): RecordsPlace {
  const { where, left, rows, connect, remove } = placeOf();
  return {
    where,
    look: async () => Object.fromEntries(await rows("control_plane", "key, convert_from(data, 'UTF8')")),
    ...(left === undefined ? {} : { left }),
    async connect() {
      await using index = await openStateIndex({ ...where, name: "things", lifecycle: stepLeaseLifecycle });
      await connect?.(index as never);
    },
    ...(remove === undefined ? {} : { remove }),
  };
}

/** What is sent and cannot be taken back. */
const WRITES = /\.(write_changes|begin_epoch|prune)\(|(INSERT INTO|DELETE FROM) \S+\.control_plane /;

/** No call ends within its turn; and of those that change something, each statement is a moment. */
function overheard<World>(room: Room<World>): Room<World> {
  const calls = Object.entries(room.calls).map(([name, { atOnce: _, ...call }]): [string, Call<World>] => [
    name,
    { ...call, prepare: async (world, n) => withStatements(await call.prepare(world, n)) },
  ]);
  return { ...room, calls: Object.fromEntries(calls) };
}

function withStatements(attempt: Attempt): Attempt {
  if (attempt.done === undefined) return attempt;
  return {
    ...attempt,
    async call(signal, reached) {
      onStatement = (text) => reached(WRITES.test(text) ? "after" : undefined);
      try {
        return await attempt.call(signal, reached);
      } finally {
        onStatement = null;
      }
    },
  };
}

describe.skipIf(unavailable !== null)("over PostgreSQL", () => {
  abortRoom(overheard(stateIn("state", placeOf)));
  abortRoom(overheard(stateOpeningsIn("opening state", placeOf)));
  abortRoom(overheard(controlPlaneIn("control plane", recordsPlace)));
});

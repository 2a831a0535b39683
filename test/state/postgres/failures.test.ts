import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import postgres from "postgres";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openControlPlaneStore } from "../../../src/state/control-plane.ts";
import { defineLifecycle } from "../../../src/state/lifecycle.ts";
import type { StateIndex } from "../../../src/state/model.ts";
import { openStateIndex, type StateIndexOptions } from "../../../src/state/open.ts";
import type { PostgresSource } from "../../../src/state/postgres/source.ts";
import { LOCKED_ROLE, type OwnServer, PASSWORD, startServer } from "../../support/postgres.ts";
import { createPlace, serverUrl, type TestPlace, unavailable } from "./place.ts";

const lifecycle = defineLifecycle({ initial: "a", transitions: { a: ["b"], b: ["a"] } });
type Things = StateIndex<{ n: number }, "a" | "b">;

function open(postgres: unknown, over: Partial<StateIndexOptions<{ n: number }, "a" | "b">> = {}): Promise<Things> {
  const source = postgres as NonNullable<StateIndexOptions<unknown, never>["postgres"]>;
  return openStateIndex({ name: "things", lifecycle, postgres: source, retention: false, ...over });
}

async function errorOf(call: Promise<unknown>): Promise<Error & { code: string; path: string }> {
  try {
    await call;
  } catch (error) {
    return error as Error & { code: string; path: string };
  }
  throw new Error("it did not fail");
}

describe("a place that is none", () => {
  test("is refused, and never shown", async () => {
    const refused = [
      undefined,
      "mysql://host/db",
      `postgres://user:${PASSWORD}@[bad/db`,
      42,
      { schema: 'a"b', url: "postgres://localhost/db" },
      { schema: "", url: "postgres://localhost/db" },
      { client: {} },
      { driver: "postgres" },
      { url: "postgres://localhost/db", max: 0 },
      { url: "postgres://localhost/db", max: 1.5 },
      { url: "postgres://localhost/db", max: "10" },
    ];
    for (const source of refused) {
      for (const call of [open(source), openControlPlaneStore({ postgres: source as string })]) {
        const error = await errorOf(call);
        expect(error.code).toBe("INVALID_ARGUMENT");
        expect(everythingOf(error)).not.toContain(PASSWORD);
      }
    }
  });

  test("is refused beside a directory", async () => {
    const error = await errorOf(open("postgres://localhost/db", { dir: "/tmp/never-made" }));
    expect(error).toMatchObject({ code: "INVALID_ARGUMENT" });
    expect(error.message).toContain("one of dir and postgres");
    expect((await errorOf(openControlPlaneStore({}))).code).toBe("INVALID_ARGUMENT");
  });

  test("where nobody answers is waited for until the deadline, or until the signal", async () => {
    const nowhere = "postgres://somebody:s3cret-pass@127.0.0.1:1/db";
    const error = await errorOf(open(nowhere, { writeDeadlineMs: 100 }));
    expect(error.code).toBe("STATE_STORE_UNAVAILABLE");
    expect(error.path).toBe("postgres://127.0.0.1:1/db (schema tussock)");
    expect(everythingOf(error)).not.toContain(PASSWORD);
    const reason = new Error("enough");
    const controller = new AbortController();
    const opening = errorOf(open(nowhere, { signal: controller.signal }));
    setTimeout(() => controller.abort(reason), 30);
    expect(await opening).toBe(reason);
  });

  test("where a server takes the connection and says nothing is waited for no longer", async () => {
    const sockets: Socket[] = [];
    const silent = createServer((socket) => sockets.push(socket));
    await new Promise<void>((listening) => silent.listen(0, "127.0.0.1", listening));
    const url = `postgres://somebody@127.0.0.1:${(silent.address() as AddressInfo).port}/db`;
    try {
      const start = performance.now();
      const error = await errorOf(open(url, { writeDeadlineMs: 300 }));
      expect(error).toMatchObject({
        code: "STATE_STORE_UNAVAILABLE",
        message: expect.stringContaining("not answered"),
      });
      const abort = AbortSignal.timeout(100);
      expect(await errorOf(openControlPlaneStore({ postgres: url, signal: abort }))).toBe(abort.reason);
      // The driver itself gives a connection up after 10 s.
      expect(performance.now() - start).toBeLessThan(5_000);
    } finally {
      for (const socket of sockets) socket.destroy();
      await new Promise((closed) => silent.close(closed));
    }
  });

  test("is connected to no longer when the opening is given up, at whatever moment of the connecting that is", async () => {
    const connections = new Set<Socket>();
    const silent = createServer((socket) => {
      connections.add(socket);
      socket.on("error", () => {}).on("close", () => connections.delete(socket));
      socket.resume();
    });
    await new Promise<void>((listening) => silent.listen(0, "127.0.0.1", listening));
    const { port } = silent.address() as AddressInfo;
    try {
      const openings = Array.from({ length: 30 }, async (_, turns) => {
        const controller = new AbortController();
        const opening = open(
          { url: `postgres://127.0.0.1:${port}/db`, schema: `s${turns}` },
          { signal: controller.signal },
        );
        const error = errorOf(opening);
        for (let turn = 0; turn < turns; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
        controller.abort(turns);
        expect(await error).toBe(turns);
      });
      await Promise.all(openings);
      // Well before the driver itself gives a connection up, which is after 10 s.
      await expect.poll(() => connections.size, { timeout: 5_000 }).toBe(0);
    } finally {
      for (const socket of connections) socket.destroy();
      await new Promise((closed) => silent.close(closed));
    }
  });
});

describe.skipIf(unavailable !== null)("what goes wrong in PostgreSQL", () => {
  let place: TestPlace;
  beforeEach(() => {
    place = createPlace();
  });
  const held: (() => void)[] = [];
  afterEach(async () => {
    for (const release of held) release();
    await place.remove();
  });

  test("a password that is wrong is not told to anybody", async () => {
    await place.admin.unsafe(`DO $$ BEGIN CREATE ROLE ${LOCKED_ROLE} LOGIN PASSWORD '${PASSWORD}';
      EXCEPTION WHEN duplicate_object THEN NULL; END $$`);
    const url = serverUrl().replace("postgres@", `${LOCKED_ROLE}:not-${PASSWORD}@`);
    const error = await errorOf(open({ url, schema: place.schema }, { writeDeadlineMs: 2_000 }));
    expect(error.code).toBe("STATE_STORE_UNAVAILABLE");
    expect(everythingOf(error)).not.toContain(PASSWORD);
    // May connect, and make nothing.
    const lesser = serverUrl().replace("postgres@", `${LOCKED_ROLE}:${PASSWORD}@`);
    const denied = await errorOf(open({ url: lesser, schema: place.schema }));
    expect(denied.code).toBe("STATE_STORE_UNAVAILABLE");
    expect(denied.message).toContain("permission denied");
    expect(everythingOf(denied)).not.toContain(PASSWORD);
  });

  test("a sweep does not get ahead of a change that was asked for before it, also when that has to wait", async () => {
    const things = await open(place.source);
    for (const id of ["locked", "thing"]) await things.insert({ id, data: { n: 0 } });
    const [unlock, locked] = await holdOpen(`SELECT * FROM ${place.schema}.record WHERE id = 'locked' FOR UPDATE`);
    await locked;
    // In one statement, which comes to the locked one first.
    const late = things.transition("locked", "b");
    const change = things.transition("thing", "b");
    const { transitioned, skipped } = await things.sweep({ from: "a", to: "b", where: ({ id }) => id === "thing" });
    expect((await change).revision).toBe(2);
    expect([transitioned, skipped]).toEqual([0, 1]);
    await unlock();
    expect((await late).revision).toBe(2);
    await things.close();
  });

  test("a record that somebody has locked makes its change late, and no other", async () => {
    const things = await open(place.source, { writeDeadlineMs: 400 });
    for (const id of ["locked", "free"]) await things.insert({ id, data: { n: 0 } });
    const [unlock, locked] = await holdOpen(`SELECT * FROM ${place.schema}.record WHERE id = 'locked' FOR UPDATE`);
    await locked;
    const late = errorOf(things.transition("locked", "b"));
    for (const to of ["b", "a", "b"] as const) await things.transition("free", to);
    expect((await late).code).toBe("STATE_STORE_BUSY");
    await unlock();
    expect((await things.get("locked"))?.revision).toBe(1);
    expect((await things.transition("locked", "b")).revision).toBe(2);
    await things.close();
  });

  test("an abort of what waits for its turn undoes it at once", async () => {
    const things = await open({ ...place.source, max: 1 });
    await things.insert({ id: "thing", data: { n: 0 } });
    const [unlock, locked] = await holdOpen(`LOCK TABLE ${place.schema}.record`);
    await locked;
    const sent = things.get("thing");
    const controller = new AbortController();
    const reason = new Error("enough");
    // Behind it: there is but one connection.
    const writing = errorOf(things.insert({ id: "other", data: { n: 0 } }, { signal: controller.signal }));
    const reading = errorOf(things.get("thing", { signal: controller.signal }));
    await new Promise((resolve) => setTimeout(resolve, 50));
    const start = performance.now();
    controller.abort(reason);
    expect(await writing).toBe(reason);
    expect(await reading).toBe(reason);
    expect(performance.now() - start).toBeLessThan(10);
    await unlock();
    expect((await sent)?.state).toBe("a");
    expect(await things.get("other")).toBeNull();
    await things.close();
  });

  test("a write whose connection is cut is told to be unknown, and takes effect once at most", async () => {
    const things = await open(place.source);
    await things.insert({ id: "thing", data: { n: 0 } });
    const [unlock, locked] = await holdOpen(`SELECT * FROM ${place.schema}.record FOR UPDATE`);
    await locked;
    const cut = errorOf(things.transition("thing", "b"));
    await cutWhileWaiting(place);
    const error = await cut;
    expect(error.code).toBe("WRITE_DEADLINE");
    expect(error.message).toContain("loss of its connection");
    await unlock();
    expect((await things.get("thing"))?.revision).toBe(1);
    expect((await things.transition("thing", "b")).revision).toBe(2);
    expect((await things.verify()).problems).toEqual([]);
    await things.close();
  });

  test("a schema of a newer version is left as it is", async () => {
    await (await open(place.source)).close();
    await place.admin.unsafe(`UPDATE ${place.schema}.version SET version = 99`);
    const error = await errorOf(open(place.source));
    expect(error).toMatchObject({ code: "SCHEMA_VERSION", found: 99 });
    expect((await errorOf(openControlPlaneStore({ postgres: place.source }))).code).toBe("SCHEMA_VERSION");
  });

  test("an index that was made with another lifecycle is refused", async () => {
    await (await open(place.source)).close();
    const other = defineLifecycle({ initial: "a", transitions: { a: [] } });
    const call = openStateIndex({ name: "things", lifecycle: other, postgres: place.source, retention: false });
    expect((await errorOf(call)).code).toBe("LIFECYCLE_MISMATCH");
  });

  test("a damaged record, entry or counter is found, and the record not believed", async () => {
    const things = await open(place.source, { indexes: { n: ({ data }) => String(data.n) } });
    for (let n = 0; n < 5; n++) await things.insert({ id: `thing-${n}`, data: { n } });
    const { schema, admin } = place;
    await admin.unsafe(`UPDATE ${schema}.record SET data = '{"n":7}' WHERE id = 'thing-1'`);
    expect((await errorOf(things.get("thing-1"))).code).toBe("STATE_STORE_CORRUPT");
    expect((await errorOf(collect(things.byState("a")))).code).toBe("STATE_STORE_CORRUPT");
    await admin.unsafe(`UPDATE ${schema}.record SET data = '{"n":1}' WHERE id = 'thing-1'`);
    await admin.unsafe(`DELETE FROM ${schema}.entry WHERE key = '2'`);
    await admin.unsafe(`UPDATE ${schema}.entry SET since = since + 1 WHERE key = '3'`);
    await admin.unsafe(
      `UPDATE ${schema}.counter SET n = n + 1 WHERE ctid IN (SELECT ctid FROM ${schema}.counter LIMIT 1)`,
    );
    const { ok, problems } = await things.verify();
    expect(ok).toBe(false);
    expect(problems.map(({ part, id }) => `${part} ${id ?? ""}`).sort()).toEqual([
      "counter ",
      "index thing-2",
      "index thing-3",
      "index thing-3",
    ]);
    expect((await errorOf(collect(things.by("n", "3")))).code).toBe("STATE_STORE_CORRUPT");
    expect((await errorOf(things.transition("thing-2", "b"))).code).toBe("STATE_STORE_CORRUPT");
    expect((await things.get("thing-2"))?.state).toBe("a");
    await admin.unsafe(`DROP TABLE ${schema}.entry`);
    expect((await errorOf(things.transition("thing-4", "b"))).code).toBe("STATE_STORE_CORRUPT");
    await things.close();
  });

  test("a client whose transactions see an old state is refused", async () => {
    const client = postgres(serverUrl(), {
      max: 1,
      connection: { default_transaction_isolation: "repeatable read" } as object,
    });
    expect((await errorOf(open({ client, schema: place.schema }))).code).toBe("INVALID_ARGUMENT");
    await client.end();
  });

  test("a database in another encoding is refused", async () => {
    await place.admin.unsafe(`CREATE DATABASE ${place.schema} ENCODING 'SQL_ASCII' TEMPLATE template0`);
    const url = serverUrl().replace(/postgres$/, place.schema);
    const error = await errorOf(open({ url }));
    expect(error.code).toBe("STATE_STORE_UNAVAILABLE");
    expect(error.message).toContain("UTF8 is needed");
    await place.admin.unsafe(`DROP DATABASE ${place.schema} WITH (FORCE)`);
  });

  test("the caller's client is used and not ended, and nothing of ours is left after close", async () => {
    const client = postgres(serverUrl(), {
      max: 3,
      onnotice: () => {},
      transform: { column: { from: postgres.toCamel } },
    });
    // Assigned as it is: the types of the package fit.
    const source: PostgresSource = { client, schema: place.schema };
    const bare: PostgresSource = client;
    expect(bare).toBe(client);
    const things = await open(source);
    const records = await openControlPlaneStore({ postgres: { client, schema: place.schema } });
    const own = await open(place.source, { name: "own" });
    await things.insert({ id: "thing", data: { n: 0 } });
    await records.put("key", Buffer.from("value"));
    await own.insert({ id: "thing", data: { n: 0 } });
    const changes = things.watch();
    const next = changes.next();
    await things.transition("thing", "b");
    expect((await next).value?.to).toBe("b");
    const endless = own.watch().next();
    await Promise.all([things.close(), records.close(), own.close()]);
    expect((await endless).done).toBe(true);
    expect((await changes.next()).done).toBe(true);
    expect((await client`SELECT 1 AS one`)[0]?.["one"]).toBe(1);
    await client.end();
    const left = async () =>
      (
        await place.admin`SELECT count(*)::int AS n FROM pg_stat_activity
        WHERE query LIKE ${`%${place.schema}%`} AND pid <> pg_backend_pid()`
      )[0]?.["n"];
    while ((await left()) > 0) await new Promise((resolve) => setTimeout(resolve, 5));
    expect((await errorOf(things.get("thing"))).code).toBe("CLOSED");
  });

  /** Runs it in a transaction that stays open until the function returned is called. */
  async function holdOpen(statement: string): Promise<[() => Promise<unknown>, Promise<void>]> {
    const release = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    held.push(release.resolve);
    const done = place.admin.begin(async (sql) => {
      await sql.unsafe(statement);
      begun.resolve();
      await release.promise;
    });
    return [
      () => {
        release.resolve();
        return done;
      },
      begun.promise,
    ];
  }
});

/** Between a store and the server: lets through, or takes connections and says nothing, or is not there. */
class Gateway {
  readonly #sockets = new Set<Socket>();
  #speaks = true;
  #server = this.#make();
  #port = 0;

  async open(): Promise<this> {
    await new Promise<void>((listening) => this.#server.listen(this.#port, "127.0.0.1", listening));
    this.#port = (this.#server.address() as AddressInfo).port;
    return this;
  }

  get url(): string {
    const url = new URL(serverUrl());
    url.port = String(this.#port);
    return url.href;
  }

  fallSilent(): void {
    this.#speaks = false;
    this.#cut();
  }

  speakAgain(): void {
    this.#speaks = true;
    this.#cut();
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#cut();
    await closed;
    this.#server = this.#make();
  }

  #make() {
    return createServer((socket) => {
      this.#keep(socket);
      if (!this.#speaks) return;
      const { hostname, port } = new URL(serverUrl());
      const beyond = this.#keep(connect(Number(port), hostname));
      socket.pipe(beyond).pipe(socket);
    });
  }

  #keep(socket: Socket): Socket {
    this.#sockets.add(socket);
    return socket.on("error", () => {}).on("close", () => this.#sockets.delete(socket));
  }

  #cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}

describe.skipIf(unavailable !== null)("a server that cannot be reached", () => {
  let place: TestPlace;
  let gateway: Gateway;
  beforeEach(async () => {
    place = createPlace();
    gateway = await new Gateway().open();
  });
  afterEach(async () => {
    await gateway.close();
    await place.remove();
  });
  const DEADLINE_MS = 700;
  const openThere = (writeDeadlineMs: number) =>
    open({ url: gateway.url, schema: place.schema, max: 6 }, { writeDeadlineMs });

  test.each(["is not there", "takes connections and says nothing"])(
    "%s: what was not sent is known to be undone, at its deadline, and closing waits for nothing",
    async (how) => {
      const things = await openThere(DEADLINE_MS);
      const records = await openControlPlaneStore({ postgres: { url: gateway.url, schema: place.schema, max: 2 } });
      await things.insert({ id: "before", data: { n: 0 } });
      if (how === "is not there") await gateway.close();
      else gateway.fallSilent();
      await new Promise((resolve) => setTimeout(resolve, 100));
      const start = performance.now();
      const calls = [
        things.insert({ id: "thing", data: { n: 1 } }),
        things.transition("before", "b"),
        things.beginEpoch(),
        things.get("before"),
      ];
      for (const error of await Promise.all(calls.map(errorOf)))
        expect(error, error.message).toMatchObject({ code: "STATE_STORE_UNAVAILABLE" });
      const tookMs = performance.now() - start;
      expect(tookMs).toBeGreaterThan(DEADLINE_MS - 300);
      expect(tookMs).toBeLessThan(DEADLINE_MS + 600);
      await Promise.all([things.close(), records.close()]);
      expect(performance.now() - start - tookMs).toBeLessThan(1_500);
      const [row] =
        await place.admin`SELECT count(*)::int AS n, sum(revision)::int AS r FROM ${place.admin(place.schema)}.record`;
      expect(row).toEqual({ n: 1, r: 1 });
      if (how === "is not there") await gateway.open();
    },
  );

  test("is used again soon after it is back, by what was asked for meanwhile", async () => {
    const things = await openThere(30_000);
    await things.insert({ id: "thing", data: { n: 0 } });
    gateway.fallSilent();
    await gateway.close();
    const calls = Promise.all([things.get("thing"), things.insert({ id: "other", data: { n: 1 } })]);
    await new Promise((resolve) => setTimeout(resolve, 2_500));
    await gateway.open();
    gateway.speakAgain();
    const back = performance.now();
    await calls;
    expect(performance.now() - back).toBeLessThan(1_500);
    await Promise.all(Array.from({ length: 20 }, (_, n) => things.update("thing", { n })));
    await things.close();
  });
});

describe.skipIf(unavailable !== null)("a server that is lost", () => {
  let server: OwnServer;
  beforeAll(async () => {
    server = await startServer({ fsync: true });
  });
  afterAll(() => server?.remove());

  test("in the midst of writes, and started again: all that was acknowledged is there, and the writes go on", async () => {
    const things = await open({ url: server.url, max: 6 });
    const acknowledged = new Map<string, number>();
    const unknown: string[] = [];
    let stop = false;
    const writer = async (_: unknown, at: number): Promise<void> => {
      for (let n = 0; !stop; n++) {
        const id = `thing-${at}-${n}`;
        try {
          await things.insert({ id, data: { n } });
          acknowledged.set(id, n);
        } catch (error) {
          expect((error as { code: string }).code).toBe("WRITE_DEADLINE");
          unknown.push(id);
        }
      }
    };
    const writers = Promise.all(Array.from({ length: 12 }, writer));
    for (let round = 0; round < 2; round++) {
      const before = acknowledged.size;
      while (acknowledged.size < before + 100) await new Promise((resolve) => setTimeout(resolve, 5));
      await server.kill();
      await server.start();
    }
    const before = acknowledged.size;
    while (acknowledged.size < before + 50) await new Promise((resolve) => setTimeout(resolve, 5));
    stop = true;
    await writers;
    for (const [id, n] of acknowledged) expect((await things.get(id))?.data.n).toBe(n);
    const found = await Promise.all(unknown.map((id) => things.get(id)));
    expect(await things.count()).toBe(acknowledged.size + found.filter((each) => each !== null).length);
    expect((await things.verify()).problems).toEqual([]);
    await things.close();
  });
});

/** Ends the backend that waits for a lock of this place's. */
async function cutWhileWaiting({ admin, schema }: TestPlace): Promise<void> {
  for (;;) {
    const cut = await admin`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE wait_event_type = 'Lock' AND query LIKE ${`%${schema}.write_changes%`}`;
    if (cut.length > 0) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

async function collect<T>(listing: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const each of listing) all.push(each);
  return all;
}

/** Whatever a log may show of it. */
function everythingOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const own = Object.getOwnPropertyNames(error).map((name) => {
    const value = (error as unknown as Record<string, unknown>)[name];
    return name === "cause" ? everythingOf(value) : JSON.stringify(value);
  });
  return [String(error), ...own].join("\n");
}

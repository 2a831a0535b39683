import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type LeaseIndex, openLeaseIndex } from "../../../src/state/open.ts";
import { type Child, spawnChild } from "../../support/spawn.ts";
import { createPlace, serverUrl, type TestPlace, unavailable } from "./place.ts";

const program = new URL("./server.child.ts", import.meta.url);

describe.skipIf(unavailable !== null)("several servers on one database", () => {
  let place: TestPlace;
  beforeEach(() => {
    place = createPlace();
  });
  afterEach(() => place.remove());

  const startServers = (count: number): Child[] =>
    Array.from({ length: count }, () => spawnChild(program, [serverUrl(), place.schema]));

  async function endServers(servers: Child[]): Promise<void> {
    for (const server of servers) server.process.stdin?.end("close\n");
    for (const server of servers) expect((await server.exit).code).toBe(0);
  }

  async function withLeases<T>(work: (leases: LeaseIndex) => Promise<T>): Promise<T> {
    const leases = await openLeaseIndex({ postgres: place.source, retention: false });
    try {
      return await work(leases);
    } finally {
      const { problems } = await leases.verify();
      expect(problems).toEqual([]);
      await leases.close();
    }
  }

  test("of four that open an empty database at once, each finds it made, and once", async () => {
    const servers = startServers(4);
    for (const server of servers) expect(await server.line()).toBe("open");
    const [row] = await place.admin.unsafe(`SELECT count(*)::int AS n FROM ${place.schema}.state_index`);
    expect(row?.["n"]).toBe(1);
    await endServers(servers);
  });

  test("never both end one lease, and both sweep without missing or repeating any", async () => {
    const servers = startServers(2);
    for (const server of servers) expect(await server.line()).toBe("open");
    await withLeases(async (leases) => {
      const ids = Array.from({ length: 200 }, (_, n) => `lease-${n}`);
      await Promise.all(ids.map((id) => leases.insert({ id, data: { workerName: `w-${id.length}` } })));
      for (const server of servers) server.send(`end ${ids.join(" ")}`);
      const outcomes = await Promise.all(servers.map(async (server) => JSON.parse(await server.line()) as string[]));
      for (const at of ids.keys()) {
        expect(outcomes.map((each) => each[at]).sort()).toEqual(["TRANSITION", "done"]);
      }
      expect(await leases.count("completed")).toBe(200);
      for await (const { revision } of leases.byState("completed")) expect(revision).toBe(2);

      await Promise.all(ids.map((id) => leases.insert({ id: `again-${id}`, data: {} })));
      for (const server of servers) server.send("sweep");
      const reports = await Promise.all(servers.map(async (server) => JSON.parse(await server.line())));
      expect(reports.reduce((sum, { transitioned }) => sum + transitioned, 0)).toBe(200);
      expect(await leases.count("expired")).toBe(200);
    });
    await endServers(servers);
  });

  test("hear of each other's changes at once, by one notification for many", async () => {
    const [server] = startServers(1) as [Child];
    expect(await server.line()).toBe("open");
    await withLeases(async (leases) => {
      const changes = leases.watch();
      const first = changes.next();
      server.send("insert one");
      expect((await first).value?.id).toBe("one");
      await changes.return?.();
    });
    await endServers([server]);
  });
});

import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { stepLeaseLifecycle } from "../../src/state/lifecycle.ts";
import type { StateIndex } from "../../src/state/model.ts";
import { openStateIndex } from "../../src/state/open.ts";
import { tempDir } from "../support/spawn.ts";
import { withoutWorkers } from "../support/workers.ts";

interface Lease {
  worker: string;
  marked?: boolean;
}
type Leases = StateIndex<Lease, "active" | "completed" | "failed" | "expired">;

function openLeases(dir: string): Promise<Leases> {
  return openStateIndex({
    name: "lease",
    lifecycle: stepLeaseLifecycle,
    dir,
    durability: "committed",
    retention: false,
    indexes: { worker: (r) => r.data.worker },
    // Never delivers: everything stays in the outbox.
    mirror: {
      locate: () => "",
      write: async () => {
        throw new Error("the mirror is away");
      },
    },
  });
}

/** Every row of every table. */
function contents(database: DatabaseSync): unknown {
  const tables = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").all();
  return Object.fromEntries(tables.map(({ name }) => [name, database.prepare(`SELECT * FROM ${name}`).all()]));
}

async function* source(): AsyncGenerator<{
  id: string;
  state: "completed";
  since: number;
  data: Lease;
  watermark: string;
}> {
  for (const id of ["a", "b", "new"])
    yield { id, state: "completed", since: 1, data: { worker: "import" }, watermark: id };
}

const WRITES: Record<string, (index: Leases) => Promise<unknown>> = {
  insert: (index) => index.insert({ id: "new", data: { worker: "w" } }),
  put: (index) => index.put({ id: "a", state: "active", data: { worker: "other" } }),
  update: (index) => index.update("a", { marked: true }),
  transition: (index) => index.transition("a", "completed", { patch: { worker: "other" } }),
  sweep: (index) => index.sweep({ from: "active", to: "expired" }),
  import: (index) => index.import("source", source),
  prune: (index) => index.prune({ states: ["failed"] }),
  beginEpoch: (index) => index.beginEpoch(),
};

/** Which tables each write touches, and how: so many places are there for it to be cut off. */
const TOUCHES: Record<string, string[]> = {
  insert: ["INSERT record", "INSERT entry", "INSERT counter", "INSERT change", "INSERT outbox"],
  put: ["UPDATE record", "DELETE entry", "INSERT entry", "INSERT change", "INSERT outbox"],
  update: ["UPDATE record", "INSERT change", "INSERT outbox"],
  transition: ["UPDATE record", "DELETE entry", "INSERT entry", "INSERT counter", "INSERT change", "INSERT outbox"],
  sweep: ["UPDATE record", "DELETE entry", "INSERT entry", "INSERT counter", "INSERT change", "INSERT outbox"],
  import: [
    "INSERT record",
    "UPDATE record",
    "DELETE entry",
    "INSERT counter",
    "INSERT change",
    "INSERT outbox",
    "INSERT import_mark",
  ],
  prune: ["DELETE record", "DELETE entry", "INSERT tombstone", "INSERT counter"],
  beginEpoch: ["INSERT store"],
};

describe("a fault in the middle of a write leaves nothing half-done", () => {
  for (const [kind, write] of Object.entries(WRITES)) {
    test(kind, async () => {
      withoutWorkers();
      const dir = tempDir();
      const index = await openLeases(dir);
      for (const id of ["a", "b", "c"]) await index.insert({ id, data: { worker: "w" } });
      for (const id of ["d", "e"]) await index.insert({ id, state: "failed", data: { worker: "w" } });
      const database = new DatabaseSync(join(dir, "state.db"), { timeout: 5_000 });
      // Pruning waits for the mirror; here it has what it needs.
      if (kind === "prune") database.exec("DELETE FROM outbox");
      const before = contents(database);
      for (const touch of TOUCHES[kind]!) {
        const [operation, table] = touch.split(" ");
        // After the row, so that the write has got as far as that; and an upsert's insert fires in any case.
        const when = table === "counter" || table === "import_mark" || table === "store" ? "BEFORE" : "AFTER";
        database.exec(`CREATE TRIGGER cut ${when} ${operation} ON ${table} BEGIN SELECT RAISE(FAIL, 'cut off'); END`);
        await expect(write(index), touch).rejects.toMatchObject({ code: "STATE_STORE_UNAVAILABLE" });
        database.exec("DROP TRIGGER cut");
        expect(contents(database), touch).toEqual(before);
      }
      await write(index);
      expect(contents(database)).not.toEqual(before);
      database.close();
      expect((await index.verify()).problems).toEqual([]);
      await index.close();
    });
  }

  test("and only the request that it concerns fails: those that were to share its transaction go through", async () => {
    const dir = tempDir();
    const index = await openLeases(dir);
    const database = new DatabaseSync(join(dir, "state.db"), { timeout: 5_000 });
    database.exec(
      "CREATE TRIGGER cut AFTER INSERT ON change WHEN new.id = '7' BEGIN SELECT RAISE(FAIL, 'cut off'); END",
    );
    const inserts = Array.from({ length: 20 }, (_, n) => index.insert({ id: `${n}`, data: { worker: "w" } }));
    const outcomes = await Promise.allSettled(inserts);
    expect(outcomes.map(({ status }) => status).indexOf("rejected")).toBe(7);
    expect(outcomes.filter(({ status }) => status === "rejected")).toHaveLength(1);
    database.exec("DROP TRIGGER cut");
    database.close();
    expect(await index.get("7")).toBe(null);
    expect(await index.count("active")).toBe(19);
    expect((await index.verify()).problems).toEqual([]);
    await index.close();
  });
});

/** A store that an earlier version has written is brought up to this one at its open, with all that is in it. */
import { renameSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { openLeaseIndex } from "../../src/state/open.ts";
import { storeSum } from "../../src/state/sqlite/checks.ts";
import { APPLICATION_ID, MIGRATIONS } from "../../src/state/sqlite/schema.ts";
import { collect } from "../support/collect.ts";
import { tempDir } from "../support/spawn.ts";

const EARLIER = Array.from({ length: MIGRATIONS.length - 1 }, (_, n) => n + 1);

test.each(EARLIER)("a store of version %i", async (version) => {
  const dir = tempDir();
  const leases = await openLeaseIndex({ dir, retention: false });
  const epoch = await leases.beginEpoch();
  for (let n = 0; n < 40; n++) {
    await leases.insert({ id: `lease-${n}`, data: { workerName: `w${n % 3}`, dispatchId: `d${n}` } });
    if (n % 2 === 1) await leases.transition(`lease-${n}`, "completed");
  }
  const listings = async (index: typeof leases) => [
    await collect(index.byState("active")),
    await collect(index.byState("completed", { reverse: true })),
    await collect(index.by("worker", "w1")),
    await collect(index.by("dispatch", "d7")),
    await index.count("active"),
  ];
  const before = await listings(leases);
  await leases.close();
  moveTo(version, join(dir, "state.db"), epoch);

  const again = await openLeaseIndex({ dir, retention: false });
  expect(await listings(again)).toEqual(before);
  expect(await again.verify()).toMatchObject({ ok: true, records: 40 });
  await again.transition("lease-0", "completed");
  expect(await again.count("completed")).toBe(21);
  expect(await again.verify()).toMatchObject({ ok: true });
  await again.close();
});

/** The same rows in the tables as that version made them. */
function moveTo(version: number, path: string, epoch: number): void {
  const earlier = new DatabaseSync(`${path}.earlier`);
  earlier.exec("PRAGMA journal_mode = WAL");
  for (const migration of MIGRATIONS.slice(0, version)) earlier.exec(migration);
  earlier.exec(`ATTACH '${path}' AS now`);
  const tables = earlier.prepare(
    "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'",
  );
  for (const { name } of tables.all()) {
    const columns = earlier.prepare("SELECT group_concat(name) AS list FROM pragma_table_info(?)").get(String(name));
    const list = String(columns?.["list"]);
    earlier.exec(`INSERT INTO main.${name} (${list}) SELECT ${list} FROM now.${name}`);
  }
  earlier.prepare("UPDATE main.store SET sum = ?").run(storeSum(epoch, version));
  earlier.exec(`DETACH now; PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${version}`);
  earlier.close();
  renameSync(`${path}.earlier`, path);
}

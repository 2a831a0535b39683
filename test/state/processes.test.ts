import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { libc } from "../../src/ffi/libc.ts";
import { openLeaseIndex } from "../../src/state/open.ts";
import { isLong, runChild, spawnChild, tempDir } from "../support/spawn.ts";

const WRITER = new URL("writer.child.ts", import.meta.url);
const OPENER = new URL("open.child.ts", import.meta.url);

describe("several processes at once", () => {
  test("eight that write each wait their turn: none fails, nothing is lost", async () => {
    const dir = tempDir();
    const leases = isLong ? 500 : 24;
    const children = Array.from({ length: 8 }, (_, n) => runChild(WRITER, [dir, `p${n}`, "6", `${leases}`]));
    const said = (await Promise.all(children)).flat().filter((line) => line !== "ready");
    const index = await openLeaseIndex({ dir });
    expect(await index.count()).toBe(8 * leases);
    for (const line of said) {
      const [id = "", revision] = line.split(" ");
      expect((await index.get(id))?.revision).toBeGreaterThanOrEqual(Number(revision));
    }
    expect((await index.verify()).problems).toEqual([]);
    await index.close();
  });

  test("a watcher sees every change of another process, in order, none twice", async () => {
    const dir = tempDir();
    const index = await openLeaseIndex({ dir });
    const watcher = index.watch();
    const seen: string[] = [];
    const revisions = new Map<string, number>();
    const watching = (async () => {
      for await (const { id, from, to, record } of watcher) {
        expect([record.state, record.revision]).toEqual([to, (revisions.get(id) ?? 0) + 1]);
        expect(from === null).toBe(record.revision === 1);
        revisions.set(id, record.revision);
        seen.push(`${id} ${record.revision} ${record.state}`);
      }
    })();
    const said = (await runChild(WRITER, [dir, "other", "8", "60"])).filter((line) => line !== "ready");
    while (seen.length < said.length) await new Promise((resolve) => setTimeout(resolve, 5));
    await watcher.return?.();
    await watching;
    expect(seen.sort()).toEqual(said.sort());
    await index.close();
  });

  test("a process that has nothing more to do ends by itself, though its index is open; the next one finds all", async () => {
    const dir = tempDir();
    const child = spawnChild(OPENER, [dir]);
    await child.line();
    child.send("insert a");
    expect(await child.line()).toBe("a");
    child.process.stdin?.end();
    expect((await child.exit).code).toBe(0);
    const index = await openLeaseIndex({ dir });
    expect((await index.get("a"))?.state).toBe("active");
    await index.close();
  });

  test("a process that exits or is terminated in the middle of its writes ends at once", async () => {
    const dir = tempDir();
    const exiting = spawnChild(OPENER, [dir]);
    await exiting.line();
    exiting.send("exit x");
    const start = performance.now();
    expect((await exiting.exit).code).toBe(7);
    const writing = spawnChild(WRITER, [dir, "w"]);
    for (let n = 0; n < 20; n++) await writing.line();
    writing.process.kill("SIGTERM");
    expect((await writing.exit).signal).toBe("SIGTERM");
    expect(performance.now() - start).toBeLessThan(10_000);
    const index = await openLeaseIndex({ dir });
    expect((await index.verify()).problems).toEqual([]);
    await index.close();
  });

  // Closing a descriptor of a file takes away all record locks that the process has on it (fcntl(2)).
  test.skipIf(libc() === null)(
    "a backup that reads every file of the directory costs no lock and no change",
    async () => {
      const dir = tempDir();
      const index = await openLeaseIndex({ dir });
      const ids: string[] = [];
      const insert = async () => {
        ids.push(`mine-${ids.length}`);
        await index.insert({ id: ids.at(-1) ?? "", data: {} });
      };
      for (let round = 0; round < (isLong ? 30 : 3); round++) {
        for (let n = 0; n < 20; n++) await insert();
        for (const name of readdirSync(dir)) readFileSync(join(dir, name));
        // The other one opens and closes: were our locks gone, it would take itself for the last and remove the WAL.
        const other = spawnChild(OPENER, [dir]);
        await other.line();
        other.send(`insert other-${round}`);
        ids.push(await other.line());
        const writing = Promise.all([insert(), insert(), insert()]);
        for (const name of readdirSync(dir)) readFileSync(join(dir, name));
        other.send("close");
        expect(await other.line()).toBe("closed");
        other.process.stdin?.end();
        await Promise.all([writing, other.exit]);
        await insert();
      }
      expect(readdirSync(dir)).toContain("state.db-wal");
      const third = await runChild(WRITER, [dir, "third", "1", "1"]);
      expect(third.length).toBeGreaterThan(2);
      for (const id of ids) expect((await index.get(id))?.id).toBe(id);
      expect((await index.verify()).problems).toEqual([]);
      await index.close();
      const again = await openLeaseIndex({ dir });
      for (const id of ids) expect((await again.get(id))?.id).toBe(id);
      await again.close();
    },
  );
});

import { cpSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { stepLeaseLifecycle } from "../../src/state/lifecycle.ts";
import type { StateIndex, StateRecord } from "../../src/state/model.ts";
import { openLeaseIndex, openStateIndex } from "../../src/state/open.ts";
import { MIGRATIONS } from "../../src/state/sqlite/schema.ts";
import { numbers } from "../conformance/case.ts";
import { isLong, spawnChild, tempDir } from "../support/spawn.ts";
import { withoutWorkers } from "../support/workers.ts";

interface Lease {
  worker: string;
  tags: string[];
  text: string;
}
const STATES = ["active", "completed", "failed", "expired"] as const;
type Leases = StateIndex<Lease, (typeof STATES)[number]>;
const PAGE = 4_096;

const open = (dir: string): Promise<Leases> =>
  openStateIndex({
    name: "lease",
    lifecycle: stepLeaseLifecycle,
    dir,
    durability: "committed",
    retention: false,
    indexes: { worker: (r) => r.data.worker, tag: (r) => r.data.tags },
  });

async function all(listing: AsyncIterable<StateRecord<Lease, string>>): Promise<StateRecord<Lease, string>[]> {
  const records: StateRecord<Lease, string>[] = [];
  for await (const record of listing) records.push(record);
  return records;
}

/** A closed store with all that there can be in one, its bytes, and questions with the right answers. */
class Specimen {
  readonly dir = tempDir();
  readonly file = join(this.dir, "state.db");
  bytes = Buffer.alloc(0);
  readonly #questions = new Map<string, (index: Leases) => Promise<unknown>>();
  readonly #answers = new Map<string, string>();

  static async make(records: number, textLength: number): Promise<Specimen> {
    const specimen = new Specimen();
    const below = numbers(records);
    const index = await open(specimen.dir);
    await index.beginEpoch();
    const ids = Array.from({ length: records }, (_, n) => `${below(1e9)}-${n}`);
    const insert = (id: string, n: number) => {
      const data = { worker: `w${below(5)}`, tags: [`t${n % 3}`, `u${n}`], text: "x".repeat(below(2 * textLength)) };
      return index.insert({ id, since: 1e12 + below(500), state: STATES[n % 4] ?? "active", data });
    };
    await Promise.all(ids.map(insert));
    await index.import("source", async function* () {
      yield {
        id: "imported",
        state: "completed",
        since: 5,
        origin: "o",
        data: { worker: "w1", tags: [], text: "" },
        watermark: "m",
      };
    });
    await index.close();
    specimen.bytes = readFileSync(specimen.file);
    await specimen.#ask(ids);
    return specimen;
  }

  async #ask(ids: string[]): Promise<void> {
    const ask = (name: string, question: (index: Leases) => Promise<unknown>) => this.#questions.set(name, question);
    for (const state of STATES) {
      ask(`all ${state}`, (index) => all(index.byState(state)));
      ask(`the last five ${state}`, (index) => all(index.byState(state, { reverse: true, limit: 5 })));
      ask(`the number of ${state}`, (index) => index.count(state));
    }
    for (let n = 0; n < 5; n++) ask(`worker w${n}`, (index) => all(index.by("worker", `w${n}`)));
    ask("tag t1 in failed", (index) => all(index.by("tag", "t1", { state: "failed" })));
    for (const id of ids.slice(0, 300)) ask(`record ${id}`, (index) => index.get(id));
    for (let n = 0; n < 20; n++) ask(`no record ${n}`, (index) => index.get(`${n * 5e7}-none`));
    ask("the epoch", async (index) => (await index.stats()).epoch);
    const index = await open(this.dir);
    for (const [name, question] of this.#questions) this.#answers.set(name, JSON.stringify(await question(index)));
    expect((await index.verify()).problems).toEqual([]);
    await index.close();
  }

  /** Opens the file with these bytes. Nothing but the right answers or typed errors; and the bytes stay as they are. */
  async examine(bytes: Buffer, what: string): Promise<"refused" | "noticed" | "only by verify" | "harmless"> {
    for (const name of readdirSync(this.dir)) rmSync(join(this.dir, name));
    writeFileSync(this.file, bytes);
    const outcome = await this.#examine(what);
    expect(readFileSync(this.file).equals(bytes), `${what}: the file is as it was`).toBe(true);
    return outcome;
  }

  async #examine(what: string): Promise<"refused" | "noticed" | "only by verify" | "harmless"> {
    let index: Leases;
    try {
      index = await open(this.dir);
    } catch (error) {
      expect(error, what).toMatchObject({ code: expect.stringMatching(TYPED), path: this.file });
      return "refused";
    }
    let noticed = false;
    for (const [name, question] of this.#questions) {
      try {
        const answer = JSON.stringify(await question(index));
        if (answer !== this.#answers.get(name)) expect.fail(`${what}: ${name} is answered by ${answer}`);
      } catch (error) {
        if ((error as { code?: string }).code !== "STATE_STORE_CORRUPT") throw error;
        noticed = true;
      }
    }
    const { ok } = await index.verify();
    await index.close();
    return noticed ? "noticed" : ok ? "harmless" : "only by verify";
  }
}

/** A flipped bit in the version may look like a newer one. */
const TYPED = /^(STATE_STORE_CORRUPT|SCHEMA_VERSION)$/;

function flipped(bytes: Buffer, offset: number, bit: number): Buffer {
  const copy = Buffer.from(bytes);
  copy[offset]! ^= 1 << bit;
  return copy;
}

describe("a damaged store never crashes, never answers wrongly, and is left as it is", () => {
  test("cut off at any length", async () => {
    withoutWorkers();
    const specimen = await Specimen.make(80, 40);
    const { bytes } = specimen;
    const below = numbers(3);
    const lengths = [0, 1, 15, 16, 99, 100, 511, 512, PAGE - 1, PAGE, PAGE + 1, bytes.length >> 1, bytes.length - PAGE];
    for (let n = 0; n < (isLong ? 200 : 15); n++) lengths.push(below(bytes.length));
    for (const length of [...lengths, bytes.length - 1]) {
      expect(await specimen.examine(bytes.subarray(0, length), `${length} bytes`), `${length} bytes`).toBe("refused");
    }
  });

  test("with garbage in place of the whole, of all but the header, of one page, or with a page of zeros", async () => {
    withoutWorkers();
    const specimen = await Specimen.make(80, 40);
    const { bytes } = specimen;
    const below = numbers(4);
    const garbage = (length: number) => Buffer.from(Uint8Array.from({ length }, () => below(256)));
    const replaced = (from: number, by: Buffer) => {
      const copy = Buffer.from(bytes);
      by.copy(copy, from);
      return copy;
    };
    expect(await specimen.examine(garbage(bytes.length), "garbage")).toBe("refused");
    expect(await specimen.examine(Buffer.from("not a database"), "text")).toBe("refused");
    expect(await specimen.examine(replaced(100, garbage(bytes.length - 100)), "all but the header")).toBe("refused");
    for (let page = 0; page < bytes.length / PAGE; page++) {
      expect(await specimen.examine(replaced(page * PAGE, garbage(PAGE)), `garbage in page ${page}`)).toBe("refused");
      expect(await specimen.examine(replaced(page * PAGE, Buffer.alloc(PAGE)), `zeros in page ${page}`)).toBe(
        "refused",
      );
    }
  });

  test("with one bit flipped anywhere in a store that is inspected when it is opened", async () => {
    withoutWorkers();
    const specimen = await Specimen.make(80, 40);
    const below = numbers(5);
    const outcomes = new Map<string, number>();
    for (let n = 0; n < (isLong ? 3_000 : 120); n++) {
      const [offset, bit] = [below(specimen.bytes.length), below(8)];
      const outcome = await specimen.examine(flipped(specimen.bytes, offset, bit), `byte ${offset}, bit ${bit}`);
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    }
    // Either it is refused, or it lies where nothing is stored.
    expect([...outcomes.keys()].sort()).toEqual(["harmless", "refused"]);
  });

  test("with one bit flipped in an index of a store that is too large to be inspected each time", async () => {
    withoutWorkers();
    const specimen = await Specimen.make(600, 8_000);
    expect(specimen.bytes.length).toBeGreaterThan(4 * 1_048_576);
    const below = numbers(6);
    // 2 and 10 are the pages of indexes and of tables without rowid (sqlite.org/fileformat2.html, 1.6).
    const pages = Array.from({ length: specimen.bytes.length / PAGE }, (_, page) => page).filter((page) =>
      [2, 10].includes(specimen.bytes[page * PAGE] ?? 0),
    );
    const outcomes = new Set<string>();
    for (let n = 0; n < (isLong ? 1_000 : 10); n++) {
      const [offset, bit] = [(pages[below(pages.length)] ?? 0) * PAGE + below(PAGE), below(8)];
      outcomes.add(await specimen.examine(flipped(specimen.bytes, offset, bit), `byte ${offset}, bit ${bit}`));
    }
    expect(outcomes).toContain("noticed");
  });

  test("with any bit flipped of what lists one record in the middle, in a store that is too large to be inspected", async () => {
    withoutWorkers();
    const specimen = await Specimen.make(600, 8_000);
    const { bytes } = specimen;
    const database = new DatabaseSync(specimen.file, { readOnly: true });
    const [since, rec, id] = Object.values(
      database
        .prepare(
          "SELECT since, rec, id FROM record WHERE state = 'failed' AND rec > 255 ORDER BY since LIMIT 1 OFFSET 40",
        )
        .get() ?? {},
    ) as [number, number, string];
    database.close();
    // An entry ends in its state, time and number, an index entry of an id in both; in front of them stand their kinds.
    const number = Buffer.alloc(8);
    number.writeUIntBE(since, 0, 6);
    number.writeUInt16BE(rec, 6);
    const places = [
      { tail: Buffer.concat([Buffer.from("failed"), number]), kinds: 6 },
      { tail: Buffer.concat([Buffer.from(id), number.subarray(6)]), kinds: 4 },
    ];
    const outcomes = new Set<string>();
    for (const { tail, kinds } of places) {
      const at = bytes.indexOf(tail);
      expect(at, tail.toString()).toBeGreaterThan(0);
      for (let offset = at - kinds; offset < at + tail.length; offset++) {
        for (let bit = 0; bit < 8; bit++) {
          if (!isLong && offset % 7 !== 0) continue;
          outcomes.add(await specimen.examine(flipped(bytes, offset, bit), `byte ${offset}, bit ${bit}`));
        }
      }
    }
    expect(outcomes).toContain("noticed");
  });

  test("on the writer's thread the errors are the same, and a change of a damaged record is refused", async () => {
    const specimen = await Specimen.make(600, 8_000);
    writeFileSync(specimen.file, specimen.bytes.subarray(0, specimen.bytes.length >> 1));
    await expect(open(specimen.dir)).rejects.toMatchObject({
      code: "STATE_STORE_CORRUPT",
      path: specimen.file,
    });
    const at = specimen.bytes.indexOf('"text":"xxxxxxxx');
    writeFileSync(specimen.file, flipped(specimen.bytes, at + 12, 1));
    const index = await open(specimen.dir);
    const damaged: string[] = [];
    for (const state of STATES) {
      await expect(all(index.byState(state)))
        .resolves.toBeDefined()
        .catch(() => damaged.push(state));
    }
    expect(damaged).toHaveLength(1);
    const report = await index.verify();
    expect(report.problems).toMatchObject([{ part: "record", id: expect.any(String) }]);
    const { id } = report.problems[0] as { id: string };
    await expect(index.get(id)).rejects.toMatchObject({ code: "STATE_STORE_CORRUPT" });
    await expect(index.update(id, { worker: "w" })).rejects.toMatchObject({ code: "STATE_STORE_CORRUPT" });
    await expect(index.sweep({ from: damaged[0] as "active", to: "expired" })).rejects.toMatchObject({
      code: expect.any(String),
    });
    await index.insert({ id: "another", data: { worker: "w", tags: [], text: "" } });
    await index.close();
  });
});

describe("a store that is not what it should be is refused and left as it is", () => {
  test("when its file is gone or empty, though its WAL is there", async () => {
    withoutWorkers();
    const dir = tempDir();
    const index = await open(dir);
    await index.insert({ id: "a", data: { worker: "w", tags: [], text: "" } });
    const copy = tempDir();
    cpSync(join(dir, "state.db-wal"), join(copy, "state.db-wal"));
    await expect(open(copy)).rejects.toMatchObject({ code: "STATE_STORE_CORRUPT" });
    writeFileSync(join(copy, "state.db"), "");
    await expect(open(copy)).rejects.toMatchObject({ code: "STATE_STORE_CORRUPT" });
    await index.close();
  });

  test("but what a process left behind that was killed while it made one is cleared away in time", async () => {
    withoutWorkers();
    const dir = tempDir();
    for (const name of ["state.db.1234.new", "state.db.1234.new-wal", "state.db.5678.new"])
      writeFileSync(join(dir, name), "");
    const longAgo = new Date(Date.now() - 3_600_000);
    for (const name of ["state.db.1234.new", "state.db.1234.new-wal"]) utimesSync(join(dir, name), longAgo, longAgo);
    await (await open(dir)).close();
    expect(readdirSync(dir).sort()).toEqual(["state.db", "state.db.5678.new", "state.lock"]);
  });

  test("when another program made it, or a newer version of this one", async () => {
    withoutWorkers();
    const dir = tempDir();
    const foreign = new DatabaseSync(join(dir, "state.db"));
    foreign.exec("CREATE TABLE leases (id TEXT)");
    foreign.close();
    await expect(open(dir)).rejects.toMatchObject({ code: "STATE_STORE_CORRUPT" });
    const newer = tempDir();
    await (await open(newer)).close();
    const database = new DatabaseSync(join(newer, "state.db"));
    database.exec("PRAGMA user_version = 99");
    database.close();
    await expect(open(newer)).rejects.toMatchObject({ code: "SCHEMA_VERSION", found: 99, known: MIGRATIONS.length });
    expect(readFileSync(join(newer, "state.db")).length).toBeGreaterThan(0);
  });

  test("when it is removed or replaced while it is open: nothing is acknowledged into a file that nobody will find", async () => {
    const dir = tempDir();
    const index = await open(dir);
    const data = { worker: "w", tags: [], text: "" };
    await index.insert({ id: "a", data });
    rmSync(join(dir, "state.db"));
    await expect(index.insert({ id: "b", data })).rejects.toMatchObject({ code: "STATE_STORE_UNAVAILABLE" });
    await index.close();
  });

  test("when its WAL is removed before the first write, none is acknowledged either", async () => {
    const dir = tempDir();
    await (await open(dir)).close();
    const index = await open(dir);
    expect(await index.count()).toBe(0);
    rmSync(join(dir, "state.db-wal"));
    const writing = index.insert({ id: "a", data: { worker: "w", tags: [], text: "" } });
    await expect(writing).rejects.toMatchObject({ code: "STATE_STORE_UNAVAILABLE" });
    await index.close();
  });

  test.each([["state.db-wal"], ["state.db-shm"], ["state.db-wal", "state.db-shm"]])(
    "when %s is removed while two processes have it open: what both wrote is kept, and no third opens it until both are closed",
    async (...names) => {
      const dir = tempDir();
      // Without pruning in the background: a write that joins a transaction under way is committed with it.
      const open = () => openLeaseIndex({ dir, retention: false });
      const other = spawnChild(new URL("open.child.ts", import.meta.url), [dir]);
      expect(await other.line()).toBe("ready");
      other.send("insert theirs");
      expect(await other.line()).toBe("theirs");
      const index = await open();
      await index.insert({ id: "ours", data: {} });
      for (const name of names) rmSync(join(dir, name));
      await expect(index.insert({ id: "late", data: {} })).rejects.toMatchObject({ code: "STATE_STORE_UNAVAILABLE" });
      await index.close();
      await expect(open()).rejects.toMatchObject({
        code: "STATE_STORE_UNAVAILABLE",
        message: expect.stringContaining("in every process"),
      });
      other.send("close");
      expect(await other.line()).toBe("closed");
      await using again = await open();
      for (const id of ["ours", "theirs"]) expect(await again.get(id)).toMatchObject({ id });
      expect(await again.verify()).toMatchObject({ ok: true });
      other.process.kill("SIGKILL");
    },
  );

  test.each(["state.db-wal", "state.db-shm"])(
    "when %s is removed while it is open: no write goes on, none is lost",
    async (name) => {
      const dir = tempDir();
      const index = await open(dir);
      const data = { worker: "w", tags: [], text: "" };
      await index.insert({ id: "a", data });
      rmSync(join(dir, name));
      const path = join(dir, name);
      await expect(index.insert({ id: "b", data })).rejects.toMatchObject({ code: "STATE_STORE_UNAVAILABLE", path });
      expect(await index.get("a")).toMatchObject({ id: "a" });
      await index.close();
      await using again = await open(dir);
      expect(await again.get("a")).toMatchObject({ id: "a", data });
      expect(await again.verify()).toMatchObject({ ok: true, records: 1 });
      await again.insert({ id: "b", data });
    },
  );
});

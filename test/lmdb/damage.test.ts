import {
  closeSync,
  cpSync,
  ftruncateSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { damageOf } from "../../src/lmdb/damage.ts";
import { openOwnedEnvironment } from "../../src/lmdb/index.ts";
import { isLong, spawnChild, tempDir } from "../support/spawn.ts";

const PAGE = 4096;
let sound = "";

beforeAll(async () => {
  sound = mkdtempSync(join(tmpdir(), "tussock-sound-"));
  expect(await start(sound)).toMatchObject({ code: 0, said: ["built"] });
  expect(await start(sound)).toMatchObject({ code: 0, said: ["read"] });
});
afterAll(() => rmSync(sound, { recursive: true, force: true }));

/** One start of the server; what hangs is killed, as its supervisor would do. */
async function start(dir: string): Promise<{ code: number | null; signal: string | null; said: string[] }> {
  const child = spawnChild(new URL("./reader.child.ts", import.meta.url), [dir]);
  const watchdog = setTimeout(() => child.process.kill("SIGKILL"), 20_000);
  const said: string[] = [];
  for await (const line of child.lines) said.push(line);
  const { code, signal } = await child.exit;
  clearTimeout(watchdog);
  return { code, signal, said };
}

/** Starts again and again, as a supervisor does; how often it took until all was well. */
async function startUntilWell(dir: string): Promise<{ starts: number; last: string; asides: number; log: string }> {
  const log: string[] = [];
  for (let starts = 1; starts <= 3; starts++) {
    const { code, signal, said } = await start(dir);
    log.push(`${code ?? signal}: ${said.join("; ")}`);
    if (code !== 0) continue;
    const asides = readdirSync(dir).filter((name) => name.includes(".aside-")).length;
    return { starts, last: said.at(-1) ?? "", asides, log: log.join("\n") };
  }
  throw new Error(`a crash loop:\n${log.join("\n")}`);
}

type Change = (fd: number, size: number) => void;

/** `silently`: as a disk does it, so that the last session does not tell. `killed`: that one did not close. */
function damaged(change: Change, { silently = false, killed = false } = {}): string {
  const dir = tempDir();
  cpSync(sound, dir, { recursive: true });
  const path = join(dir, "0", "data.mdb");
  const fd = openSync(path, "r+");
  change(fd, statSync(path).size);
  closeSync(fd);
  const { size, mtimeMs } = statSync(path);
  const closed = { open: false, uncleanEnds: 0, size, modifiedMs: Math.floor(mtimeMs) };
  const session = killed ? { open: true, uncleanEnds: 0 } : silently ? closed : { ...closed, modifiedMs: 1000 };
  writeFileSync(join(dir, "0", "session.json"), JSON.stringify(session));
  return dir;
}

const write = (fd: number, bytes: Uint8Array, at: number): unknown => writeSync(fd, bytes, 0, bytes.length, at);
const flip =
  (offset: number, bit: number): Change =>
  (fd) => {
    const byte = readFileSync(`/proc/self/fd/${fd}`)[offset]!;
    write(fd, Uint8Array.of(byte ^ (1 << bit)), offset);
  };
/** A small generator of numbers, the same in each run. */
function random(seed: number): (below: number) => number {
  let state = Math.imul(seed + 1, 0x9e3779b1) >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}
function garbage(length: number, seed: number): Uint8Array {
  const next = random(seed);
  return Uint8Array.from({ length }, () => next(256));
}

/** The size of each value in a leaf page (mdb.c: `MDB_node`) reaches far beyond the end of the file. */
function makeValuesEndless(fd: number, size: number): void {
  const bytes = readFileSync(`/proc/self/fd/${fd}`);
  for (let page = 2 * PAGE; page < size; page += PAGE) {
    const [flags, nodes] = [bytes.readUInt16LE(page + 18), bytes.readUInt16LE(page + 20) / 2];
    if (flags !== 2 || nodes < 5) continue;
    for (let node = 0; node < nodes; node++) {
      const at = page + 24 + bytes.readUInt16LE(page + 24 + 2 * node);
      if (at < page + PAGE - 4) bytes.writeUInt32LE(0x0fff_ffff, at);
    }
  }
  write(fd, bytes, 0);
}

/** What the check before mapping must see, whatever the times and the session say. */
const visible: [string, Change][] = [
  ["cut to nothing", (fd) => ftruncateSync(fd, 0)],
  ["one byte", (fd) => ftruncateSync(fd, 1)],
  ["one page", (fd) => ftruncateSync(fd, PAGE)],
  ["two pages", (fd) => ftruncateSync(fd, 2 * PAGE)],
  ["cut to half", (fd, size) => ftruncateSync(fd, Math.floor(size / 2 / PAGE) * PAGE)],
  ["cut by a page", (fd, size) => ftruncateSync(fd, size - PAGE)],
  ["cut within a page", (fd, size) => ftruncateSync(fd, size - 1)],
  ["garbage", (fd, size) => write(fd, garbage(size, 7), 0)],
  ["zeroes", (fd, size) => write(fd, new Uint8Array(size), 0)],
  ["a zeroed first meta page", (fd) => write(fd, new Uint8Array(PAGE), 0)],
  ["a zeroed second meta page", (fd) => write(fd, new Uint8Array(PAGE), PAGE)],
  ["another magic", (fd) => write(fd, Uint8Array.of(1, 2, 3, 4), 24)],
  ["another format version", (fd) => write(fd, Uint8Array.of(9), 28)],
  ["another page size", (fd) => write(fd, Uint8Array.of(0, 0x20), 48)],
  ["a root beyond the end", (fd) => [0, PAGE].map((page) => write(fd, Uint8Array.of(0xff, 0xff, 0xff), page + 136))],
];

describe.each(visible)("a file that is %s", (_, change) => {
  test("is seen before it is mapped, even if neither its time nor its session tell", async () => {
    const dir = damaged(change, { silently: true, killed: true });
    expect(damageOf(join(dir, "0", "data.mdb"), { wholePages: true })).toEqual(expect.any(String));
    const warnings: string[] = [];
    const warn = (message: string): void => void warnings.push(message);
    const environment = await openOwnedEnvironment({ dir, identity: { schema: 1 }, warn });
    expect(environment).toMatchObject({ slot: 0, fresh: true });
    expect(warnings).toHaveLength(1);
    expect(readdirSync(dir).filter((name) => name.includes(".aside-"))).toHaveLength(1);
    await environment.close();
  });
});

test("a sound file is never taken for a damaged one, whatever was written into it and however it was left", async () => {
  const dir = tempDir();
  for (let round = 0; round < (isLong ? 200 : 10); round++) {
    const environment = await openOwnedEnvironment({ dir, identity: { schema: 1 } });
    expect(environment.freshReason).toBe(round === 0 ? "new" : null);
    const db = environment.root.openDB<Uint8Array, number>({ name: "n", keyEncoding: "uint32", encoding: "binary" });
    for (let i = 0; i < 10; i++) {
      db.transactionSync(() => {
        for (const byte of garbage(40, round * 10 + i)) {
          if (byte % 3 === 0) db.remove(byte);
          else db.put(byte, garbage(byte * 100, byte));
        }
      });
    }
    await environment.close();
    expect(damageOf(join(environment.path, "data.mdb"), { wholePages: false })).toBeNull();
  }
});

describe("a changed inner page", () => {
  test("is noticed by the file's time when somebody wrote it", async () => {
    const dir = damaged((fd, size) => write(fd, garbage(PAGE, 3), size - 4 * PAGE));
    const { starts, last, log } = await startUntilWell(dir);
    expect({ starts, last }, log).toEqual({ starts: 1, last: "built" });
  });

  test("that ends the process each time is not given a third try", async () => {
    const dir = damaged(makeValuesEndless, { silently: true });
    for (let i = 0; i < 2; i++) {
      const { signal, said } = await start(dir);
      expect(signal, said.join("; ")).toMatch(/^SIG(BUS|SEGV|ABRT)$/);
    }
    expect(await start(dir)).toMatchObject({ code: 0, said: [expect.stringContaining("2 times in a row"), "built"] });
    expect(await start(dir)).toMatchObject({ code: 0, said: ["read"] });
  });

  // In a short run: one that LMDB reports, one that changes nothing in use, one that mostly ends the process by a signal.
  const cases = isLong ? Array.from({ length: 300 }, (_, seed) => seed) : [1, 5, 8];
  test(`done by the disk (${cases.length} cases) costs at most two starts: the third is well`, async () => {
    const { size } = statSync(join(sound, "0", "data.mdb"));
    for (const seed of cases) {
      const next = random(seed);
      const page = (2 + next(size / PAGE - 2)) * PAGE;
      const torn: Change = (fd) => write(fd, garbage(PAGE, seed), page);
      const change = seed % 2 === 0 ? torn : flip(page + next(32), next(8));
      const { starts, last, log } = await startUntilWell(damaged(change, { silently: true }));
      expect(["built", "read"], log).toContain(last); // "read": the page is not in use.
      expect(starts).toBeLessThanOrEqual(3);
    }
  });
});

test("one that dies of an exception that nobody catches is not given a third try either", async () => {
  const dir = tempDir();
  const slots: string[] = [];
  for (let i = 0; i < 3; i++) {
    const child = spawnChild(new URL("./owner.child.ts", import.meta.url), [dir]);
    slots.push(await child.line());
    child.send("throw");
    expect((await child.exit).code).toBe(1);
  }
  expect(slots).toEqual(["slot 0 new", "slot 0 -", "slot 0 it was left without being closed 2 times in a row"]);
});

test("a server that is killed twice in a row builds its index anew, one that is killed now and then does not", async () => {
  const dir = tempDir();
  await start(dir);
  const kill = async (): Promise<string> => {
    const child = spawnChild(new URL("./owner.child.ts", import.meta.url), [dir]);
    const said = await child.line();
    child.process.kill("SIGKILL");
    await child.exit;
    return said;
  };
  expect(await kill()).toBe("slot 0 -");
  expect(await start(dir)).toMatchObject({ code: 0, said: ["read"] });
  expect(await kill()).toBe("slot 0 -");
  expect(await kill()).toBe("slot 0 -");
  expect(await kill()).toMatch(/^slot 0 it was left without being closed 2 times in a row$/);
});

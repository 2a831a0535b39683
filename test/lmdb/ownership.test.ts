import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { openOwnedEnvironment } from "../../src/lmdb/index.ts";
import { type Child, isLong, type SpawnOptions, spawnChild, tempDir } from "../support/spawn.ts";

const children: Child[] = [];
afterEach(async () => {
  for (const child of children.splice(0)) {
    child.process.kill("SIGKILL");
    await child.exit;
  }
});

function spawnOne(program: string, dir: string, slots = 4, options: SpawnOptions = {}): Child {
  const child = spawnChild(new URL(program, import.meta.url), [dir, String(slots)], options);
  children.push(child);
  return child;
}

async function owner(dir: string, slots = 4, options: SpawnOptions = {}): Promise<{ child: Child; slot: string }> {
  const child = spawnOne("./owner.child.ts", dir, slots, options);
  return { child, slot: (await child.line()).split(" ").slice(1).join(" ") };
}

async function kill(child: Child): Promise<void> {
  child.process.kill("SIGKILL");
  await child.exit;
}

/** The numbers in slot 0, which must be every one up to a last, whole. */
async function numbersIn(dir: string): Promise<number> {
  await using environment = await openOwnedEnvironment({ dir, identity: { schema: 1 } });
  expect([environment.slot, environment.freshReason]).toEqual([0, null]);
  const numbers = environment.root.openDB<string, number>({
    name: "numbers",
    keyEncoding: "uint32",
    encoding: "string",
  });
  const found = [...numbers.getRange()];
  expect(found.map(({ key }) => key)).toEqual(Array.from({ length: found.length }, (_, i) => i));
  for (const { key, value } of found) expect(value).toBe(`value ${key}`);
  return found.length;
}

describe.each([
  { slots: 1, seen: ["temporary"] },
  { slots: 4, seen: [1, 2, 3] },
])("with $slots slots", ({ slots, seen }) => {
  test("every acknowledged write survives processes that open and close in a loop, and SIGKILL", async () => {
    const dir = tempDir();
    const { child, slot } = await owner(dir, slots);
    expect(slot).toBe("0 new");
    const openers = [spawnOne("./opener.child.ts", dir, slots), spawnOne("./opener.child.ts", dir, slots)];
    for (const opener of openers) expect(await opener.line()).toBe("opening");
    const writes = isLong ? 5000 : 800;
    child.send(`write ${writes}`);
    for (let i = 0; i < writes; i++) expect(Number(await child.line())).toBe(i);
    await kill(child);
    for (const opener of openers) opener.process.stdin!.end();
    for (const opener of openers) {
      const report = JSON.parse(await opener.line()) as { times: number; slots: (number | string)[] };
      expect(report.times).toBeGreaterThan(3);
      for (const each of report.slots) expect([...seen, 0]).toContain(each); // 0: after the kill.
      await opener.exit;
    }
    expect(await numbersIn(dir)).toBe(writes);
    expect(readdirSync(dir).filter((name) => name.startsWith("temporary"))).toEqual([]);
  });
});

test("SIGKILL frees the slot at once, and what was acknowledged is there", async () => {
  const dir = tempDir();
  const { child } = await owner(dir);
  child.send("write 100000");
  let acknowledged = 0;
  while (acknowledged < 50) acknowledged = Number(await child.line());
  await kill(child);
  for await (const line of child.lines) acknowledged = Number(line);
  expect(await numbersIn(dir)).toBeGreaterThanOrEqual(acknowledged + 1);
});

test("a second PID namespace is kept out", async (context) => {
  const prefix = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
  if (spawnSync(prefix[0]!, [...prefix.slice(1), "true"]).status !== 0) {
    context.skip("this user may not make PID namespaces");
  }
  const dir = tempDir();
  const outer = await owner(dir);
  const inner = await owner(dir, 4, { prefix });
  expect([outer.slot, inner.slot]).toEqual(["0 new", "1 new"]);
  await kill(outer.child);
  inner.child.send("close");
  expect(await inner.child.line()).toBe("closed");
  const next = await owner(dir, 4, { prefix });
  expect(next.slot).toBe("0 -");
  expect((await owner(dir)).slot).toBe("1 -");
});

test("an owner that reads every file of the directory, as a backup does, stays the owner and loses nothing", async () => {
  const dir = tempDir();
  const { child } = await owner(dir);
  const opener = spawnOne("./opener.child.ts", dir);
  expect(await opener.line()).toBe("opening");
  for (let round = 0; round < 10; round++) {
    child.send("write 20");
    for (let i = 0; i < 20; i++) await child.line();
    child.send("read-files");
    expect(await child.line()).toBe("read");
    expect((await owner(dir)).slot).not.toMatch(/^0/);
    await kill(children.pop()!);
  }
  opener.process.stdin!.end();
  expect(JSON.parse(await opener.line()).slots).not.toContain(0);
  await kill(child);
  expect(await numbersIn(dir)).toBe(200);
});

describe("a process that ends", () => {
  test.each(["close", "idle", "exit"])("by %s exits with 0, in order, and loses nothing", async (way) => {
    const dir = tempDir();
    for (let session = 0; session < 3; session++) {
      const { child, slot } = await owner(dir);
      expect(slot).toBe(session === 0 ? "0 new" : "0 -");
      child.send("write 10");
      for (let i = 0; i < 10; i++) await child.line();
      child.send(way);
      if (way === "close") expect(await child.line()).toBe("closed");
      expect(await child.exit).toEqual({ code: 0, signal: null, stderr: "" });
    }
    expect(await numbersIn(dir)).toBe(10);
  });

  test.each([
    ["by default", false],
    ["with a handler that closes", true],
  ])(
    "by SIGTERM in the middle of writing, %s, is gone within 2 s, and loses nothing",
    { retry: 2 },
    async (_, handler) => {
      const dir = tempDir();
      const { child } = await owner(dir);
      if (handler) {
        child.send("close-on-sigterm");
        expect(await child.line()).toBe("ready");
      }
      child.send("write 100000");
      let acknowledged = 0;
      while (acknowledged < 50) acknowledged = Number(await child.line());
      const told = performance.now();
      child.process.kill("SIGTERM");
      for await (const line of child.lines) acknowledged = Number(line);
      await child.exit;
      expect(performance.now() - told).toBeLessThan(2000);
      expect(await numbersIn(dir)).toBeGreaterThanOrEqual(acknowledged + 1);
    },
  );
});

test("temporary environments leave nothing, those of killed processes neither", async () => {
  const dir = tempDir();
  const first = await owner(dir, 1);
  const second = await owner(dir, 1);
  const third = await owner(dir, 1);
  expect([first.slot, second.slot, third.slot]).toEqual(["0 new", "temporary new", "temporary new"]);
  const temporary = (): string[] => readdirSync(dir).filter((name) => name.startsWith("temporary"));
  expect(temporary()).toHaveLength(4);
  third.child.send("close");
  expect(await third.child.line()).toBe("closed");
  expect(temporary()).toHaveLength(2);
  await kill(second.child);
  expect(temporary()).toHaveLength(2);
  const fourth = await owner(dir, 1);
  expect(temporary()).toHaveLength(2);
  await kill(fourth.child);
  expect(existsSync(join(dir, "0", "data.mdb"))).toBe(true);
});

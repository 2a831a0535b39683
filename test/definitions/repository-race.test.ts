import { execFileSync } from "node:child_process";
import { existsSync, linkSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { StorageFullError } from "../../src/errors.ts";
import { readObviously } from "../support/obvious-reader.ts";
import { idOf, openWorld, textOf, thing } from "../support/repositories.ts";
import { type Child, isLong, spawnChild, tempDir } from "../support/spawn.ts";

const TYPE = "swamp/worker";
const childFile = new URL("./repository.child.ts", import.meta.url);

/** Starts the processes, lets all begin at once, and returns what each printed. */
async function together(children: Child[]): Promise<string[][]> {
  for (const child of children) expect(await child.line()).toBe("ready");
  for (const child of children) child.send("go");
  return Promise.all(
    children.map(async (child) => {
      const lines: string[] = [];
      for await (const line of child.lines) lines.push(line);
      const { code, stderr } = await child.exit;
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
      return lines;
    }),
  );
}

function entriesIn(base: string) {
  return readObviously([{ name: "models", dir: join(base, "models") }]).entries;
}

const slim = { env: { TUSSOCK_NO_WORKERS: "1" } };

describe("several processes at once", () => {
  it("8 × 50 names end with one definition each, and everybody got that one", async () => {
    const base = tempDir();
    const children = Array.from({ length: 8 }, () => spawnChild(childFile, ["names", base, "50"], slim));
    const answers = (await together(children)).flat().map((line) => JSON.parse(line) as Answer);
    expect(answers).toHaveLength(400);
    const entries = entriesIn(base);
    expect(entries).toHaveLength(50);
    for (const { name, id, path } of entries) {
      const got = answers.filter((answer) => answer.name === name);
      expect(new Set(got.map((answer) => `${answer.id} ${answer.path}`))).toEqual(new Set([`${id} ${path}`]));
      expect(got.filter(({ created }) => created)).toHaveLength(1);
    }
  });

  it.each(["web", "Not A Filename"])(
    "that save a new %j at once leave one, and the others learn of the conflict",
    async (name) => {
      const base = tempDir();
      const children = Array.from({ length: 4 }, () => spawnChild(childFile, ["claim", base, name], slim));
      const answers = (await together(children)).flat().sort();
      expect(answers).toEqual(["conflict", "conflict", "conflict", "mine"]);
      expect(entriesIn(base)).toHaveLength(1);
    },
  );

  it("that rename one definition at once leave it in one file, and each sees the last of its own saves or a later one", async () => {
    const base = tempDir();
    mkdirSync(join(base, "models", TYPE), { recursive: true });
    writeFileSync(join(base, "models", TYPE, `${idOf(1)}.yaml`), textOf(TYPE, thing(1, "first")));
    const count = isLong ? "2000" : "100";
    const children = ["a", "b", "c"].map((prefix) =>
      spawnChild(childFile, ["rename", base, idOf(1), prefix, count], slim),
    );
    await together(children);
    const entries = entriesIn(base);
    expect(entries.map(({ id }) => id)).toEqual([idOf(1)]);
    expect(entries[0]?.naming).toBe("name");
    expect(entries[0]?.document["version"]).toBe(Number(count) - 1);
  });

  it("a save killed at any step of a move leaves the id in files of one content; the next save finishes it", async () => {
    const world = await openWorld("exact");
    const old = textOf(TYPE, thing(1, "web", "old"));
    const dir = join(world.models, TYPE);
    let step = 1;
    for (let killed = true; killed; step++) {
      world.put(`${TYPE}/${idOf(1)}.yaml`, old);
      const child = spawnChild(childFile, ["crash", world.base, idOf(1), "web", String(step)], slim);
      await child.line();
      child.send("go");
      killed = (await child.exit).signal === "SIGKILL";
      const held = entriesIn(world.base).filter(({ id }) => id === idOf(1));
      const texts = [...new Set(held.map(({ path }) => readFileSync(path, "utf8")))];
      expect(texts).toHaveLength(1);
      const found = await world.repository().findById(TYPE, idOf(1));
      expect(found?.note).toBe(texts[0] === old ? "old" : "new");
      await world.repository().save(TYPE, thing(1, "web", "after"));
      expect(readdirSync(dir).filter((name) => name.endsWith(".yaml"))).toEqual(["web.yaml"]);
      await world.repository().delete(TYPE, idOf(1));
    }
    expect(step).toBeGreaterThan(6);
  });
});

interface Answer {
  name: string;
  id: string;
  created: boolean;
  path: string;
}

describe("a full disk", () => {
  const mayMount = process.platform === "linux" && process.getuid?.() === 0;

  it.runIf(mayMount)("refuses a save with StorageFullError, and what was there stays as it was", async () => {
    const base = tempDir();
    const models = join(base, "models");
    mkdirSync(models);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=128k", "tmpfs", models]);
    onTestFinished(() => void execFileSync("umount", ["-l", models]));
    const world = await openWorld("exact", base);
    const repository = world.repository({ durability: "flushed" });
    await repository.save(TYPE, thing(1, "old", "precious"));
    await repository.save(TYPE, thing(2, "to-be-moved"));
    const filler = join(models, "filler");
    let bytes = "x".repeat(4096);
    for (let n = 0; bytes !== ""; n++) {
      try {
        writeFileSync(`${filler}-${n}`, bytes);
      } catch {
        bytes = "";
      }
    }
    const before = Object.entries(world.files()).filter(([path]) => path.endsWith(".yaml"));
    const long = "y".repeat(8192);
    await expect(repository.save(TYPE, thing(1, "old", long))).rejects.toThrow(StorageFullError);
    await expect(repository.save(TYPE, thing(2, "moved", long))).rejects.toThrow(StorageFullError);
    await expect(repository.save(TYPE, thing(3, "new", long))).rejects.toThrow(StorageFullError);
    expect(Object.entries(world.files()).filter(([path]) => path.endsWith(".yaml"))).toEqual(before);
    expect(Object.keys(world.files()).filter((path) => path.endsWith(".tmp"))).toEqual([]);
    expect(await repository.findByName(TYPE, "old")).toEqual(thing(1, "old", "precious"));
    await repository.delete(TYPE, idOf(2));
    for (const name of readdirSync(models)) if (name.startsWith("filler")) writeFileSync(join(models, name), "");
    await repository.save(TYPE, thing(3, "new", long));
    expect((await repository.findByName(TYPE, "new"))?.note).toBe(long);
  });
});

describe("a long-lived process", () => {
  const fdDir = "/proc/self/fd";

  it.runIf(existsSync(fdDir))("holds as many descriptors after 10,000 calls as before", async () => {
    const world = await openWorld("exact");
    const repository = world.repository();
    const signal = new AbortController().signal;
    const round = async (n: number): Promise<void> => {
      const name = `name-${n % 50}`;
      await repository.resolveOrCreate(TYPE, name, () => thing(n % 50, name), { signal });
      await repository.findByName(TYPE, name, { signal });
      await repository.findById(TYPE, idOf(n % 50), { signal });
      await repository.findByName(TYPE, "missing", { signal });
      if (n % 10 === 0) await repository.save(TYPE, thing(n % 50, name, `${n}`), { signal });
      if (n % 100 === 0) await repository.delete(TYPE, idOf(n % 50), { signal });
    };
    for (let n = 0; n < 100; n++) await round(n);
    const before = readdirSync(fdDir).length;
    for (let n = 0; n < 2500; n++) await round(n);
    expect(readdirSync(fdDir).length).toBeLessThanOrEqual(before);
    linkSync(join(world.models, TYPE, "name-7.yaml"), join(world.base, "still-writable"));
  });

  it.runIf(existsSync(fdDir))("creates 300 at once in many turns of the event loop, with few descriptors", async () => {
    const world = await openWorld("exact");
    const repository = world.repository();
    await repository.save(TYPE, thing(0, "first"));
    const before = readdirSync(fdDir).length;
    let turns = 0;
    let most = 0;
    let done = false;
    const count = (): void => {
      turns++;
      most = Math.max(most, readdirSync(fdDir).length);
      if (!done) setImmediate(count);
    };
    setImmediate(count);
    await Promise.all(
      Array.from({ length: 300 }, (_, n) =>
        repository.resolveOrCreate(TYPE, `at-once-${n}`, () => thing(n + 1, `at-once-${n}`)),
      ),
    );
    done = true;
    expect(turns).toBeGreaterThan(30);
    expect(most - before).toBeLessThan(50);
  });
});

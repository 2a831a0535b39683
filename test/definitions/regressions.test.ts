/** What once went wrong, each in its smallest form. */
import { execFileSync } from "node:child_process";
import { chmodSync, chownSync, mkdirSync, renameSync, rmdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import { openIndexOn, THIS_PLATFORM } from "../../src/definitions/assemble.ts";
import { openDefinitionIndex } from "../../src/definitions/index.ts";
import type { DefinitionIndexOptions } from "../../src/definitions/model.ts";
import { SharedCommits } from "../../src/definitions/shared-commits.ts";
import { DefinitionStore } from "../../src/definitions/store.ts";
import { sweepType } from "../../src/definitions/sweep.ts";
import { DefinitionProblemError, InvalidArgumentError, StorageFullError } from "../../src/errors.ts";
import { openOwnedEnvironment } from "../../src/lmdb/index.ts";
import { DEFAULT_KEYS } from "../../src/scan/model.ts";
import { simulateGranularity } from "../../src/scan/stamp.ts";
import { type KernelQueue, openKernelQueue } from "../../src/watch/kernel-queue.ts";
import { isDeno, runChild, tempDir } from "../support/spawn.ts";

interface Place {
  base: string;
  options: DefinitionIndexOptions;
  /** A path below the boundary, in which the roots `models` and `auto` lie. */
  at(path: string): string;
  write(path: string, name: string): void;
}

function place(): Place {
  const base = tempDir();
  const at = (path: string): string => join(base, "repo", path);
  return {
    base,
    at,
    options: {
      roots: ["models", "auto"].map((name) => ({ name, dir: at(name) })),
      indexDir: join(base, "index"),
      boundary: join(base, "repo"),
    },
    write(path, name) {
      mkdirSync(join(at(path), ".."), { recursive: true });
      writeFileSync(at(path), `id: id-of-${name}\nname: ${name}\n`);
    },
  };
}

/** Without the rights of root; `type name root` each, `*` for all types. */
function askUnprivileged(p: Place, ...questions: string[]): Promise<string[]> {
  p.write("models/z/z.yaml", "z");
  chownSync(p.base, 65534, 65534);
  return runChild(new URL("./unreadable.child.ts", import.meta.url), [p.base, ...questions]);
}

const isRoot = !isDeno && process.getuid?.() === 0;

/** More than are looked at where a lookup stands. */
const MANY = 30;

describe("a lookup settles, however much there is of what no event tells of", () => {
  const realNow = Date.now;

  afterEach(() => {
    Date.now = realNow;
    simulateGranularity(null);
    delete process.env["TUSSOCK_NO_WORKERS"];
  });

  test("links to directories", async () => {
    const p = place();
    p.write("models/t/a.yaml", "a");
    mkdirSync(p.at("vendor"));
    for (let i = 0; i < MANY; i++) symlinkSync(p.at("vendor"), p.at(`models/t/l${i}.yaml`));
    await using index = await openDefinitionIndex(p.options);
    expect(await index.findByName("t", "none")).toBeNull();
    expect((await index.findById("t", "id-of-a"))?.path).toBe(p.at("models/t/a.yaml"));
  });

  test.skipIf(!isRoot)("files that may not be read", async () => {
    const p = place();
    for (let i = 0; i < MANY; i++) {
      p.write(`models/t/f${i}.yaml`, `f${i}`);
      chmodSync(p.at(`models/t/f${i}.yaml`), 0);
    }
    p.write("models/u/x.yaml", "x");
    expect(await askUnprivileged(p, "t none", "u x", "u none", "* x", "t none auto", "* x auto")).toEqual([
      "t none: EACCES",
      "u x: found",
      "u none: not found",
      "* x: EACCES",
      "t none auto: not found",
      "* x auto: not found",
      "in the background: exact",
      "a root out of reach: opened",
    ]);
  });

  for (const watch of [true, false]) {
    test(`files from a future that a clock set back has made, ${watch ? "exact" : "bounded"}`, async () => {
      process.env["TUSSOCK_NO_WORKERS"] = "1";
      simulateGranularity(1e7);
      const p = place();
      for (let i = 0; i < MANY; i++) {
        p.write(`models/t/f${i}.yaml`, `f${i}`);
        symlinkSync(p.at(`models/t/f${i}.yaml`), p.at(`models/t/l${i}.yaml`));
      }
      Date.now = () => realNow() - 3_600_000;
      await using index = await openDefinitionIndex({ ...p.options, watch });
      expect(await index.findByName("t", "none")).toBeNull();
      expect((await index.findById("t", "id-of-f1"))?.path).toBe(p.at("models/t/f1.yaml"));
      expect((await index.findByNameGlobal("f2"))?.path).toBe(p.at("models/t/f2.yaml"));
      expect(await index.findByIdGlobal("none")).toBeNull();
    });
  }

  test("bounded, a directory that changes within every tick of its clock", async () => {
    process.env["TUSSOCK_NO_WORKERS"] = "1";
    simulateGranularity(1e7);
    const p = place();
    p.write("models/t/a.yaml", "a");
    await using index = await openDefinitionIndex({ ...p.options, watch: false });
    let written = 0;
    const writer = setInterval(() => p.write(`models/t/w${written++}.yaml`, `w${written}`), 1);
    try {
      for (let i = 0; i < 5; i++) expect(await index.findByName("t", "none")).toBeNull();
      expect((await index.findByIdGlobal("id-of-a"))?.path).toBe(p.at("models/t/a.yaml"));
    } finally {
      clearInterval(writer);
    }
    expect(written).toBeGreaterThan(0);
  });
});

test("bounded, a racy file is never taken for what it was when it is asked for by its name", async () => {
  simulateGranularity(1e9);
  process.env["TUSSOCK_NO_WORKERS"] = "1";
  try {
    const p = place();
    p.write("models/t/web.yaml", "bew");
    await using index = await openDefinitionIndex({ ...p.options, watch: false });
    expect(await index.findByName("t", "none")).toBeNull();
    // The same size, the same inode, and within the second the same times.
    for (const name of ["web", "bew", "web", "bew", "web"]) {
      p.write("models/t/web.yaml", name);
      expect((await index.findByName("t", "web"))?.path ?? null).toBe(
        name === "web" ? p.at("models/t/web.yaml") : null,
      );
    }
  } finally {
    simulateGranularity(null);
    delete process.env["TUSSOCK_NO_WORKERS"];
  }
});

describe("a root that is exchanged for another", () => {
  function exchange(p: Place): void {
    renameSync(p.at("models"), p.at("aside"));
    renameSync(p.at("spare"), p.at("models"));
  }

  function threeTrees(): Place {
    const p = place();
    p.write("models/t/a.yaml", "a");
    p.write("auto/t/b.yaml", "b");
    p.write("spare/t/c.yaml", "c");
    return p;
  }

  test("while a sweep of one of its types waits for its turn", async () => {
    const p = threeTrees();
    await using index = await openDefinitionIndex(p.options);
    expect(await index.findByName("t", "none")).toBeNull();
    chmodSync(p.at("models/t"), 0o700);
    const asked = index.findByName("t", "none");
    exchange(p);
    expect(await asked).toBeNull();
    expect((await index.findById("t", "id-of-c"))?.path).toBe(p.at("models/t/c.yaml"));
    expect(await index.findById("t", "id-of-a")).toBeNull();
  });

  test("while it is listed, and is away just then", async () => {
    process.env["TUSSOCK_NO_WORKERS"] = "1";
    try {
      const p = threeTrees();
      let once = true;
      const openQueue = (): KernelQueue | null => {
        const queue = openKernelQueue();
        if (queue === null) return null;
        const watch: KernelQueue["watch"] = (dir, mask) => {
          const watched = queue.watch(dir, mask);
          if (dir === p.at("models") && once) {
            once = false;
            renameSync(p.at("models"), p.at("aside"));
            // After the listing, which follows in this very turn.
            queueMicrotask(() => renameSync(p.at("spare"), p.at("models")));
          }
          return watched;
        };
        return {
          watch,
          unwatch: (wd) => queue.unwatch(wd),
          prepare: (dir) => queue.prepare(dir),
          drain: (h) => queue.drain(h),
          close: () => queue.close(),
        };
      };
      await using index = await openIndexOn(p.options, { ...THIS_PLATFORM, openQueue });
      expect((await index.findById("t", "id-of-b"))?.path).toBe(p.at("auto/t/b.yaml"));
      expect((await index.findById("t", "id-of-c"))?.path).toBe(p.at("models/t/c.yaml"));
      expect(await index.findById("t", "id-of-a")).toBeNull();
    } finally {
      delete process.env["TUSSOCK_NO_WORKERS"];
    }
  });
});

test.skipIf(isDeno)("directories deeper than any path leads keep nobody waiting", async () => {
  const p = place();
  p.write("models/t/a.yaml", "a");
  const name = "d".repeat(250);
  // No path leads there: one step after the other.
  await runChild(new URL("./deep.child.ts", import.meta.url), [p.at("models"), name, "20"]);
  await using index = await openDefinitionIndex(p.options);
  expect((await index.findByNameGlobal("deep3"))?.path).toBe(p.at(`models/${`${name}/`.repeat(4)}x.yaml`));
  expect(await index.findByNameGlobal("deep19")).toBeNull();
});

test("hints that are not to be had are done without", async () => {
  const p = place();
  p.write("models/t/a.yaml", "a");
  const openHints = (): Promise<never> => Promise.reject(new Error("there is no such module"));
  await using index = await openIndexOn(p.options, { ...THIS_PLATFORM, openQueue: () => null, openHints });
  expect(await index.findByName("t", "none")).toBeNull();
  expect((await index.findById("t", "id-of-a"))?.path).toBe(p.at("models/t/a.yaml"));
});

test.skipIf(!isRoot)(
  "a directory that may not be read is named as such, and keeps no other type from its turn",
  async () => {
    const p = place();
    p.write("models/t/a.yaml", "a");
    mkdirSync(p.at("models/shut"), { mode: 0 });
    expect(await askUnprivileged(p, "shut/x none", "shut none", "t none", "* a")).toEqual([
      "shut/x none: EACCES",
      "shut none: EACCES",
      "t none: not found",
      "* a: EACCES",
      "in the background: exact",
      "a root out of reach: EACCES",
    ]);
  },
);

test("a root that has become a file is named by lookups, and the figures are there all the same", async () => {
  const p = place();
  p.write("models/t/a.yaml", "a");
  await using index = await openDefinitionIndex(p.options);
  writeFileSync(p.at("auto"), "");
  await expect(index.findByName("t", "a")).rejects.toMatchObject({ errno: "ENOTDIR", path: p.at("auto") });
  expect(Object.keys(index.stats().roots)).toEqual(["models", "auto"]);
});

test("directories that come and go beside a sweep do not call for another", async () => {
  process.env["TUSSOCK_NO_WORKERS"] = "1";
  try {
    const p = place();
    for (let i = 0; i < 2000; i++) p.write(`models/t/f${i}.yaml`, `f${i}`);
    mkdirSync(p.at("models/u"));
    await using index = await openDefinitionIndex(p.options);
    let turns = 0;
    let going = true;
    const stay = p.at("models/t/stay");
    const churn = (): void => {
      // One comes and goes, one goes and comes back, and somebody's look-up hears of it at once.
      if (turns % 2 === 0) {
        mkdirSync(p.at("models/t/brief"));
        rmSync(stay, { recursive: true, force: true });
      } else {
        rmdirSync(p.at("models/t/brief"));
        p.write(`models/t/stay/s${turns}.yaml`, "s");
      }
      turns++;
      void index.findByName("u", "none");
      if (going) setImmediate(churn);
    };
    churn();
    expect(await index.findByName("t", "none")).toBeNull();
    expect(turns).toBeGreaterThan(10);
    going = false;
    await new Promise((resolve) => setImmediate(resolve));
    const last = turns % 2 === 0 ? p.at(`models/t/stay/s${turns - 1}.yaml`) : null;
    expect((await index.findByName("t/stay", "s"))?.path ?? null).toBe(last);
    expect(await index.findByName("t/brief", "none")).toBeNull();
  } finally {
    delete process.env["TUSSOCK_NO_WORKERS"];
  }
});

// Deno has no way to make a file of such a name.
test.skipIf(isDeno)(
  "what is gone is forgotten where a name that is not UTF-8 came beside one that reads like it",
  async () => {
    const p = place();
    p.write("models/t/stay.yaml", "stay");
    writeFileSync(p.at("models/t/gone.yaml"), "id: [1\n");
    await using first = await openDefinitionIndex(p.options);
    await expect(first.findByName("t", "gone")).rejects.toBeInstanceOf(DefinitionProblemError);
    await first.close();
    rmSync(p.at("models/t/gone.yaml"));
    p.write("models/t/a\ufffd.yaml", "real");
    writeFileSync(Buffer.concat([Buffer.from(p.at("models/t/a")), Buffer.of(0xff), Buffer.from(".yaml")]), "");
    await using second = await openDefinitionIndex(p.options);
    expect(await second.findByName("t", "gone")).toBeNull();
    expect((await second.findByName("t", "real"))?.path).toBe(p.at("models/t/a\ufffd.yaml"));
  },
);

test("a file that was away when its directory was listed, and is back when it is looked for, is counted", async () => {
  const p = place();
  for (const name of ["f", "g", "h"]) p.write(`models/t/${name}.yaml`, name);
  await using environment = await openOwnedEnvironment({ dir: p.at("of-its-own"), identity: {}, shared: false });
  const store = new DefinitionStore(environment.root);
  const target = { type: "t", typeId: 1, dirs: [p.at("models/t")] };
  const examine = { keys: DEFAULT_KEYS, maxFileBytes: 1e6, boundary: null, documents: false, maxDocumentBytes: 1 };
  const commits = new SharedCommits(store, "keep");
  const sweep = (pause: () => void) =>
    sweepType(store, target, examine, {
      hasThread: true,
      isAwaited: () => false,
      filesPerCommit: 1_000,
      due: () => true,
      async pause() {
        pause();
        await commits.commit();
      },
    });
  expect((await sweep(() => {})).dirs[0]?.count).toBe(3);
  rmSync(p.at("models/t/g.yaml"));
  expect((await sweep(() => p.write("models/t/g.yaml", "g"))).dirs[0]?.count).toBe(3);
  expect(store.getFile(0, "t", "g.yaml")).toBeDefined();
});

describe("a question over all types", () => {
  test("and a listing are answered while definitions are written all the time", async () => {
    const p = place();
    for (let i = 0; i < 20; i++) p.write(`models/t${i}/a.yaml`, `a${i}`);
    await using index = await openDefinitionIndex(p.options);
    expect(await index.findByNameGlobal("none")).toBeNull();
    let written = 0;
    let going = true;
    // Between any two turns: so at whatever moment it is asked, something new is not committed yet.
    const write = (): void => {
      p.write(`models/t${written % 20}/b.yaml`, `b${written++}`);
      if (going) setImmediate(write);
    };
    write();
    try {
      for (let i = 0; i < 20; i++) {
        const last = written - 1;
        expect((await index.findByNameGlobal(`b${last}`))?.path).toBe(p.at(`models/t${last % 20}/b.yaml`));
        expect(await index.findByIdGlobal("none")).toBeNull();
        const listed = new Set<string>();
        for await (const { name } of index.entries()) listed.add(name);
        expect([...listed].filter((name) => name.startsWith("a"))).toHaveLength(20);
        await new Promise((resolve) => setImmediate(resolve));
      }
    } finally {
      going = false;
    }
  });

  test("holds the event loop for no longer when a little has changed in each of many types", async () => {
    const p = place();
    const files = Array.from({ length: 400 }, (_, i) => p.at(`models/t${i % 40}/f${i}.yaml`));
    for (const [i, file] of files.entries()) p.write(file.slice(p.at("").length), `f${i}`);
    await using index = await openDefinitionIndex(p.options);
    expect(await index.findByNameGlobal("none")).toBeNull();
    for (const [i, file] of files.entries()) p.write(file.slice(p.at("").length), `g${i}`);
    const { filesRead } = index.stats().io;
    const asked = index.findByNameGlobal("g7");
    // In the call itself, as many as are looked at for any type.
    expect(index.stats().io.filesRead - filesRead).toBeLessThanOrEqual(24);
    expect((await asked)?.path).toBe(files[7]);
    expect(index.stats().io.filesRead - filesRead).toBe(files.length);
  });
});

test("changes are told of by any spelling of a path, and by where a root really lies", async () => {
  const p = place();
  p.write("real/t/a.yaml", "a");
  symlinkSync(p.at("real"), p.at("models"));
  await using index = await openDefinitionIndex({ ...p.options, watch: false });
  expect(await index.findByName("t", "none")).toBeNull();
  const repo = `${p.at("")}/`;
  const spellings = [
    `${repo}models/t/a.yaml`,
    `${repo}/models//t/../t/./a.yaml`,
    `${repo}real/t/a.yaml`,
    `${repo}models/t/`,
    `${repo}../repo/models`,
    `${repo}real/`,
    "/",
  ];
  for (const [i, path] of spellings.entries()) {
    writeFileSync(p.at("real/t/a.yaml"), `id: id\nname: n${i}\n`);
    await index.applyChanges([path]);
    expect((await index.findByName("t", `n${i}`))?.path, path).toBe(p.at("models/t/a.yaml"));
  }
  await expect(index.applyChanges(["models/t/a.yaml"])).rejects.toThrow(InvalidArgumentError);
});

/** A file system of so few bytes, as long as the test runs. */
function diskIn(base: string, size: string): string {
  const disk = join(base, "disk");
  mkdirSync(disk);
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${size}`, "tmpfs", disk]);
  onTestFinished(() => void execFileSync("umount", ["-l", disk]));
  return disk;
}

test.skipIf(!isRoot || process.platform !== "linux")(
  "a full disk under the cache: changes are answered from memory, what must be swept by StorageFullError, and a quiet end",
  async () => {
    const p = place();
    const disk = diskIn(p.base, "3m");
    for (let i = 0; i < 50; i++) p.write(`models/t/f${i}.yaml`, `f${i}`);
    const options = { ...p.options, indexDir: join(disk, "index") };
    const index = await openDefinitionIndex(options);
    expect(await index.findByName("t", "none")).toBeNull();
    expect(() => writeFileSync(join(disk, "filler"), Buffer.alloc(8e6))).toThrow(/ENOSPC/);
    p.write("models/t/f1.yaml", "g1");
    expect((await index.findByName("t", "g1"))?.path).toBe(p.at("models/t/f1.yaml"));
    for (let i = 0; i < 1500; i++) p.write(`models/t/h${i}.yaml`, `h${i}`);
    expect((await index.findById("t", "id-of-h7"))?.path).toBe(p.at("models/t/h7.yaml"));
    for (let i = 0; i < 1500; i++) {
      if (i % 3 === 0) p.write(`models/t/h${i}.yaml`, `i${i}`);
      else if (i % 3 === 1) rmSync(p.at(`models/t/h${i}.yaml`));
    }
    const paths = async (...names: string[]): Promise<(string | undefined)[]> =>
      Promise.all(names.map(async (name) => (await index.findByName("t", name))?.path));
    const moved = [undefined, p.at("models/t/h6.yaml"), undefined, p.at("models/t/h8.yaml")];
    expect(await paths("h6", "i6", "h7", "h8")).toEqual(moved);
    for (let i = 0; i < 1500; i++) p.write(`models/u/h${i}.yaml`, `h${i}`);
    await expect(index.findById("u", "id-of-h7")).rejects.toThrow(StorageFullError);
    rmSync(join(disk, "filler"));
    expect((await index.findById("u", "id-of-h7"))?.path).toBe(p.at("models/u/h7.yaml"));
    expect(await paths("h6", "i6", "h7", "h8")).toEqual(moved);
    await index.refresh();
    expect(index.stats().roots["models"]?.types).toEqual({ t: 1050, u: 1500 });
    expect(() => writeFileSync(join(disk, "filler"), Buffer.alloc(8e6))).toThrow(/ENOSPC/);
    p.write("models/t/f2.yaml", "g2");
    expect((await index.findByName("t", "g2"))?.path).toBe(p.at("models/t/f2.yaml"));
    await index.close();
    rmSync(join(disk, "filler"));
    await using again = await openDefinitionIndex(options);
    expect(again.stats().slot).toBe(0);
    expect((await again.findByName("t", "g2"))?.path).toBe(p.at("models/t/f2.yaml"));
  },
);

test.skipIf(!isRoot || process.platform !== "linux")(
  "a disk that a first sweep fills, in the middle of whatever write, is a full disk",
  async () => {
    const p = place();
    const disk = diskIn(p.base, "2m");
    mkdirSync(p.at("models/t"), { recursive: true });
    const rest = `d: ${"x".repeat(300)}\n`;
    for (let i = 0; i < 5_000; i++) writeFileSync(p.at(`models/t/f${i}.yaml`), `id: i${i}\nname: f${i}\n${rest}`);
    await using index = await openDefinitionIndex({ ...p.options, indexDir: join(disk, "index") });
    for (let i = 0; i < 2; i++)
      await expect(index.findByName("t", "none")).rejects.toMatchObject({ code: "STORAGE_FULL" });
    execFileSync("mount", ["-o", "remount,size=100m", disk]);
    expect(await index.findByName("t", "none")).toBeNull();
    expect((await index.findByName("t", "f7"))?.path).toBe(p.at("models/t/f7.yaml"));
  },
);

test("the directory of the locks holds no definitions, whoever asks first", async () => {
  const p = place();
  p.write("models/.auto-definition-create/a.yaml", "a");
  await using index = await openDefinitionIndex(p.options);
  for (let i = 0; i < 2; i++) expect(await index.findByName(".auto-definition-create", "a")).toBeNull();
  expect(await index.findByNameGlobal("a")).toBeNull();
});

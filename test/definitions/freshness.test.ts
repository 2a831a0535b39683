import { execFileSync } from "node:child_process";
import {
  appendFileSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { openIndexOn, THIS_PLATFORM } from "../../src/definitions/assemble.ts";
import { openDefinitionIndex } from "../../src/definitions/index.ts";
import type { DefinitionIndex, DefinitionIndexOptions } from "../../src/definitions/model.ts";
import { EMFILE, ENOSPC } from "../../src/ffi/libc.ts";
import { simulateGranularity } from "../../src/scan/stamp.ts";
import { IN_Q_OVERFLOW, type KernelQueue, openKernelQueue } from "../../src/watch/kernel-queue.ts";
import { isDeno, tempDir } from "../support/spawn.ts";

const definition = (name: string, id = `id-of-${name}`): string => `type: t\nid: ${id}\nname: ${name}\nversion: 1\n`;

interface Place {
  base: string;
  options: DefinitionIndexOptions;
  /** A path below the root `models`. */
  at(path: string): string;
  write(path: string, name: string, id?: string): void;
}

function place(): Place {
  const base = tempDir();
  const at = (path: string): string => join(base, "repo", "models", path);
  return {
    base,
    at,
    options: {
      roots: ["models", "auto"].map((name) => ({ name, dir: join(base, "repo", name) })),
      indexDir: join(base, "index"),
      boundary: join(base, "repo"),
    },
    write(path, name, id) {
      mkdirSync(join(at(path), ".."), { recursive: true });
      writeFileSync(at(path), definition(name, id));
    },
  };
}

const pathOf = async (index: DefinitionIndex, type: string, name: string): Promise<string | null> =>
  (await index.findByName(type, name))?.path ?? null;

/** A queue that can be told to fail. */
function faultyQueue(): {
  open: () => KernelQueue | null;
  failWatches(errno: number | null): void;
  overflow(): void;
  readonly opened: number;
} {
  let errno: number | null = null;
  let opened = 0;
  let overflows = 0;
  return {
    failWatches: (value) => {
      errno = value;
    },
    overflow: () => {
      overflows++;
    },
    get opened() {
      return opened;
    },
    open() {
      opened++;
      const queue = openKernelQueue();
      if (queue === null) return null;
      return {
        watch: (...watched) => (errno === null ? queue.watch(...watched) : { errno }),
        unwatch: (wd) => queue.unwatch(wd),
        prepare: (dir) => queue.prepare(dir),
        drain(handler) {
          if (overflows > 0) {
            // The kernel drops what came after: none of it is handed over.
            overflows--;
            queue.drain(() => {});
            handler(-1, IN_Q_OVERFLOW, "");
            return 1;
          }
          return queue.drain(handler);
        },
        close: () => queue.close(),
      };
    },
  };
}

async function until(what: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 10_000; Date.now() < end; ) {
    if (await what()) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error("it never came to be");
}

describe("lost events", () => {
  test("a burst beyond the kernel's queue while the process is blocked: right at once, exact again unasked", async () => {
    const limit = Number(readFileSync("/proc/sys/fs/inotify/max_queued_events", "utf8"));
    const p = place();
    for (let i = 0; i < 200; i++) p.write(`t/n${i}.yaml`, `n${i}`);
    await using index = await openDefinitionIndex(p.options);
    expect(await index.findByName("t", "none")).toBeNull();
    // In this very process, so that no drain comes between; two files in turn, as equal events in a row become one.
    for (let i = 0; i <= limit; i++) utimesSync(p.at(`t/n${100 + (i % 2)}.yaml`), i, i);
    writeFileSync(p.at("t/n7.yaml"), definition("other"));
    writeFileSync(p.at("t/late.yaml"), definition("last"));
    expect(await pathOf(index, "t", "n7")).toBeNull();
    expect(await pathOf(index, "t", "other")).toBe(p.at("t/n7.yaml"));
    expect(await pathOf(index, "t", "last")).toBe(p.at("t/late.yaml"));
    expect(index.stats().watch.overflows).toBeGreaterThan(0);
    await until(() => index.stats().freshness === "exact");
  });

  test("an overflow: answers stay right, stats say so until it is exact again", async () => {
    const p = place();
    p.write("t/a.yaml", "a");
    const queue = faultyQueue();
    await using index = await openIndexOn(p.options, { ...THIS_PLATFORM, openQueue: queue.open });
    expect(await index.findByName("t", "none")).toBeNull();
    expect(await index.findByName("u", "none")).toBeNull();
    writeFileSync(p.at("t/a.yaml"), definition("b"));
    p.write("u/c.yaml", "c");
    queue.overflow();
    expect(await pathOf(index, "t", "b")).toBe(p.at("t/a.yaml"));
    expect(await pathOf(index, "u", "c")).toBe(p.at("u/c.yaml"));
    await until(() => index.stats().freshness === "exact");
    // To close it would hold the thread for tens of milliseconds.
    expect(queue.opened).toBe(1);
  });

  test("a directory that was exchanged among them: its old watch tells nothing about what is there now", async () => {
    const p = place();
    p.write("t/a.yaml", "a");
    const queue = faultyQueue();
    await using index = await openIndexOn(p.options, { ...THIS_PLATFORM, openQueue: queue.open });
    expect(await index.findByName("t", "none")).toBeNull();
    const aside = join(p.base, "aside");
    renameSync(p.at("t"), aside);
    p.write("t/b.yaml", "b");
    queue.overflow();
    expect(await pathOf(index, "t", "b")).toBe(p.at("t/b.yaml"));
    for (let round = 0; round < 3; round++) {
      writeFileSync(join(aside, "b.yaml"), definition("elsewhere"));
      mkdirSync(join(aside, `d${round}`));
      writeFileSync(p.at("t/b.yaml"), definition(`b${round}`));
      expect(await index.findByName("t", "elsewhere")).toBeNull();
      expect(await index.findByName(`t/d${round}`, "b")).toBeNull();
      expect(await pathOf(index, "t", `b${round}`)).toBe(p.at("t/b.yaml"));
    }
    await until(() => index.stats().freshness === "exact");
    expect(Object.keys(index.stats().types).sort()).toEqual(["", "t"]);
  });

  for (const [errno, called] of [
    [ENOSPC, "ENOSPC"],
    [EMFILE, "EMFILE"],
  ] as const) {
    test(`${called} from a watch: bounded, said so, right, and exact once there is room`, async () => {
      const p = place();
      p.write("t/a.yaml", "a");
      const queue = faultyQueue();
      queue.failWatches(errno);
      await using index = await openIndexOn(
        { ...p.options, sweepIntervalMs: 20 },
        { ...THIS_PLATFORM, openQueue: queue.open },
      );
      expect(await index.findByName("t", "none")).toBeNull();
      expect(await pathOf(index, "t", "a")).toBe(p.at("t/a.yaml"));
      expect(index.stats()).toMatchObject({ freshness: "bounded" });
      expect(index.stats().reason).toMatch(errno === ENOSPC ? /max_user_watches/ : /file descriptor/);
      p.write("t/b.yaml", "b");
      expect(await pathOf(index, "t", "b")).toBe(p.at("t/b.yaml"));
      renameSync(p.at("t/b.yaml"), p.at("t/c.yaml"));
      expect(await pathOf(index, "t", "b")).toBe(p.at("t/c.yaml"));
      queue.failWatches(null);
      await until(async () => {
        await index.findByName("t", "a");
        return index.stats().freshness === "exact";
      });
      writeFileSync(p.at("t/c.yaml"), definition("d"));
      expect(await pathOf(index, "t", "d")).toBe(p.at("t/c.yaml"));
    });
  }
});

describe("directories that come and go", () => {
  test("a root that appears late, goes, and comes back", async () => {
    const p = place();
    await using index = await openDefinitionIndex(p.options);
    expect(await index.findByName("t", "a")).toBeNull();
    p.write("t/a.yaml", "a");
    expect(await pathOf(index, "t", "a")).toBe(p.at("t/a.yaml"));
    for (let round = 0; round < 3; round++) {
      rmSync(p.at(""), { recursive: true });
      expect(await index.findByName("t", "a")).toBeNull();
      p.write("t/a.yaml", "a");
      expect(await pathOf(index, "t", "a")).toBe(p.at("t/a.yaml"));
    }
  });

  describe("a root that is not there", () => {
    /** How the root `repo/models`, or what is missing above it, comes to be there with `t/a.yaml` in it. */
    const ways: Record<string, (p: Place) => void> = {
      "is made": (p) => p.write("t/a.yaml", "a"),
      "is moved there": (p) => {
        mkdirSync(join(p.base, "other/t"), { recursive: true });
        writeFileSync(join(p.base, "other/t/a.yaml"), definition("a"));
        mkdirSync(join(p.base, "repo"), { recursive: true });
        renameSync(join(p.base, "other"), p.at(""));
      },
      "is moved there with the directory above it": (p) => {
        mkdirSync(join(p.base, "other/models/t"), { recursive: true });
        writeFileSync(join(p.base, "other/models/t/a.yaml"), definition("a"));
        rmSync(join(p.base, "repo"), { recursive: true, force: true });
        renameSync(join(p.base, "other"), join(p.base, "repo"));
      },
      "is a symbolic link": (p) => {
        mkdirSync(join(p.base, "other/t"), { recursive: true });
        writeFileSync(join(p.base, "other/t/a.yaml"), definition("a"));
        mkdirSync(join(p.base, "repo"), { recursive: true });
        symlinkSync("../other", join(p.base, "repo/models"));
      },
      "is behind a symbolic link": (p) => {
        mkdirSync(join(p.base, "other/models/t"), { recursive: true });
        writeFileSync(join(p.base, "other/models/t/a.yaml"), definition("a"));
        rmSync(join(p.base, "repo"), { recursive: true, force: true });
        symlinkSync("other", join(p.base, "repo"));
      },
      "was a symbolic link that led nowhere": (p) => {
        mkdirSync(join(p.base, "repo"), { recursive: true });
        symlinkSync("../other", join(p.base, "repo/models"));
        mkdirSync(join(p.base, "other/t"), { recursive: true });
        writeFileSync(join(p.base, "other/t/a.yaml"), definition("a"));
      },
    };
    for (const [way, come] of Object.entries(ways)) {
      for (const above of ["there", "missing"] as const) {
        test(`${way}, what is above it ${above}: found at once, and not when it is gone`, async () => {
          const p = place();
          if (above === "there") mkdirSync(join(p.base, "repo"));
          const options = {
            ...p.options,
            boundary: p.base,
            roots: [{ name: "models", dir: join(p.base, "repo/models") }],
          };
          await using index = await openDefinitionIndex(options);
          for (let round = 0; round < 3; round++) {
            expect(await index.findByName("t", "a")).toBeNull();
            // What happens beside it changes nothing.
            writeFileSync(join(p.base, above === "there" && round === 0 ? "repo/beside" : "beside"), "");
            mkdirSync(join(p.base, `beside-${round}`));
            expect(await index.findByName("t", "a")).toBeNull();
            come(p);
            expect((await index.findByName("t", "a"))?.name).toBe("a");
            const gone = [join(p.base, "repo"), p.at("")][round % 2] as string;
            for (const path of [gone, join(p.base, "other")]) rmSync(path, { recursive: true, force: true });
            expect(await index.findByName("t", "a")).toBeNull();
          }
        });
      }
    }
  });

  test("each level of a root, several times: removed and made again, moved away, another in its place", async () => {
    const p = place();
    p.write("x/y/z/a.yaml", "a");
    await using index = await openDefinitionIndex(p.options);
    for (const level of ["x/y/z", "x/y", "x", "", ".."]) {
      for (let round = 0; round < 3; round++) {
        p.write("x/y/z/a.yaml", "a");
        expect(await pathOf(index, "x/y/z", "a"), level).toBe(p.at("x/y/z/a.yaml"));
        rmSync(p.at(level), { recursive: true });
        expect(await index.findByName("x/y/z", "a"), level).toBeNull();
        p.write("x/y/z/a.yaml", "a");
        expect(await pathOf(index, "x/y/z", "a"), level).toBe(p.at("x/y/z/a.yaml"));

        renameSync(p.at(level), `${join(p.at(level))}.away`);
        expect(await index.findByName("x/y/z", "a"), level).toBeNull();
        p.write("x/y/z/b.yaml", "b");
        expect(await pathOf(index, "x/y/z", "b"), level).toBe(p.at("x/y/z/b.yaml"));
        expect(await index.findByName("x/y/z", "a"), level).toBeNull();
        rmSync(p.at(level), { recursive: true });
        renameSync(`${join(p.at(level))}.away`, p.at(level));
        expect(await pathOf(index, "x/y/z", "a"), level).toBe(p.at("x/y/z/a.yaml"));
        expect(await index.findByName("x/y/z", "b"), level).toBeNull();
      }
    }
  });

  test("mkdir -p and a file at once is found, whatever its depth", async () => {
    const p = place();
    mkdirSync(p.at(""), { recursive: true });
    await using index = await openDefinitionIndex(p.options);
    await index.findByName("t", "a");
    for (let round = 0; round < 20; round++) {
      p.write(`a${round}/b/c/d/n.yaml`, `n${round}`);
      expect(await pathOf(index, `a${round}/b/c/d`, `n${round}`)).toBe(p.at(`a${round}/b/c/d/n.yaml`));
      expect((await index.findByNameGlobal(`n${round}`))?.type).toBe(`a${round}/b/c/d`);
    }
  });

  test("a root behind a symbolic link that is turned to another directory", async () => {
    const p = place();
    mkdirSync(join(p.base, "repo"));
    for (const side of ["one", "two"]) {
      mkdirSync(join(p.base, "repo", side, "t"), { recursive: true });
      writeFileSync(join(p.base, "repo", side, "t", "a.yaml"), definition("a", side));
    }
    symlinkSync("one", join(p.base, "repo", "models"));
    await using index = await openDefinitionIndex(p.options);
    for (const side of ["two", "one", "two"]) {
      symlinkSync(side, join(p.base, "repo", "models.new"));
      renameSync(join(p.base, "repo", "models.new"), join(p.base, "repo", "models"));
      expect((await index.findByName("t", "a"))?.id).toBe(side);
    }
  });

  test("a config map: files behind ..data, which is swapped", async () => {
    const p = place();
    for (const version of ["v1", "v2", "v3"]) {
      p.write(`t/..${version}/web.yaml`, `web-${version}`);
    }
    symlinkSync("..v1", p.at("t/..data"));
    symlinkSync("..data/web.yaml", p.at("t/web.yaml"));
    await using index = await openDefinitionIndex(p.options);
    for (const version of ["v1", "v2", "v3"]) {
      symlinkSync(`..${version}`, p.at("t/..data_tmp"));
      renameSync(p.at("t/..data_tmp"), p.at("t/..data"));
      expect(await pathOf(index, "t", `web-${version}`)).toBe(p.at("t/web.yaml"));
    }
  });

  test("after a rename over it, a file is followed by its name, not by its inode", async () => {
    const p = place();
    p.write("t/a.yaml", "a");
    await using index = await openDefinitionIndex(p.options);
    for (let round = 0; round < 3; round++) {
      p.write("t/.next.tmp", `a${round}`);
      renameSync(p.at("t/.next.tmp"), p.at("t/a.yaml"));
      expect(await pathOf(index, "t", `a${round}`)).toBe(p.at("t/a.yaml"));
    }
  });
});

describe("edits that leave no trace in a directory", () => {
  function editInPlace(path: string, text: string): void {
    const { atime, mtime, size } = statSync(path);
    expect(Buffer.byteLength(text)).toBe(size);
    const fd = openSync(path, "r+");
    writeSync(fd, text, 0);
    closeSync(fd);
    utimesSync(path, atime, mtime);
  }

  test("made while no process ran, before the first sweep, and right after a reopening: seen by the first answer", async () => {
    const p = place();
    for (let i = 0; i < 50; i++) p.write(`t/f${i}.yaml`, `n${i}`);
    {
      await using index = await openDefinitionIndex(p.options);
      expect(await pathOf(index, "t", "n7")).toBe(p.at("t/f7.yaml"));
    }
    editInPlace(p.at("t/f7.yaml"), definition("m7", "id-of-m7"));
    {
      await using index = await openDefinitionIndex(p.options);
      editInPlace(p.at("t/f8.yaml"), definition("m8", "id-of-m8"));
      expect(await pathOf(index, "t", "m7")).toBe(p.at("t/f7.yaml"));
      expect(await index.findByName("t", "n7")).toBeNull();
      expect(await pathOf(index, "t", "m8")).toBe(p.at("t/f8.yaml"));
      editInPlace(p.at("t/f9.yaml"), definition("m9", "id-of-m9"));
      expect(await pathOf(index, "t", "m9")).toBe(p.at("t/f9.yaml"));
    }
    await using index = await openDefinitionIndex(p.options);
    expect(await pathOf(index, "t", "m9")).toBe(p.at("t/f9.yaml"));
    expect(await index.findByName("t", "n9")).toBeNull();
  });

  test("made during the first sweep", async () => {
    const p = place();
    for (let i = 0; i < 3000; i++) p.write(`t/f${i}.yaml`, `n${i}`);
    await using index = await openDefinitionIndex(p.options);
    const first = index.findByName("t", "m7");
    let edits = 0;
    const timer = setInterval(() => {
      writeFileSync(p.at(`t/f${edits}.yaml`), definition(`m${edits}`));
      edits++;
    }, 1);
    await first;
    clearInterval(timer);
    for (let i = 0; i < edits; i++) expect(await pathOf(index, "t", `m${i}`)).toBe(p.at(`t/f${i}.yaml`));
  });
});

describe("the bounded way, by force", () => {
  test("creations, removals, renames and edits of what is returned are seen at once; the rest within a sweep", async () => {
    const p = place();
    for (let i = 0; i < 20; i++) p.write(`t/n${i}.yaml`, `n${i}`);
    await using index = await openDefinitionIndex({ ...p.options, watch: false, sweepIntervalMs: 30 });
    expect(await pathOf(index, "t", "n3")).toBe(p.at("t/n3.yaml"));
    expect(index.stats()).toMatchObject({ freshness: "bounded", reason: expect.stringMatching(/watch: false/) });
    p.write("t/new.yaml", "new");
    expect(await pathOf(index, "t", "new")).toBe(p.at("t/new.yaml"));
    renameSync(p.at("t/new.yaml"), p.at("t/newer.yaml"));
    expect(await pathOf(index, "t", "new")).toBe(p.at("t/newer.yaml"));
    rmSync(p.at("t/newer.yaml"));
    expect(await index.findByName("t", "new")).toBeNull();
    // An edit of the file that would be returned.
    writeFileSync(p.at("t/n3.yaml"), definition("x3"));
    expect(await index.findByName("t", "n3")).toBeNull();
    // A file called as it should be is never missed.
    writeFileSync(p.at("t/n4.yaml"), definition("x4"));
    writeFileSync(p.at("t/n4.yaml"), definition("n4", "again"));
    expect((await index.findByName("t", "n4"))?.id).toBe("again");
    // An edit that gives another file a name: within one sweep.
    writeFileSync(p.at("t/n5.yaml"), definition("hidden"));
    await until(async () => (await pathOf(index, "t", "hidden")) === p.at("t/n5.yaml"));
    p.write("deep/er/a.yaml", "a");
    expect((await index.findByNameGlobal("a"))?.type).toBe("deep/er");
    rmSync(p.at("deep"), { recursive: true });
    expect(await index.findByNameGlobal("a")).toBeNull();
  });
});

describe("racy stamps", () => {
  for (const granularityNs of [1e6, 1e7]) {
    for (const watch of [true, false]) {
      test(`a clock of ${granularityNs / 1e6} ms, ${watch ? "exact" : "bounded"}: same size, same times, other name: found`, async () => {
        process.env["TUSSOCK_STAMP_GRANULARITY_NS"] = String(granularityNs);
        simulateGranularity(granularityNs);
        try {
          const p = place();
          for (let i = 0; i < 10; i++) p.write(`t/n${i}.yaml`, `n${i}`, "one-id");
          await using index = await openDefinitionIndex({ ...p.options, watch });
          for (let round = 0; round < 60; round++) {
            const [from, to] = round % 2 === 0 ? ["n3", "x3"] : ["x3", "n3"];
            expect(await pathOf(index, "t", from)).toBe(p.at("t/n3.yaml"));
            // At once, so that both contents lie within one tick of the clock.
            const fd = openSync(p.at("t/n3.yaml"), "r+");
            writeSync(fd, definition(to, "one-id"), 0);
            closeSync(fd);
            expect(await index.findByName("t", from), `round ${round}`).toBeNull();
            if (watch) expect(await pathOf(index, "t", to), `round ${round}`).toBe(p.at("t/n3.yaml"));
            // And a name that comes and goes in a directory whose own time stands still.
            p.write("t/new.yaml", "new");
            expect(await pathOf(index, "t", "new")).toBe(p.at("t/new.yaml"));
            rmSync(p.at("t/new.yaml"));
            expect(await index.findByName("t", "new")).toBeNull();
          }
        } finally {
          simulateGranularity(null);
          delete process.env["TUSSOCK_STAMP_GRANULARITY_NS"];
        }
      });
    }
  }
});

describe("where there is no queue", () => {
  test("hints tell of an edit in place long before the sweep; closing leaves no watcher", async () => {
    const p = place();
    for (let i = 0; i < 5; i++) p.write(`t/n${i}.yaml`, `n${i}`);
    const descriptors = (): number => (process.platform === "linux" ? readdirSync("/proc/self/fd").length : 0);
    const index = await openIndexOn(p.options, { ...THIS_PLATFORM, openQueue: () => null });
    expect(await index.findByName("t", "hinted")).toBeNull();
    expect(index.stats()).toMatchObject({ freshness: "bounded", watch: { mechanism: "none" } });
    let edit = 0;
    await until(async () => {
      // Again and again: the watcher starts in its own time, and what came before it is lost to it.
      writeFileSync(p.at("t/n3.yaml"), definition("hinted", `edit-${edit++}`));
      return (await pathOf(index, "t", "hinted")) === p.at("t/n3.yaml");
    });
    await index.close();
    const open = descriptors();
    await (await openIndexOn(p.options, { ...THIS_PLATFORM, openQueue: () => null })).close();
    expect(descriptors()).toBeLessThanOrEqual(open);
  });
});

test("the index directory deleted under a running process: right answers, one warning, built anew at the next start", async () => {
  const p = place();
  for (let i = 0; i < 20; i++) p.write(`t/n${i}.yaml`, `n${i}`);
  const warnings: string[] = [];
  const onWarning = (warning: Error): void => {
    if (warning.name === "TussockWarning") warnings.push(warning.message);
  };
  process.on("warning", onWarning);
  try {
    const index = await openDefinitionIndex({ ...p.options, sweepIntervalMs: 10 });
    expect(await pathOf(index, "t", "n3")).toBe(p.at("t/n3.yaml"));
    rmSync(p.options.indexDir, { recursive: true });
    await until(() => warnings.length > 0);
    p.write("t/late.yaml", "late");
    expect(await pathOf(index, "t", "late")).toBe(p.at("t/late.yaml"));
    expect(await pathOf(index, "t", "n4")).toBe(p.at("t/n4.yaml"));
    await index.close();
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(/deleted under a running process/);
    await using again = await openDefinitionIndex(p.options);
    expect(await pathOf(again, "t", "late")).toBe(p.at("t/late.yaml"));
  } finally {
    process.off("warning", onWarning);
  }
});

/** Deno keeps these two of each worker that loaded a native module, here LMDB: seen with a worker that does nothing else. */
function isOfDeno(fd: string): boolean {
  if (!isDeno) return false;
  try {
    return /^anon_inode:\[(eventfd|eventpoll)\]$/.test(readlinkSync(`/proc/self/fd/${fd}`));
  } catch {
    return true; // The directory that is being read.
  }
}

describe("closing", () => {
  test.skipIf(process.platform !== "linux")("100 opens and closes at once leave no descriptor", async () => {
    const p = place();
    for (let i = 0; i < 50; i++) p.write(`t/n${i}.yaml`, `n${i}`);
    const descriptors = (): number => readdirSync("/proc/self/fd").filter((fd) => !isOfDeno(fd)).length;
    await (await openDefinitionIndex(p.options)).close();
    const before = descriptors();
    for (let round = 0; round < 100; round++) {
      const index = await openDefinitionIndex(p.options);
      if (round % 3 === 0) void index.findByName("t", "n1").catch(() => {});
      await index.close();
      await index.close();
    }
    expect(descriptors()).toBeLessThanOrEqual(before);
  });

  test("a call on a closed index is refused, and one under way ends", async () => {
    const p = place();
    for (let i = 0; i < 2000; i++) p.write(`t/n${i}.yaml`, `n${i}`);
    const index = await openDefinitionIndex(p.options);
    const under = index.findByName("t", "no such").then(
      () => "answered",
      (error: Error) => error.name,
    );
    await index.close();
    expect(["answered", "ClosedError"]).toContain(await under);
    await expect(index.findByName("t", "n1")).rejects.toMatchObject({ code: "CLOSED" });
  });
});

test("what shell tools do is seen at once", async () => {
  const p = place();
  for (let i = 0; i < 10; i++) p.write(`t/n${i}.yaml`, `n${i}`);
  await using index = await openDefinitionIndex(p.options);
  await index.findByName("t", "n0");
  const sh = (script: string): void => {
    execFileSync("sh", ["-ec", script], { cwd: p.at("t"), stdio: "pipe" });
  };
  sh("mv n0.yaml moved.yaml");
  expect(await pathOf(index, "t", "n0")).toBe(p.at("t/moved.yaml"));
  sh("cp n1.yaml copy.yaml && sed -i 's/^name: n1/name: copied/' copy.yaml");
  expect(await pathOf(index, "t", "copied")).toBe(p.at("t/copy.yaml"));
  sh("sed -i 's/^name: n2/name: sed2/' n2.yaml");
  expect(await pathOf(index, "t", "sed2")).toBe(p.at("t/n2.yaml"));
  expect(await index.findByName("t", "n2")).toBeNull();
  sh("git init -q . && git add . && git -c user.name=t -c user.email=t@t commit -qm one && git checkout -q -b other");
  sh(
    "sed -i 's/^name: n3/name: branched/' n3.yaml && rm n4.yaml && git -c user.name=t -c user.email=t@t commit -qam two",
  );
  expect(await pathOf(index, "t", "branched")).toBe(p.at("t/n3.yaml"));
  sh("git checkout -q -");
  expect(await index.findByName("t", "branched")).toBeNull();
  expect(await pathOf(index, "t", "n4")).toBe(p.at("t/n4.yaml"));
  sh("git checkout -q other");
  expect(await pathOf(index, "t", "branched")).toBe(p.at("t/n3.yaml"));
  expect(await index.findByName("t", "n4")).toBeNull();
  appendFileSync(p.at("t/n5.yaml"), "more: 1\n");
  expect(await pathOf(index, "t", "n5")).toBe(p.at("t/n5.yaml"));
});

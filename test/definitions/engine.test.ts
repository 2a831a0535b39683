/** What sweeps cost together, and what becomes of them when something fails: counted, not timed. */
import { chmodSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Worker } from "node:worker_threads";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { deferred } from "../../src/abort.ts";
import { openIndexOn, type Platform, THIS_PLATFORM } from "../../src/definitions/assemble.ts";
import type { IndexEngine } from "../../src/definitions/engine.ts";
import type { DefinitionIndexOptions } from "../../src/definitions/model.ts";
import { Rejections } from "../../src/definitions/rejections.ts";
import { DefinitionStore } from "../../src/definitions/store.ts";
import { IndexUnavailableError, StorageFullError } from "../../src/errors.ts";
import { readStamp, STAMP_BYTES, unpackStamp } from "../../src/scan/stamp.ts";
import type { KernelQueue } from "../../src/watch/kernel-queue.ts";
import { isDeno, tempDir } from "../support/spawn.ts";

interface Place {
  options: DefinitionIndexOptions;
  at(path: string): string;
  write(path: string, name: string): void;
}

function place(): Place {
  const base = tempDir();
  const at = (path: string): string => join(base, "models", path);
  return {
    at,
    options: { roots: [{ name: "models", dir: join(base, "models") }], indexDir: join(base, "index") },
    write(path, name) {
      mkdirSync(join(at(path), ".."), { recursive: true });
      writeFileSync(at(path), `id: id-of-${name}\nname: ${name}\n`);
    },
  };
}

afterEach(() => {
  delete process.env["TUSSOCK_NO_WORKERS"];
  vi.restoreAllMocks();
});

describe("the first question over all types", () => {
  const TYPES = 300;

  function manyTypes(): Place {
    const p = place();
    for (let i = 0; i < TYPES; i++) p.write(`g${i % 3}/t${i}/a.yaml`, `a${i}`);
    return p;
  }

  test("shares its commits among many small types", async () => {
    process.env["TUSSOCK_NO_WORKERS"] = "1";
    const p = manyTypes();
    const commits = vi.spyOn(DefinitionStore.prototype, "commit");
    await using index = await openIndexOn(p.options, THIS_PLATFORM);
    expect((await index.findByNameGlobal("a7"))?.type).toBe("g1/t7");
    await index.refresh();
    expect(index.stats().roots["models"]?.definitions).toBe(TYPES);
    expect(commits.mock.calls.length).toBeLessThan(TYPES / 4);
  });

  /** As this platform; `most()`: how many types were swept at once since it was last asked. */
  function counting(): { platform: Platform; most(): number } {
    let running = 0;
    let most = 0;
    const startWorker: Platform["startWorker"] = async (...o) => {
      const engine = (await THIS_PLATFORM.startWorker(...o)) as IndexEngine;
      const sweep = engine.sweep.bind(engine);
      engine.sweep = async (target, callbacks) => {
        most = Math.max(most, ++running);
        try {
          return await sweep(target, callbacks);
        } finally {
          running--;
        }
      };
      return engine;
    };
    const taken = (): number => {
      const so = most;
      most = 0;
      return so;
    };
    return { platform: { ...THIS_PLATFORM, startWorker }, most: taken };
  }

  test("has 64 small types swept at once", async () => {
    const p = manyTypes();
    const { platform, most } = counting();
    await using index = await openIndexOn(p.options, platform);
    expect((await index.findByNameGlobal("a7"))?.type).toBe("g1/t7");
    expect(most()).toBe(64);
  });

  test("has few at once swept that hold many files, so that who asks for another waits for few", async () => {
    const p = place();
    for (let i = 0; i < 8_400; i++) p.write(`t${i % 12}/f${i}.yaml`, `f${i}`);
    const { platform, most } = counting();
    await using index = await openIndexOn(p.options, platform);
    const progress: number[] = [];
    await index.refresh({ onProgress: ({ files }) => progress.push(files) });
    expect(most()).toBeLessThanOrEqual(4);
    // Though several are under way at once, it never goes back.
    expect(progress).toEqual(progress.toSorted((a, b) => a - b));
    expect(progress.at(-1)).toBe(8_400);
    await index.refresh();
    expect(most()).toBeLessThanOrEqual(4);
    expect((await index.findByNameGlobal("f7"))?.type).toBe("t7");
  });
});

describe("a worker thread that ends by an error", () => {
  test("is replaced, and what it was at is done again by the next", async () => {
    const p = place();
    for (let i = 0; i < 50; i++) p.write(`t/f${i}.yaml`, `n${i}`);
    let started = 0;
    const startWorker: Platform["startWorker"] = async (path, examine, onLost) => {
      const engine = (await THIS_PLATFORM.startWorker(path, examine, onLost)) as IndexEngine;
      if (++started > 2) return engine;
      // The first ends at whatever it is asked for, the second at the first pass.
      let hasEnded = false;
      const end = async (): Promise<never> => {
        if (!hasEnded) await engine.close();
        hasEnded = true;
        throw new IndexUnavailableError(path, "its worker thread ended");
      };
      return {
        get hasEnded() {
          return hasEnded;
        },
        commit: started === 1 ? end : (puts) => engine.commit(puts),
        sweep: started === 1 ? end : (target, o) => engine.sweep(target, o),
        apply: end,
        close: () => engine.close(),
      };
    };
    await using index = await openIndexOn(p.options, { ...THIS_PLATFORM, startWorker });
    expect((await index.findById("t", "id-of-n7"))?.path).toBe(p.at("t/f7.yaml"));
    for (let i = 0; i < 50; i++) p.write(`t/f${i}.yaml`, `m${i}`);
    expect((await index.findById("t", "id-of-m7"))?.path).toBe(p.at("t/f7.yaml"));
    expect(await index.findByName("t", "n7")).toBeNull();
    expect(started).toBe(3);
  });

  test("fails only what has ended two of them", async () => {
    const p = place();
    p.write("bad/a.yaml", "a");
    p.write("t/b.yaml", "b");
    const startWorker: Platform["startWorker"] = async (path, examine, onLost) => {
      const engine = (await THIS_PLATFORM.startWorker(path, examine, onLost)) as IndexEngine;
      const sweep = engine.sweep.bind(engine);
      let hasEnded = false;
      Object.defineProperty(engine, "hasEnded", { get: () => hasEnded });
      engine.sweep = async (target, o) => {
        if (target.type !== "bad") return sweep(target, o);
        await engine.close();
        hasEnded = true;
        throw new IndexUnavailableError(path, "its worker thread ended");
      };
      return engine;
    };
    await using index = await openIndexOn(p.options, { ...THIS_PLATFORM, startWorker });
    for (let i = 0; i < 3; i++) {
      await expect(index.findById("bad", "id-of-a")).rejects.toThrow(IndexUnavailableError);
      expect((await index.findById("t", "id-of-b"))?.path).toBe(p.at("t/b.yaml"));
    }
  });

  test.skipIf(isDeno)(
    "really: idle, in a sweep, and in a pass; what it left open is not trusted by the next to open",
    async () => {
      const p = place();
      const workers: Worker[] = [];
      const onWorker = (worker: Worker): void => void workers.push(worker);
      process.on("worker", onWorker);
      onTestFinished(() => void process.off("worker", onWorker));
      const warned = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
      {
        let isArmed = false;
        // Over such a message it ends by an error, when it has begun with the work.
        const hit = <T>(work: Promise<T>): Promise<T> => {
          if (isArmed) workers.at(-1)?.postMessage(null);
          isArmed = false;
          return work;
        };
        const startWorker: Platform["startWorker"] = async (...o) => {
          const engine = (await THIS_PLATFORM.startWorker(...o)) as IndexEngine;
          const [sweep, apply] = [engine.sweep.bind(engine), engine.apply.bind(engine)];
          engine.sweep = (...of) => hit(sweep(...of));
          engine.apply = (...of) => hit(apply(...of));
          return engine;
        };
        await using index = await openIndexOn(p.options, { ...THIS_PLATFORM, startWorker });
        p.write("t/a.yaml", "a");
        expect((await index.findById("t", "id-of-a"))?.path).toBe(p.at("t/a.yaml"));
        const exit = new Promise((resolve) => workers.at(-1)?.once("exit", resolve));
        workers.at(-1)?.postMessage(null);
        await exit;
        for (let i = 0; i < 400; i++) p.write(`u/f${i}.yaml`, `f${i}`);
        isArmed = true;
        expect((await index.findById("u", "id-of-f7"))?.path).toBe(p.at("u/f7.yaml"));
        for (let i = 0; i < 200; i++) p.write(`u/f${i}.yaml`, `g${i}`);
        isArmed = true;
        expect((await index.findById("u", "id-of-g7"))?.path).toBe(p.at("u/f7.yaml"));
        expect(workers).toHaveLength(4);
        expect(await index.findByName("u", "f8")).toBeNull();
        await index.refresh();
        expect(index.stats().roots["models"]?.types).toEqual({ t: 1, u: 400 });
      }
      await using index = await openIndexOn(p.options, THIS_PLATFORM);
      expect(String(warned.mock.calls)).toMatch(/without closing/);
      expect((await index.findById("u", "id-of-g7"))?.path).toBe(p.at("u/f7.yaml"));
      expect((await index.findById("t", "id-of-a"))?.path).toBe(p.at("t/a.yaml"));
    },
  );
});

test("what waits in memory for a full disk is not overtaken by a pass that begins as there is room again", async () => {
  const p = place();
  for (let i = 0; i < 50; i++) p.write(`t/f${i}.yaml`, `f${i}`);
  let isFull = false;
  let wasFull = false;
  let isRoom = deferred<void>();
  isRoom.resolve();
  const refused = deferred<void>();
  const committed = deferred<void>();
  const startWorker: Platform["startWorker"] = async (...o) => {
    const engine = (await THIS_PLATFORM.startWorker(...o)) as IndexEngine;
    const commit = engine.commit.bind(engine);
    engine.commit = async (puts) => {
      if (isFull) {
        wasFull = true;
        refused.resolve();
        throw new StorageFullError(p.options.indexDir);
      }
      await commit(puts);
      if (wasFull) committed.resolve();
      await isRoom.promise;
    };
    return engine;
  };
  await using index = await openIndexOn(p.options, { ...THIS_PLATFORM, startWorker });
  await index.refresh();
  isFull = true;
  p.write("t/f1.yaml", "g1");
  expect(await index.findByName("t", "f1")).toBeNull();
  // The index does so by itself, but nothing of that keeps the process alive.
  const stay = setInterval(() => {}, 1_000);
  onTestFinished(() => clearInterval(stay));
  await refused.promise;
  isFull = false;
  isRoom = deferred<void>();
  await committed.promise;
  // The next look at its id is answered from memory; then it comes back among many, as the commit ends.
  rmSync(p.at("t/f3.yaml"));
  expect(await index.findById("t", "id-of-f3")).toBeNull();
  p.write("t/f3.yaml", "f3");
  for (let i = 10; i < 45; i++) p.write(`t/f${i}.yaml`, `h${i}`);
  setImmediate(() => isRoom.resolve());
  expect((await index.findById("t", "id-of-f3"))?.path).toBe(p.at("t/f3.yaml"));
});

test("a type's directory is prepared off the event loop before it is watched, until it is", async () => {
  const p = place();
  p.write("a/b/x.yaml", "x");
  const steps: string[] = [];
  const openQueue = (): KernelQueue | null => {
    const queue = THIS_PLATFORM.openQueue();
    if (queue === null) return null;
    return {
      watch(...watched) {
        steps.push(`watch ${watched[0]}`);
        return queue.watch(...watched);
      },
      async prepare(dir) {
        const release = await queue.prepare(dir);
        steps.push(`prepare ${dir}`);
        return () => {
          steps.push(`release ${dir}`);
          return release();
        };
      },
      unwatch: (wd) => queue.unwatch(wd),
      drain: (h) => queue.drain(h),
      close: () => queue.close(),
    };
  };
  await using index = await openIndexOn(p.options, { ...THIS_PLATFORM, openQueue });
  expect((await index.findById("a/b", "id-of-x"))?.name).toBe("x");
  for (const type of ["", "a", "a/b"]) {
    const dir = type === "" ? p.at("").replace(/\/$/, "") : p.at(type);
    const [prepared, watched, released] = ["prepare", "watch", "release"].map((step) =>
      steps.indexOf(`${step} ${dir}`),
    );
    expect(prepared, steps.join("\n")).toBeGreaterThanOrEqual(0);
    expect(watched).toBeGreaterThan(prepared as number);
    expect(released).toBeGreaterThan(watched as number);
  }
});

test("an index that fails to open closes the kernel's queue", async () => {
  const p = place();
  mkdirSync(p.at(""));
  let open = 0;
  const openQueue = (): KernelQueue | null => {
    const queue = THIS_PLATFORM.openQueue();
    // Looked at before, and to be looked at again.
    rmSync(p.at(""), { recursive: true });
    writeFileSync(p.at(""), "");
    if (queue === null) return null;
    open++;
    const close = (): Promise<void> => {
      open--;
      return queue.close();
    };
    return {
      watch: (...watched) => queue.watch(...watched),
      unwatch: (wd) => queue.unwatch(wd),
      prepare: (dir) => queue.prepare(dir),
      drain: (h) => queue.drain(h),
      close,
    };
  };
  await expect(openIndexOn(p.options, { ...THIS_PLATFORM, openQueue })).rejects.toMatchObject({ errno: "ENOTDIR" });
  expect(open).toBe(0);
  expect(readdirSync(p.options.indexDir).length).toBeGreaterThan(0);
});

test("what was refused is forgotten with its file", async () => {
  const p = place();
  const rejections = new Rejections();
  for (let i = 0; i < 20; i++) p.write(`t/stays${i}.yaml`, `stays${i}`);
  await using index = await openIndexOn(p.options, THIS_PLATFORM);
  const reject = async (name: string): Promise<void> => {
    const entry = await index.findByName("t", name);
    if (entry !== null) rejections.add(entry, "refused");
  };
  for (let i = 0; i < 20; i++) await reject(`stays${i}`);
  for (let i = 0; i < 300; i++) {
    p.write("t/goes.yaml", `goes${i}`);
    p.write(`t/goes${i}.yaml`, `goes${i}`);
    await reject(`goes${i}`);
    rmSync(p.at(`t/goes${i}.yaml`));
  }
  expect(rejections.size).toBeLessThan(60);
  for (let i = 0; i < 20; i++) expect(rejections.at(p.at(`t/stays${i}.yaml`))?.message).toBe("refused");
  expect(rejections.at(p.at("t/goes299.yaml"))).toBeNull();
});

test.skipIf(isDeno || process.getuid?.() !== 0)("a refused file that cannot be looked at fails no other", () => {
  const p = place();
  const rejections = new Rejections();
  const reject = (path: string): void => {
    const stamp = new Uint8Array(STAMP_BYTES);
    readStamp(p.at(path), true, stamp, 0);
    const facts = { id: "i", name: "n", type: "t", declaredType: null, root: "models", naming: "mismatched" } as const;
    rejections.add({ ...facts, path: p.at(path), stamp: unpackStamp(stamp, 0) }, "refused");
  };
  for (const path of ["shut/a.yaml", "t/b.yaml"]) p.write(path, "x");
  chmodSync(p.at(".."), 0o755);
  reject("shut/a.yaml");
  chmodSync(p.at("shut"), 0);
  process.seteuid?.(65534);
  try {
    reject("t/b.yaml");
    expect(rejections.at(p.at("t/b.yaml"))?.message).toBe("refused");
  } finally {
    process.seteuid?.(0);
  }
  expect(rejections.at(p.at("shut/a.yaml"))?.message).toBe("refused");
});

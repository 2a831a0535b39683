import fs, { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { deferred } from "../../src/abort.ts";
import type { DefinitionRepository, DefinitionRepositoryOptions } from "../../src/definitions/repository.ts";
import { withNameLock } from "../../src/lock/index.ts";
import { withSteps } from "../support/fs-steps.ts";
import { idOf, openWorld, type Thing, textOf, thing, thingCodec, type World } from "../support/repositories.ts";

const TYPE = "swamp/echo";
const GRACE_MS = 50;

type Listen = (type: string, listener: unknown, options?: unknown) => void;

/** A signal that counts who listens. */
function countedSignal() {
  const controller = new AbortController();
  const signal = controller.signal as unknown as { addEventListener: Listen; removeEventListener: Listen };
  const add: Listen = signal.addEventListener.bind(signal);
  const remove: Listen = signal.removeEventListener.bind(signal);
  const listening = new Set<unknown>();
  signal.addEventListener = (type, listener, options) => {
    listening.add(listener);
    add(type, listener, options);
  };
  signal.removeEventListener = (type, listener) => {
    listening.delete(listener);
    remove(type, listener);
  };
  return {
    signal: controller.signal,
    abort: (reason: unknown) => {
      controller.abort(reason);
      // All of the library's listen once.
      listening.clear();
    },
    listeners: () => listening.size,
  };
}

interface Call {
  name: string;
  run: (
    repository: DefinitionRepository<Thing>,
    signal: AbortSignal,
    create?: () => Promise<Thing>,
  ) => Promise<unknown>;
  writes: boolean;
}

const calls: Call[] = [
  { name: "findById", run: (r, signal) => r.findById(TYPE, idOf(1), { signal }), writes: false },
  { name: "findByName", run: (r, signal) => r.findByName(TYPE, "web", { signal }), writes: false },
  { name: "findAll", run: (r, signal) => r.findAll(TYPE, { signal }), writes: false },
  { name: "findByNameGlobal", run: (r, signal) => r.findByNameGlobal("web", { signal }), writes: false },
  { name: "findByIdGlobal", run: (r, signal) => r.findByIdGlobal(idOf(1), { signal }), writes: false },
  { name: "findAllGlobal", run: (r, signal) => r.findAllGlobal({ signal }), writes: false },
  { name: "findPath", run: (r, signal) => r.findPath(TYPE, idOf(1), { signal }), writes: false },
  { name: "save over", run: (r, signal) => r.save(TYPE, thing(1, "web", "new"), { signal }), writes: true },
  { name: "save renaming", run: (r, signal) => r.save(TYPE, thing(1, "app", "new"), { signal }), writes: true },
  { name: "save of a new one", run: (r, signal) => r.save(TYPE, thing(2, "two"), { signal }), writes: true },
  { name: "delete", run: (r, signal) => r.delete(TYPE, idOf(1), { signal }), writes: true },
  {
    name: "resolveOrCreate",
    run: (r, signal, create = async () => thing(3, "three")) => r.resolveOrCreate(TYPE, "three", create, { signal }),
    writes: true,
  },
];
const writing = calls.filter(({ writes }) => writes);

async function openWithOne(): Promise<{ world: World; before: Record<string, string> }> {
  const world = await openWorld("exact");
  world.put("swamp/echo/web.yaml", textOf(TYPE, thing(1, "web", "old")));
  return { world, before: world.files() };
}

/** Names of lock files that belong to one name, and of temporary files: none may be left. */
function leftovers(world: World): string[] {
  const left = Object.keys(world.files()).filter((path) => path.endsWith(".tmp"));
  try {
    const locks = readdirSync(join(world.models, ".auto-definition-create"));
    return [...left, ...locks.filter((name) => !/^\.(mutex|id)-[0-9a-f]{2}(\.\d+)?$/.test(name))];
  } catch {
    return left;
  }
}

/** The call must reject with the reason soon after the abort. */
async function expectAborted(call: Promise<unknown>, reason: unknown, abortedAt: () => number): Promise<void> {
  const error = await call.then(
    () => "it resolved",
    (e: unknown) => e,
  );
  expect(performance.now() - abortedAt()).toBeLessThan(GRACE_MS);
  expect(error).toBe(reason);
}

describe.each(calls)("$name, aborted", ({ run }) => {
  it("before it is called, rejects with the reason and does nothing", async () => {
    const { world, before } = await openWithOne();
    const { signal, abort, listeners } = countedSignal();
    const reason = new Error("too late");
    abort(reason);
    const start = performance.now();
    await expectAborted(run(world.repository(), signal), reason, () => start);
    expect(world.files()).toEqual(before);
    expect(leftovers(world)).toEqual([]);
    expect(listeners()).toBe(0);
  });
});

describe.each(writing)("$name, aborted", ({ name, run }) => {
  /** Runs the call so that something in it aborts and then waits for ever. */
  const stuckIn = async (
    options: (stuck: () => Promise<never>) => Partial<DefinitionRepositoryOptions<Thing>>,
    prepare?: (stuck: () => Promise<never>) => () => Promise<Thing>,
  ): Promise<void> => {
    const { world, before } = await openWithOne();
    const { signal, abort, listeners } = countedSignal();
    const reason = new Error("given up");
    let abortedAt = 0;
    const stuck = (): Promise<never> => {
      setImmediate(() => {
        abortedAt = performance.now();
        abort(reason);
      });
      return new Promise(() => {});
    };
    await expectAborted(
      run(world.repository<Thing>(options(stuck)), signal, prepare?.(stuck)),
      reason,
      () => abortedAt,
    );
    expect(world.files()).toEqual(before);
    expect(leftovers(world)).toEqual([]);
    expect(listeners()).toBe(0);
    await run(world.repository(), new AbortController().signal);
    expect(world.files()).not.toEqual(before);
  };

  it("while the hook before a write is asked, leaves everything as it was, and the next call is right", async () => {
    await stuckIn((stuck) => ({ onWillWrite: stuck }));
  });

  if (name !== "delete") {
    it("while the codec encodes, leaves everything as it was", async () => {
      await stuckIn((stuck) => ({ codec: { ...thingCodec, encode: stuck } }));
    });
  }

  if (name === "resolveOrCreate") {
    it("while create runs, leaves everything as it was, and drops its result", async () => {
      await stuckIn(
        () => ({}),
        (stuck) => stuck,
      );
    });
  }

  it("at any step of the writing, settles with what happened", async () => {
    for (let number = 1; ; number++) {
      const { world, before } = await openWithOne();
      const { signal, abort, listeners } = countedSignal();
      const reason = new Error("mid-way");
      let steps = 0;
      const outcome = await withSteps(
        world.models,
        (step) => {
          steps = step.number;
          if (step.number === number) abort(reason);
        },
        () => run(world.repository({ durability: "flushed" }), signal),
      ).then(
        () => "done",
        (error: unknown) => error,
      );
      if (outcome !== "done") expect(outcome).toBe(reason);
      if (outcome === "done") expect(world.files()).not.toEqual(before);
      else expect(world.files()).toEqual(before);
      expect(leftovers(world)).toEqual([]);
      expect(listeners()).toBe(0);
      if (steps < number) break;
    }
  });
});

describe("a caller that waits for a name", () => {
  it("leaves the line at once when it is aborted, and those behind it are served", async () => {
    const { world } = await openWithOne();
    const repository = world.repository();
    const entered = deferred<void>();
    const made = deferred<Thing>();
    const first = repository.resolveOrCreate(TYPE, "busy", () => {
      entered.resolve();
      return made.promise;
    });
    await entered.promise;
    const aborted = countedSignal();
    const second = repository.resolveOrCreate(TYPE, "busy", () => thing(6, "busy"), { signal: aborted.signal });
    const third = repository.resolveOrCreate(TYPE, "busy", () => thing(7, "busy"));
    await new Promise((resolve) => setImmediate(resolve));
    const reason = new Error("gone");
    const start = performance.now();
    aborted.abort(reason);
    await expectAborted(second, reason, () => start);
    expect(aborted.listeners()).toBe(0);
    made.resolve(thing(5, "busy"));
    expect((await first).definition.id).toBe(idOf(5));
    expect((await third).definition.id).toBe(idOf(5));
    expect(leftovers(world)).toEqual([]);
  });

  it("is aborted while somebody else holds the lock", async () => {
    const { world, before } = await openWithOne();
    const repository = world.repository();
    const lockDir = join(world.models, ".auto-definition-create");
    await withNameLock(lockDir, "held", async () => {
      const { signal, abort, listeners } = countedSignal();
      const waiting = [
        repository.resolveOrCreate(TYPE, "held", () => thing(5, "held"), { signal }),
        repository.save(TYPE, thing(6, "held"), { signal }),
        repository.save(TYPE, thing(1, "held"), { signal }),
      ];
      await new Promise((resolve) => setTimeout(resolve, 5));
      const reason = new Error("gone");
      const start = performance.now();
      abort(reason);
      for (const call of waiting) await expectAborted(call, reason, () => start);
      expect(listeners()).toBe(0);
    });
    expect(world.files()).toEqual(before);
    expect(leftovers(world)).toEqual([]);
  });

  it("gives up while many others write, with nothing begun", async () => {
    const { world } = await openWithOne();
    const repository = world.repository({ durability: "flushed" });
    const controllers = Array.from({ length: 64 }, () => countedSignal());
    const reason = new Error("gone");
    const held: (() => void)[] = [];
    const allBegun = deferred<void>();
    // The disk stands still under the first few; all others wait for their turn.
    const fsync = fs.fsync;
    fs.fsync = ((fd: number, done: (error: Error | null) => void) => {
      held.push(() => fsync(fd, done));
      if (held.length === 8) allBegun.resolve();
    }) as typeof fs.fsync;
    try {
      const calls = controllers.map(({ signal }, n) =>
        repository
          .resolveOrCreate("swamp/new", `new-${n}`, () => thing(n + 10, `new-${n}`), { signal })
          .catch((error: unknown) => error),
      );
      await allBegun.promise;
      // Those that have not come so far yet do, and wait.
      for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
      const start = performance.now();
      for (const { abort } of controllers) abort(reason);
      const gaveUp = new Set<number>();
      const rest = calls.map(async (call, n) => {
        if ((await call) === reason) gaveUp.add(n);
      });
      while (gaveUp.size < 56 && performance.now() - start < 5_000)
        await new Promise((resolve) => setImmediate(resolve));
      expect(gaveUp.size).toBe(56);
      expect(performance.now() - start).toBeLessThan(GRACE_MS);
      fs.fsync = fsync;
      for (const go of held) go();
      await Promise.all(rest);
      expect(gaveUp.size).toBe(56);
      const created = Object.keys(world.files()).filter((path) => path.includes("swamp/new"));
      expect(created).toHaveLength(8);
    } finally {
      fs.fsync = fsync;
    }
    expect(leftovers(world)).toEqual([]);
    for (const { listeners } of controllers) expect(listeners()).toBe(0);
  });

  it("10,000 calls with one signal leave no listener behind", async () => {
    const { world } = await openWithOne();
    const repository = world.repository();
    const { signal, listeners } = countedSignal();
    for (let n = 0; n < 2000; n++) {
      await repository.findByName(TYPE, "web", { signal });
      await repository.findByName(TYPE, "missing", { signal });
      await repository.findById(TYPE, idOf(1), { signal });
      await repository.resolveOrCreate(TYPE, "web", () => thing(9, "web"), { signal });
      if (n % 20 === 0) await repository.save(TYPE, thing(1, "web", `${n}`), { signal });
      else await repository.findPath(TYPE, idOf(1), { signal });
    }
    expect(listeners()).toBe(0);
  });
});

import fs, { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { deferred } from "../../src/abort.ts";
import type { DefinitionRepository, DefinitionRepositoryOptions } from "../../src/definitions/repository.ts";
import { withNameLock } from "../../src/lock/index.ts";
import { withSteps } from "../support/fs-steps.ts";
import { idOf, openWorld, type Thing, textOf, thing, thingCodec, type World } from "../support/repositories.ts";

const TYPE = "swamp/echo";

/** One turn of the event loop. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

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

/** The call must reject with the reason within a few turns of the event loop after the abort: no busy machine makes them more. */
async function expectAborted(call: Promise<unknown>, reason: unknown, aborted: Promise<void>): Promise<void> {
  let outcome: unknown = "it has not settled";
  const settled = call.then(
    () => {
      outcome = "it resolved";
    },
    (error: unknown) => {
      outcome = error;
    },
  );
  await aborted;
  for (let turn = 0; turn < 5 && outcome === "it has not settled"; turn++) {
    await nextTurn();
  }
  expect(outcome).toBe(reason);
  await settled;
}

describe.each(calls)("$name, aborted", ({ run }) => {
  it("before it is called, rejects with the reason and does nothing", async () => {
    const { world, before } = await openWithOne();
    const { signal, abort, listeners } = countedSignal();
    const reason = new Error("too late");
    abort(reason);
    await expectAborted(run(world.repository(), signal), reason, Promise.resolve());
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
    const aborted = deferred<void>();
    const stuck = (): Promise<never> => {
      setImmediate(() => {
        abort(reason);
        aborted.resolve();
      });
      return new Promise(() => {});
    };
    await expectAborted(
      run(world.repository<Thing>(options(stuck)), signal, prepare?.(stuck)),
      reason,
      aborted.promise,
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
    await nextTurn();
    const reason = new Error("gone");
    aborted.abort(reason);
    await expectAborted(second, reason, Promise.resolve());
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
      for (let turn = 0; turn < 50; turn++) await nextTurn();
      const reason = new Error("gone");
      abort(reason);
      await Promise.all(waiting.map((call) => expectAborted(call, reason, Promise.resolve())));
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
      for (let turn = 0; turn < 50; turn++) await nextTurn();
      for (const { abort } of controllers) abort(reason);
      const gaveUp = new Set<number>();
      const rest = calls.map(async (call, n) => {
        if ((await call) === reason) gaveUp.add(n);
      });
      for (let turn = 0; turn < 5 && gaveUp.size < 56; turn++) await nextTurn();
      expect(gaveUp.size).toBe(56);
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

import { AsyncLocalStorage } from "node:async_hooks";
import { afterEach, describe, expect, test, vi } from "vitest";
import { deferred } from "../../src/abort.ts";
import { ClosedError, InvalidArgumentError, NestedTransitionError, QueueFullError } from "../../src/errors.ts";
import { createTransitionQueue, type SlowTransition, type TransitionQueue } from "../../src/transitions/index.ts";
import { runChild } from "../support/spawn.ts";
import { countListeners } from "./listeners.ts";

/** A transition that runs until it is told to end. */
function held(queue: TransitionQueue, key: string | string[], signal?: AbortSignal) {
  const started = deferred<AbortSignal>();
  const end = deferred<void>();
  const settled = queue.run(
    key,
    (given) => {
      started.resolve(given);
      return end.promise;
    },
    { signal },
  );
  settled.catch(() => {});
  return { started: started.promise, end: () => end.resolve(), fail: (error: unknown) => end.reject(error), settled };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function expectEmpty(queue: TransitionQueue): void {
  expect(queue.size).toBe(0);
  expect(queue.stats()).toEqual({ waiting: 0, running: 0, keys: 0, oldestWaiter: null, longestRunning: null });
}

describe("order", () => {
  test("one key: one at a time, in the order of asking", async () => {
    const queue = createTransitionQueue();
    const log: string[] = [];
    await Promise.all(
      [3, 1, 2].map((turns, index) =>
        queue.run("key", async () => {
          log.push(`start ${index}`);
          for (let left = turns; left > 0; left--) await turn();
          log.push(`end ${index}`);
        }),
      ),
    );
    expect(log).toEqual(["start 0", "end 0", "start 1", "end 1", "start 2", "end 2"]);
    expectEmpty(queue);
  });

  test("different keys run side by side", async () => {
    const queue = createTransitionQueue();
    const all = ["a", "b", "c"].map((key) => held(queue, key));
    await Promise.all(all.map(({ started }) => started));
    expect(queue.stats().running).toBe(3);
    for (const { end } of all) end();
    await queue.idle();
    expectEmpty(queue);
  });

  test("several keys: waits for all of them, and nobody who came later passes it on any", async () => {
    const queue = createTransitionQueue();
    const log: string[] = [];
    const a = held(queue, "a");
    const both = queue.run(["a", "b"], () => void log.push("both"));
    const later = queue.run("b", () => void log.push("later b"));
    const other = queue.run("c", () => void log.push("c"));
    await other;
    await turn();
    expect(log).toEqual(["c"]);
    a.end();
    await Promise.all([both, later]);
    expect(log).toEqual(["c", "both", "later b"]);
  });

  test("crossed and repeated keys do not deadlock", async () => {
    const queue = createTransitionQueue();
    const done = await Promise.all(
      Array.from({ length: 200 }, (_, index) =>
        queue.run(index % 2 ? ["a", "b", "a"] : ["b", "a"], () => turn().then(() => index)),
      ),
    );
    expect(done).toEqual(Array.from({ length: 200 }, (_, index) => index));
    expectEmpty(queue);
  });

  test("run settles as fn does, and the next of the key starts only then", async () => {
    const queue = createTransitionQueue();
    const first = held(queue, "key");
    const second = held(queue, "key");
    let secondStarted = false;
    void second.started.then(() => {
      secondStarted = true;
    });
    await turn();
    expect(secondStarted).toBe(false);
    first.fail(new Error("failed"));
    await expect(first.settled).rejects.toThrow("failed");
    await second.started;
    second.end();
    await second.settled;
  });

  test("a transition that throws, at once or later, stops none behind it", async () => {
    const queue = createTransitionQueue();
    const results = await Promise.allSettled([
      queue.run("key", () => {
        throw new Error("at once");
      }),
      queue.run("key", async () => {
        await turn();
        throw new Error("later");
      }),
      queue.run("key", () => "fine"),
    ]);
    expect(results.map((result) => (result.status === "fulfilled" ? result.value : result.reason.message))).toEqual([
      "at once",
      "later",
      "fine",
    ]);
    expectEmpty(queue);
  });

  test("fn runs in the async context of its caller, not of the one that was before it", async () => {
    const queue = createTransitionQueue();
    const request = new AsyncLocalStorage<string>();
    const seen = await Promise.all(
      ["first", "second", "third"].map((name) =>
        request.run(name, () =>
          queue.run("key", async () => {
            await turn();
            return request.getStore();
          }),
        ),
      ),
    );
    expect(seen).toEqual(["first", "second", "third"]);
  });

  test("10,000 keys at once, none of which waits for another", async () => {
    const queue = createTransitionQueue();
    const gate = deferred<void>();
    const all = Array.from({ length: 10_000 }, (_, index) =>
      queue.run(`key ${index}`, () => gate.promise.then(() => index)),
    );
    expect(queue.stats()).toMatchObject({ waiting: 0, running: 10_000, keys: 10_000 });
    gate.resolve();
    expect(await Promise.all(all)).toHaveLength(10_000);
    expectEmpty(queue);
  });
});

describe("nesting", () => {
  test("a run inside a running transition of the same queue is refused, on any key and after any await", async () => {
    const queue = createTransitionQueue();
    for (const inner of ["a", "b"]) {
      const outer = queue.run("a", async () => {
        await turn();
        await queue.run(inner, () => {});
      });
      await expect(outer).rejects.toThrow(NestedTransitionError);
    }
    await expect(queue.run("a", () => queue.run("b", () => {}))).rejects.toMatchObject({
      code: "NESTED_TRANSITION",
      keys: ["b"],
    });
    expectEmpty(queue);
  });

  test("it is refused through another queue too, which itself may be used", async () => {
    const [outer, inner] = [createTransitionQueue(), createTransitionQueue()];
    expect(await outer.run("a", () => inner.run("a", () => "inside"))).toBe("inside");
    const back = outer.run("a", () => inner.run("b", () => outer.run("c", () => {})));
    await expect(back).rejects.toThrow(NestedTransitionError);
  });

  test("what a transition left running may use the queue once the transition has settled", async () => {
    const queue = createTransitionQueue();
    const gate = deferred<void>();
    let left: Promise<string> | undefined;
    await queue.run("a", () => {
      left = gate.promise.then(() => queue.run("a", () => "after"));
    });
    gate.resolve();
    expect(await left).toBe("after");
  });

  test("a waiting transition was not asked for inside the one before it", async () => {
    const queue = createTransitionQueue();
    const first = held(queue, "a");
    const second = queue.run("a", () => "second");
    first.end();
    expect(await second).toBe("second");
  });
});

describe("abort", () => {
  test("before: rejects with the reason, fn never runs", async () => {
    const queue = createTransitionQueue();
    const fn = vi.fn();
    const reason = new Error("reason");
    await expect(queue.run("key", fn, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(fn).not.toHaveBeenCalled();
    expectEmpty(queue);
  });

  test("while it waits: leaves the line at once, and those behind it go on", async () => {
    const queue = createTransitionQueue();
    const a = held(queue, "a");
    const controller = new AbortController();
    const listeners = countListeners(controller.signal);
    const fn = vi.fn();
    const aborted = queue.run(["a", "b"], fn, { signal: controller.signal });
    const behind = queue.run("b", () => "behind");
    const reason = new Error("reason");
    controller.abort(reason);
    expect(queue.depth("a")).toBe(1);
    await expect(aborted).rejects.toBe(reason);
    expect(await behind).toBe("behind");
    a.end();
    await queue.idle();
    expect(fn).not.toHaveBeenCalled();
    expect(listeners()).toBe(0);
    expectEmpty(queue);
  });

  test("in the moment in which its turn comes: fn does not run", async () => {
    const queue = createTransitionQueue();
    const first = held(queue, "key");
    const controller = new AbortController();
    const fn = vi.fn();
    const aborted = queue.run("key", fn, { signal: controller.signal });
    const behind = queue.run("key", () => "behind");
    first.end();
    const reason = new Error("reason");
    // Microtasks later, one by one, until the turn has been given.
    while (queue.stats().waiting === 2) await Promise.resolve();
    controller.abort(reason);
    await expect(aborted).rejects.toBe(reason);
    expect(await behind).toBe("behind");
    expect(fn).not.toHaveBeenCalled();
  });

  test("while it runs: fn has the signal, and run settles when fn does", async () => {
    const queue = createTransitionQueue();
    const controller = new AbortController();
    const running = held(queue, "key", controller.signal);
    const signal = await running.started;
    const behind = vi.fn();
    const next = queue.run("key", behind);
    controller.abort(new Error("reason"));
    expect(signal.aborted).toBe(true);
    await turn();
    expect(behind).not.toHaveBeenCalled();
    running.end();
    await running.settled;
    await next;
    expect(behind).toHaveBeenCalledOnce();
  });

  test("1,000 queued and aborted: all settle within 50 ms, and none starts later", async () => {
    let fastest = Number.POSITIVE_INFINITY;
    // What takes longer once is the machine's doing.
    for (let round = 0; round < 5 && fastest >= 50; round++) {
      const queue = createTransitionQueue();
      const first = held(queue, ["a", "b"]);
      const controller = new AbortController();
      const listeners = countListeners(controller.signal);
      const fn = vi.fn();
      const queued = Array.from({ length: 1_000 }, (_, index) =>
        queue.run(index % 3 ? "a" : ["b", "a"], fn, { signal: controller.signal }),
      );
      const results = Promise.allSettled(queued);
      const abortedAt = performance.now();
      controller.abort(new Error("reason"));
      const all = await results;
      fastest = Math.min(fastest, performance.now() - abortedAt);
      for (const result of all) expect(result).toMatchObject({ status: "rejected", reason: { message: "reason" } });
      expect(listeners()).toBe(0);
      first.end();
      await queue.idle();
      await turn();
      expect(fn).not.toHaveBeenCalled();
      expectEmpty(queue);
    }
    expect(fastest).toBeLessThan(50);
  });

  test("10,000 calls with one signal leave no listener", async () => {
    const queue = createTransitionQueue({ concurrency: 7 });
    const { signal } = new AbortController();
    const listeners = countListeners(signal);
    await Promise.all(
      Array.from({ length: 10_000 }, (_, index) => queue.run(`key ${index % 100}`, () => {}, { signal })),
    );
    expect(listeners()).toBe(0);
    expect(listeners.most()).toBeGreaterThan(0);
    expectEmpty(queue);
  });
});

describe("bounds", () => {
  test("one more than maxPendingPerKey is refused, for that key only, and only while they wait", async () => {
    const queue = createTransitionQueue({ maxPendingPerKey: 2 });
    const first = held(queue, "full");
    const waiting = [queue.run("full", () => 1), queue.run(["full", "other"], () => 2)];
    await expect(queue.run("full", () => 3)).rejects.toMatchObject({ code: "QUEUE_FULL", key: "full", limit: 2 });
    await expect(queue.run(["free", "full"], () => 3)).rejects.toThrow(QueueFullError);
    expect(queue.depth("free")).toBe(0);
    expect(await queue.run("free", () => "free")).toBe("free");
    first.end();
    await Promise.all(waiting);
    expect(await queue.run("full", () => 3)).toBe(3);
    expectEmpty(queue);
  });

  test("concurrency bounds the whole; who waited longest for a slot gets the next", async () => {
    const queue = createTransitionQueue({ concurrency: 2 });
    const started: string[] = [];
    let running = 0;
    let most = 0;
    await Promise.all(
      ["a", "b", "c", "d", "e"].map((key) =>
        queue.run(key, async () => {
          started.push(key);
          most = Math.max(most, ++running);
          await turn();
          running--;
        }),
      ),
    );
    expect(most).toBe(2);
    expect(started).toEqual(["a", "b", "c", "d", "e"]);
    expectEmpty(queue);
  });

  test("a waiter that gives up leaves the slot to others", async () => {
    const queue = createTransitionQueue({ concurrency: 1 });
    const first = held(queue, "a");
    const controller = new AbortController();
    const aborted = queue.run("b", () => {}, { signal: controller.signal });
    const behind = queue.run("b", () => "behind");
    controller.abort(new Error("reason"));
    await expect(aborted).rejects.toThrow("reason");
    first.end();
    expect(await behind).toBe("behind");
  });

  test("what is not usable is named", async () => {
    const queue = createTransitionQueue();
    await expect(queue.run([], () => {})).rejects.toThrow(InvalidArgumentError);
    await expect(queue.run(7 as never, () => {})).rejects.toThrow(
      "key: expected a string or a non-empty list of strings, got 7",
    );
    await expect(queue.run("key", undefined as never)).rejects.toThrow("fn: expected a function");
    for (const value of [0, -1, 1.5, Number.NaN]) {
      expect(() => createTransitionQueue({ concurrency: value })).toThrow(
        `concurrency: expected a whole number of at least 1, got ${value}`,
      );
      expect(() => createTransitionQueue({ maxPendingPerKey: value })).toThrow(InvalidArgumentError);
    }
    expect(() => createTransitionQueue({ slowAfterMs: 0 })).toThrow(InvalidArgumentError);
    expectEmpty(queue);
  });
});

describe("observation", () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  test("stats and depth say who waits and for how long", async () => {
    vi.useFakeTimers({ toFake: ["performance"] });
    const queue = createTransitionQueue();
    const first = held(queue, "a");
    vi.advanceTimersByTime(30);
    const second = held(queue, ["a", "b"]);
    vi.advanceTimersByTime(12);
    const third = held(queue, "b");
    expect(queue.size).toBe(3);
    expect([queue.depth("a"), queue.depth("b"), queue.depth("c")]).toEqual([2, 2, 0]);
    expect(queue.stats()).toEqual({
      waiting: 2,
      running: 1,
      keys: 2,
      oldestWaiter: { keys: ["a", "b"], waitedMs: 12 },
      longestRunning: { keys: ["a"], runningMs: 42 },
    });
    for (const { end } of [first, second, third]) end();
    await queue.idle();
    expectEmpty(queue);
  });

  test("one that runs longer than slowAfterMs is reported once, while it runs; a short one never", async () => {
    vi.useFakeTimers({ toFake: ["performance", "setTimeout", "clearTimeout"] });
    const reports: SlowTransition[] = [];
    const queue = createTransitionQueue({ slowAfterMs: 100, onSlow: (slow) => reports.push(slow) });
    await queue.run("short", () => {});
    const first = held(queue, "slow");
    const waits = held(queue, "slow");
    await vi.advanceTimersByTimeAsync(60);
    const later = held(queue, "later");
    await vi.advanceTimersByTimeAsync(50);
    expect(reports).toEqual([{ keys: ["slow"], runningMs: 100, waitedMs: 0, waiting: 1 }]);
    await vi.advanceTimersByTimeAsync(60);
    expect(reports.slice(1)).toEqual([{ keys: ["later"], runningMs: 100, waitedMs: 0, waiting: 0 }]);
    first.end();
    later.end();
    await waits.started;
    waits.end();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(reports).toHaveLength(2);
    expect(vi.getTimerCount()).toBe(0);
    expectEmpty(queue);
  });

  test("the watch for slow ones keeps no process alive", async () => {
    expect(await runChild(new URL("./slow.child.ts", import.meta.url))).toEqual(["done"]);
  });
});

describe("the end", () => {
  test("idle resolves when nothing waits or runs, at once where that is now", async () => {
    const queue = createTransitionQueue();
    await queue.idle();
    const first = held(queue, "a");
    const second = held(queue, "a");
    let idle = false;
    const waiting = queue.idle().then(() => {
      idle = true;
    });
    first.end();
    await first.settled;
    await turn();
    expect(idle).toBe(false);
    second.end();
    await waiting;
    expectEmpty(queue);
  });

  test("idle ends when what waits is aborted", async () => {
    const queue = createTransitionQueue();
    const first = held(queue, "a");
    const controller = new AbortController();
    const second = held(queue, "a", controller.signal);
    const idle = queue.idle();
    first.end();
    controller.abort();
    await idle;
    await expect(second.settled).rejects.toThrow();
  });

  test("an abort of idle ends the waiting, leaves no listener and changes nothing", async () => {
    const queue = createTransitionQueue();
    const first = held(queue, "a");
    const controller = new AbortController();
    const listeners = countListeners(controller.signal);
    const idle = queue.idle({ signal: controller.signal });
    controller.abort(new Error("reason"));
    await expect(idle).rejects.toThrow("reason");
    expect(listeners()).toBe(0);
    first.end();
    await first.settled;
    await queue.idle();
  });

  test("close takes no more, and resolves when all that were taken have settled", async () => {
    const queue = createTransitionQueue();
    const first = held(queue, "a");
    const second = held(queue, "a");
    let closed = false;
    const closing = queue.close().then(() => {
      closed = true;
    });
    await expect(queue.run("b", () => {})).rejects.toThrow(ClosedError);
    first.end();
    await second.started;
    expect(closed).toBe(false);
    second.end();
    await closing;
    await queue.close();
    expectEmpty(queue);
  });

  test("an abort cuts close short: none that waits starts, those that run are told and settle", async () => {
    const queue = createTransitionQueue();
    const first = held(queue, "a");
    const signal = await first.started;
    const fn = vi.fn();
    const waiting = [queue.run(["a", "b"], fn), queue.run("b", fn), queue.run(["b", "a"], fn)];
    const results = Promise.allSettled(waiting);
    const controller = new AbortController();
    const closing = queue.close({ signal: controller.signal });
    controller.abort(new Error("too long"));
    await expect(closing).rejects.toThrow("too long");
    for (const result of await results)
      expect(result).toMatchObject({ status: "rejected", reason: { code: "CLOSED" } });
    expect(signal.reason).toEqual(new Error("too long"));
    expect(queue.stats()).toMatchObject({ waiting: 0, running: 1 });
    first.end();
    await queue.idle();
    await turn();
    expect(fn).not.toHaveBeenCalled();
    expectEmpty(queue);
  });

  test("an abort in the instant in which the line moves on: whoever has not begun does not", async () => {
    for (let ticks = 0; ticks < 12; ticks++) {
      const queue = createTransitionQueue();
      const first = held(queue, "a");
      await first.started;
      const controller = new AbortController();
      let startedAt: "before" | "after" | null = null;
      const second = queue.run("a", () => {
        startedAt = controller.signal.aborted ? "after" : "before";
      });
      const outcome = Promise.allSettled([second]);
      const closing = queue.close({ signal: controller.signal });
      first.end();
      for (let tick = 0; tick < ticks; tick++) await null;
      controller.abort(new Error("too long"));
      await Promise.allSettled([closing]);
      await outcome;
      expect(startedAt).not.toBe("after");
      expectEmpty(queue);
    }
  });

  test("a close that is aborted before it is called changes nothing", async () => {
    const queue = createTransitionQueue();
    await expect(queue.close({ signal: AbortSignal.abort(new Error("reason")) })).rejects.toThrow("reason");
    expect(await queue.run("a", () => "open")).toBe("open");
  });

  test("await using closes it", async () => {
    let queue: TransitionQueue;
    {
      await using scoped = createTransitionQueue();
      queue = scoped;
    }
    await expect(queue.run("a", () => {})).rejects.toThrow(ClosedError);
  });
});

import { createHash } from "node:crypto";
import { getEventListeners } from "node:events";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, describe, expect, test, vi } from "vitest";
import { delay } from "../../src/abort.ts";
import { NameLockLostError, NameLockTimeoutError } from "../../src/errors.ts";
import { type NameLock, tryFileLock, withNameLock } from "../../src/lock/index.ts";
import { currentProcessIdentity } from "../../src/process-identity.ts";
import { fastestOf } from "../support/fastest.ts";
import { type Child, isLong, spawnChild, tempDir } from "../support/spawn.ts";

const children: Child[] = [];
afterEach(async () => {
  vi.useRealTimers();
  for (const child of children.splice(0)) {
    child.process.kill("SIGKILL");
    await child.exit;
  }
});

async function contenders(count: number, env: Record<string, string> = {}): Promise<Child[]> {
  const started = Array.from({ length: count }, () =>
    spawnChild(new URL("./name-lock.child.ts", import.meta.url), [], { env }),
  );
  children.push(...started);
  for (const child of started) expect(await child.line()).toBe("ready");
  return started;
}

const lockDir = (): string => join(tempDir(), ".auto-definition-create");

/** What a swamp process of today writes. */
function swampFile(over: Record<string, unknown> = {}): string {
  const acquiredAt = new Date().toISOString();
  return JSON.stringify({ holder: "ann@pod", hostname: "pod", pid: 7, acquiredAt, ttlMs: 60, nonce: "n", ...over });
}

function putSwampFile(dir: string, name: string, text = swampFile()): string {
  mkdirSync(dir, { recursive: true });
  const path = join(dir, `${name}.lock`);
  writeFileSync(`${path}.tmp`, text);
  renameSync(`${path}.tmp`, path);
  return path;
}

function putBackCopy(path: string): void {
  copyFileSync(path, `${path}.tmp`);
  renameSync(`${path}.tmp`, path);
}

/** All that may stay: the mutexes and the kept drafts. */
function leftOver(dir: string): string[] {
  return existsSync(dir) ? readdirSync(dir).filter((name) => !/^\.mutex-[0-9a-f]{2}(\.[0-3])?$/.test(name)) : [];
}

const mutexOf = (name: string): string =>
  `.mutex-${createHash("sha256").update(`${name}.lock`).digest("hex").slice(0, 2)}`;

function blockEventLoop(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

describe("while a name is locked", () => {
  test("its file says who holds it, in swamp's fields and in ours; after it nothing is left", async () => {
    const dir = lockDir();
    const result = await withNameLock(dir, "@acme/web", async (lock) => {
      expect(lock.path).toBe(join(dir, "@acme--web.lock"));
      const { holder, hostname, pid, acquiredAt, ttlMs, nonce, ...identity } = JSON.parse(
        readFileSync(lock.path, "utf8"),
      );
      expect(holder).toBe(`${holder.split("@")[0]}@${hostname}`);
      expect(ttlMs).toBe(30_000);
      expect(Date.now() - Date.parse(acquiredAt)).toBeLessThan(10_000);
      expect(nonce).toMatch(/^[0-9a-f-]{36}$/);
      expect({ hostname, pid, ...identity }).toEqual(currentProcessIdentity());
      return 42;
    });
    expect(result).toBe(42);
    expect(leftOver(dir)).toEqual([]);
  });

  test("a failure in the callback gives it back", async () => {
    const dir = lockDir();
    const failure = new Error("no");
    await expect(withNameLock(dir, "web", () => Promise.reject(failure))).rejects.toBe(failure);
    expect(leftOver(dir)).toEqual([]);
    await withNameLock(dir, "web", async () => {}, { maxWaitMs: 0 });
  });

  test("others of this process get it in their order", async () => {
    const dir = lockDir();
    const order: number[] = [];
    await Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        withNameLock(dir, "web", async () => {
          await null;
          order.push(i);
        }),
      ),
    );
    expect(order).toEqual(Array.from({ length: 50 }, (_, i) => i));
  });

  test("a name of the same mutex can be locked at the same time, and inside", async () => {
    const dir = lockDir();
    let other = "";
    for (let i = 0; mutexOf(other) !== mutexOf("web"); i++) other = `worker-${i}`;
    await withNameLock(dir, "web", () => withNameLock(dir, other, async () => {}, { maxWaitMs: 1000 }));
    expect(leftOver(dir)).toEqual([]);
  });

  test.each([
    ["5,000 characters", "x".repeat(5000)],
    ["5,000 characters of three bytes", "語".repeat(5000)],
    ["a NUL", "a\0b"],
    ["slashes and dots", "../../etc/passwd"],
    ["a newline", "a\nb"],
    ["a lone surrogate", "a\ud800"],
  ])("the file of a name with %s is legal, and in the directory", async (_, name) => {
    const dir = lockDir();
    await withNameLock(dir, name, async (lock) => {
      expect(join(lock.path, "..")).toBe(dir);
      expect(readdirSync(dir).filter((each) => each.endsWith(".lock"))).toHaveLength(1);
      lock.verify();
    });
    expect(leftOver(dir)).toEqual([]);
  });
});

describe("many processes", () => {
  test("on one stale lock: exactly one owner at a time, one creation each round", async () => {
    const dir = lockDir();
    const out = tempDir();
    const processes = await contenders(16);
    const rounds = isLong ? 200 : 6;
    for (let round = 0; round < rounds; round++) {
      const name = `round-${round}`;
      const dead = { ...currentProcessIdentity(), instanceId: `dead-${round}`, startTime: 1, ttlMs: 60_000 };
      const path = putSwampFile(dir, name, swampFile(round % 2 === 0 ? {} : dead));
      for (const child of processes) child.send(`create ${dir} ${out} ${name}`);
      const made = await Promise.all(processes.map(async (child) => Number(await child.line())));
      expect(
        made.reduce((sum, each) => sum + each, 0),
        name,
      ).toBe(1);
      expect(existsSync(path)).toBe(false);
    }
    expect(leftOver(dir)).toEqual([]);
  });

  test("8 that create the same 50 names at once make each once, with and without an FFI", async () => {
    const dir = lockDir();
    const out = tempDir();
    const names = Array.from({ length: 50 }, (_, i) => `name-${i}`);
    const processes = [...(await contenders(6)), ...(await contenders(2, { TUSSOCK_NO_FFI: "1" }))];
    for (const child of processes) child.send(`create ${dir} ${out} ${names.join(" ")}`);
    const made = await Promise.all(processes.map(async (child) => Number(await child.line())));
    expect(made.reduce((sum, each) => sum + each, 0)).toBe(50);
    expect(readdirSync(out).sort()).toEqual([...names].sort());
    expect(leftOver(dir)).toEqual([]);
  });

  test("the lock of one that was killed is free within milliseconds, and a release wakes as fast", async () => {
    const dir = lockDir();
    const [first, second] = (await contenders(2)) as [Child, Child];
    first.send(`hold ${dir} web`);
    expect(await first.line()).toBe("held");
    await expect(withNameLock(dir, "web", async () => {}, { maxWaitMs: 20 })).rejects.toMatchObject({
      code: "NAME_LOCK_TIMEOUT",
      path: join(dir, "web.lock"),
      holder: { pid: first.pid },
    });
    first.process.kill("SIGKILL");
    await first.exit;
    await withNameLock(dir, "web", async () => {}, { maxWaitMs: 500 });
    expect(leftOver(dir)).toEqual([]);

    second.send(`hold ${dir} web`);
    expect(await second.line()).toBe("held");
    const waiting = withNameLock(dir, "web", async () => performance.now());
    second.send("release");
    expect(await second.line()).toBe("released");
    const told = performance.now();
    expect((await waiting) - told).toBeLessThan(500);
  });
});

describe("against swamp's file", () => {
  test("a live holder keeps the lock for many TTLs, whatever its clock or ours says, and its release wakes at once", async () => {
    const dir = lockDir();
    const path = putSwampFile(dir, "web");
    vi.useFakeTimers({ toFake: ["Date"] });
    let taken = 0;
    const waiting = withNameLock(dir, "web", async () => {
      taken = performance.now();
    });
    for (let i = 0; i < 30; i++) {
      const jump = (i % 3) - 1;
      vi.setSystemTime(Date.UTC(2026, 0, 1) + jump * 3_600_000);
      const acquiredAt = new Date(Date.UTC(2026, 0, 1) - jump * 3_600_000).toISOString();
      putSwampFile(dir, "web", swampFile({ acquiredAt, renewal: i }));
      await delay(20);
      expect(taken).toBe(0);
    }
    rmSync(path);
    const released = performance.now();
    await waiting;
    expect(taken - released).toBeLessThan(500);
    expect(leftOver(dir)).toEqual([]);
  });

  test.each([
    ["is not renewed for its TTL", swampFile(), 60],
    ["is empty for a TTL", "", 90],
    ["is cut off for a TTL", swampFile().slice(0, 30), 90],
    ["has no sensible TTL for a TTL", swampFile({ ttlMs: -1 }), 90],
  ])("one that %s is taken over, not before", async (_, text, ttlMs) => {
    const dir = lockDir();
    putSwampFile(dir, "web", text);
    const began = performance.now();
    await withNameLock(
      dir,
      "web",
      async (lock) => {
        expect(performance.now() - began).toBeGreaterThanOrEqual(ttlMs - 1);
        lock.verify();
      },
      { ttlMs: 90 },
    );
    expect(leftOver(dir)).toEqual([]);
  });

  test("one whose process is dead by its PID and start time is taken over at once", async () => {
    const dir = lockDir();
    const { instanceId: _, ...self } = currentProcessIdentity();
    putSwampFile(dir, "web", swampFile({ ...self, pid: 2 ** 30, ttlMs: 60_000 }));
    await withNameLock(dir, "web", async () => {}, { maxWaitMs: 500 });
  });

  test("one that only names a host and a PID is not taken for dead, even if no such PID runs", async () => {
    const dir = lockDir();
    const { hostname } = currentProcessIdentity();
    putSwampFile(dir, "web", swampFile({ hostname, pid: 2 ** 30, ttlMs: 60_000 }));
    const failure = await withNameLock(dir, "web", async () => {}, { maxWaitMs: 50 }).catch((error) => error);
    expect(failure).toBeInstanceOf(NameLockTimeoutError);
    expect(failure.holder).toMatchObject({ holder: "ann@pod", pid: 2 ** 30 });
    expect(leftOver(dir)).toEqual(["web.lock"]);
  });
});

describe("a holder", () => {
  test("whose event loop was blocked for longer than the TTL learns before it writes that it lost the lock", async () => {
    const dir = lockDir();
    let lock: NameLock | undefined;
    const run = withNameLock(
      dir,
      "web",
      async (held) => {
        lock = held;
        blockEventLoop(100);
        putSwampFile(dir, "web", swampFile({ holder: "bob@pod" })); // As a swamp process does when the TTL has passed.
        held.verify();
        throw new Error("it would have written");
      },
      { ttlMs: 60 },
    );
    const failure = await run.catch((error) => error);
    expect(failure).toBeInstanceOf(NameLockLostError);
    expect(failure).toMatchObject({ code: "NAME_LOCK_LOST", holder: { holder: "bob@pod" } });
    expect(lock?.lost.aborted).toBe(true);
    expect(lock?.lost.reason).toBe(failure);
    expect(leftOver(dir)).toEqual(["web.lock"]); // Of the other one: not ours to remove.
  });

  test("whose event loop was blocked, and whom nobody took over, goes on with a renewed file", async () => {
    const dir = lockDir();
    await withNameLock(
      dir,
      "web",
      async (lock) => {
        const before = readFileSync(lock.path, "utf8");
        blockEventLoop(100);
        expect(readFileSync(lock.path, "utf8")).toBe(before);
        lock.verify();
        expect(readFileSync(lock.path, "utf8")).not.toBe(before);
      },
      { ttlMs: 60 },
    );
  });

  test("renews its file, and is told without asking when that is no longer its own", async () => {
    const dir = lockDir();
    await withNameLock(
      dir,
      "web",
      async (lock) => {
        const first = JSON.parse(readFileSync(lock.path, "utf8"));
        await vi.waitFor(() => {
          const now = JSON.parse(readFileSync(lock.path, "utf8"));
          expect(now.acquiredAt > first.acquiredAt).toBe(true);
          expect(now.nonce).toBe(first.nonce);
        });
        rmSync(lock.path); // swamp unlinks without looking whose it is.
        await vi.waitFor(() => expect(lock.lost.aborted).toBe(true));
        expect(() => lock.verify()).toThrow(NameLockLostError);
      },
      { ttlMs: 60 },
    );
    expect(leftOver(dir)).toEqual([]);
  });

  test.each<[string, (path: string) => void]>([
    ["renamed over it", (path) => putSwampFile(join(path, ".."), "web")],
    ["overwrote it in place", (path) => writeFileSync(path, swampFile())],
    ["put back a copy of it", putBackCopy],
    ["removed it", (path) => rmSync(path)],
    ["cut it off", (path) => writeFileSync(path, "")],
  ])("is told at once that somebody %s", async (_, take) => {
    const dir = lockDir();
    await withNameLock(dir, "web", async (lock) => {
      lock.verify();
      take(lock.path);
      expect(() => lock.verify()).toThrow(NameLockLostError);
      expect(lock.lost.aborted).toBe(true);
    });
  });

  test("settles as its callback does, even if its file can be neither looked at nor removed", async () => {
    const dir = lockDir();
    const run = withNameLock(
      dir,
      "web",
      async (lock) => {
        rmSync(lock.path);
        symlinkSync(lock.path, lock.path);
        await delay(100); // Renewals come meanwhile, and fail.
        expect(() => lock.verify()).toThrow(/ELOOP/);
        return 42;
      },
      { ttlMs: 60 },
    );
    expect(await run).toBe(42);
    rmSync(join(dir, "web.lock"));
    await withNameLock(dir, "web", async () => {}, { maxWaitMs: 100 });
  });

  test("never writes into a file of its own that somebody took away", async () => {
    const dir = lockDir();
    const away = join(dir, "away");
    await withNameLock(dir, "web", async (lock) => renameSync(lock.path, away));
    const text = readFileSync(away, "utf8");
    await withNameLock(dir, "web", async () => {});
    expect(readFileSync(away, "utf8")).toBe(text);
  });

  test("never writes into the file of whoever took over", async () => {
    const dir = lockDir();
    const theirs = swampFile({ holder: "bob@pod" });
    await withNameLock(
      dir,
      "web",
      async (lock) => {
        putSwampFile(dir, "web", theirs);
        await vi.waitFor(() => expect(lock.lost.aborted).toBe(true));
      },
      { ttlMs: 60 },
    );
    expect(readFileSync(join(dir, "web.lock"), "utf8")).toBe(theirs);
  });
});

describe("an abort while waiting", () => {
  const reason = new Error("enough");

  async function expectAborted(dir: string, expected: string[]): Promise<void> {
    const once = async (): Promise<number> => {
      const controller = new AbortController();
      const waiting = withNameLock(dir, "web", async () => {}, { signal: controller.signal });
      const settled = waiting.catch(() => {});
      await delay(10);
      const began = performance.now();
      controller.abort(reason);
      await settled;
      const tookMs = performance.now() - began;
      await expect(waiting).rejects.toBe(reason);
      expect(leftOver(dir)).toEqual(expected);
      expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
      return tookMs;
    };
    expect(await fastestOf(5, 50, once)).toBeLessThan(50);
  }

  test("in line behind another of this process", async () => {
    const dir = lockDir();
    await withNameLock(dir, "web", () => expectAborted(dir, ["web.lock"]));
    await withNameLock(dir, "web", async () => {}, { maxWaitMs: 100 });
    expect(leftOver(dir)).toEqual([]);
  });

  test("for the mutex", async () => {
    const dir = lockDir();
    mkdirSync(dir);
    const mutex = tryFileLock(join(dir, mutexOf("web")))!;
    await expectAborted(dir, []);
    mutex.release();
    await withNameLock(dir, "web", async () => {}, { maxWaitMs: 100 });
  });

  test("for the mutex, does not end the waiting of others", async () => {
    const dir = lockDir();
    let other = "";
    for (let i = 0; mutexOf(other) !== mutexOf("web"); i++) other = `worker-${i}`;
    mkdirSync(dir);
    const mutex = tryFileLock(join(dir, mutexOf("web")))!;
    const patient = withNameLock(dir, other, async () => "done");
    await expectAborted(dir, []);
    mutex.release();
    expect(await patient).toBe("done");
  });

  test("for swamp's file", async () => {
    const dir = lockDir();
    const path = putSwampFile(dir, "web", swampFile({ ttlMs: 60_000 }));
    await expectAborted(dir, ["web.lock"]);
    rmSync(path);
    await withNameLock(dir, "web", async () => {}, { maxWaitMs: 100 });
  });

  test("before anything leaves not even the directory", async () => {
    const dir = lockDir();
    await expect(withNameLock(dir, "web", async () => {}, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(existsSync(dir)).toBe(false);
  });
});

test("1,000 calls (10,000 in a long run) with one signal leave no listener and no descriptor", async () => {
  const dir = lockDir();
  const { signal } = new AbortController();
  const before = readdirSync("/proc/self/fd").length;
  for (let i = 0; i < (isLong ? 100 : 10); i++) {
    await Promise.all(
      Array.from({ length: 100 }, (_, n) => withNameLock(dir, `n${n % 60}`, async () => {}, { signal })),
    );
  }
  expect(getEventListeners(signal, "abort")).toHaveLength(0);
  expect(readdirSync("/proc/self/fd").length).toBe(before);
  expect(leftOver(dir)).toEqual([]);
});

test("whatever is aborted and whenever: one holder at a time, every call settles, nothing is left", async () => {
  const call = fc.record({
    name: fc.constantFrom("a", "b", "c"),
    work: fc.integer({ min: 0, max: 3 }),
    abortAfter: fc.option(fc.integer({ min: 0, max: 6 }), { nil: null }),
    fails: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(call, { maxLength: 20 }), async (calls) => {
      const dir = lockDir();
      const inside = new Map<string, number>();
      const results = await Promise.allSettled(
        calls.map(({ name, work, abortAfter, fails }) => {
          const controller = new AbortController();
          if (abortAfter !== null) void delay(abortAfter).then(() => controller.abort("aborted"));
          return withNameLock(
            dir,
            name,
            async (lock) => {
              expect(inside.get(name) ?? 0).toBe(0);
              inside.set(name, 1);
              if (work > 0) await delay(work);
              lock.verify();
              inside.set(name, 0);
              if (fails) throw "failed";
            },
            { signal: controller.signal },
          );
        }),
      );
      for (const [i, result] of results.entries()) {
        if (result.status === "fulfilled") expect(calls[i]!.fails).toBe(false);
        else if (result.reason === "failed") expect(calls[i]!.fails).toBe(true);
        else expect([result.reason, calls[i]!.abortAfter !== null]).toEqual(["aborted", true]);
      }
      expect(leftOver(dir)).toEqual([]);
      rmSync(join(dir, ".."), { recursive: true });
    }),
    { numRuns: isLong ? 1000 : 30 },
  );
});

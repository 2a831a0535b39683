import { spawnSync } from "node:child_process";
import { closeSync, openSync, readdirSync, readFileSync, renameSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { acquireFileLock, type FileLock, probeFileLock, tryFileLock } from "../../src/lock/file-lock.ts";
import { type Child, spawnChild, tempDir } from "../support/spawn.ts";

const children: Child[] = [];
afterEach(async () => {
  for (const child of children.splice(0)) {
    child.process.kill("SIGKILL");
    await child.exit;
  }
});

async function locker(options: { ffi?: boolean; prefix?: readonly string[] } = {}): Promise<Child> {
  const child = spawnChild(new URL("./lock.child.ts", import.meta.url), [], {
    env: options.ffi === false ? { TUSSOCK_NO_FFI: "1" } : {},
    ...(options.prefix === undefined ? {} : { prefix: options.prefix }),
  });
  children.push(child);
  expect(await child.line()).toBe("ready");
  return child;
}

async function ask(child: Child, command: string): Promise<string> {
  child.send(command);
  return child.line();
}

function take(path: string): FileLock {
  const lock = tryFileLock(path);
  expect(lock).not.toBeNull();
  return lock!;
}

const lockPath = (): string => join(tempDir(), "lock");
const openFiles = (): number => readdirSync("/proc/self/fd").length;

describe("a lock", () => {
  test("excludes a second one in the same process, until it is released, once", () => {
    const path = lockPath();
    const first = take(path);
    expect(first.mechanism).toBe("flock");
    expect(tryFileLock(path)).toBeNull();
    first.release();
    const second = take(path);
    first.release();
    expect(tryFileLock(path)).toBeNull();
    second.release();
  });

  test("is kept when its owner reads and closes the file, as a backup does", async () => {
    const path = lockPath();
    const lock = take(path);
    const child = await locker();
    for (let i = 0; i < 3; i++) {
      readFileSync(path);
      closeSync(openSync(path, "r+"));
    }
    expect(await ask(child, `try ${path}`)).toBe("refused");
    lock.release();
    expect(await ask(child, `try ${path}`)).toBe("flock");
  });

  test("is on the file that the path names, not on one that was unlinked or replaced meanwhile", () => {
    const path = lockPath();
    const old = take(path);
    unlinkSync(path);
    const second = take(path);
    expect(tryFileLock(path)).toBeNull();
    writeFileSync(`${path}.other`, "");
    renameSync(`${path}.other`, path);
    const third = take(path);
    for (const lock of [old, second, third]) lock.release();
  });

  test("is refused with the system's error where the directory is missing, and leaves no descriptor", () => {
    const path = join(tempDir(), "missing", "lock");
    const before = openFiles();
    expect(() => tryFileLock(path)).toThrow(/ENOENT/);
    expect(probeFileLock(path)).toBe("absent");
    expect(openFiles()).toBe(before);
  });

  test("takes no descriptor for being tried, probed and released", () => {
    const path = lockPath();
    const lock = take(path);
    const before = openFiles();
    for (let i = 0; i < 100; i++) {
      expect(tryFileLock(path)).toBeNull();
      expect(probeFileLock(path)).toBe("held");
    }
    expect(openFiles()).toBe(before);
    lock.release();
    expect(openFiles()).toBe(before - 1);
  });
});

describe.each([
  { owner: "with", other: "with" },
  { owner: "with", other: "without" },
  { owner: "without", other: "with" },
  { owner: "without", other: "without" },
])("a lock of a process $owner an FFI, against one $other", ({ owner, other }) => {
  test("excludes it, is seen by its probe, and is free at once after SIGKILL", async () => {
    const path = lockPath();
    const [a, b] = await Promise.all([locker({ ffi: owner === "with" }), locker({ ffi: other === "with" })]);
    expect(await ask(a, `try ${path}`)).toBe(owner === "with" ? "flock" : "sqlite");
    for (let i = 0; i < 3; i++) {
      expect(await ask(b, `try ${path}`)).toBe("refused");
      expect(await ask(b, `probe ${path}`)).toBe("held");
    }
    a.process.kill("SIGKILL");
    await a.exit;
    expect(await ask(b, `probe ${path}`)).toBe("free");
    expect(await ask(b, `try ${path}`)).toBe(other === "with" ? "flock" : "sqlite");
    expect(readdirSync(join(path, ".."))).toEqual(["lock"]);
    expect(readFileSync(path)).toHaveLength(0);
  });
});

test("a second PID namespace is kept out", async (context) => {
  const prefix = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
  if (spawnSync(prefix[0]!, [...prefix.slice(1), "true"]).status !== 0) {
    context.skip("this user may not make PID namespaces");
  }
  const path = lockPath();
  const lock = take(path);
  const child = await locker({ prefix });
  expect(await ask(child, `try ${path}`)).toBe("refused");
  expect(await ask(child, `probe ${path}`)).toBe("held");
  lock.release();
  expect(await ask(child, `try ${path}`)).toBe("flock");
  expect(tryFileLock(path)).toBeNull();
  expect(probeFileLock(path)).toBe("held");
});

test("processes that unlink the file while they hold it never hold it two at a time", async () => {
  const path = lockPath();
  const processes = await Promise.all([locker(), locker(), locker({ ffi: false })]);
  for (const answer of await Promise.all(processes.map((child) => ask(child, `churn ${path}`)))) {
    expect(answer).toBe("churned");
  }
});

test("a program that the holder started does not keep the lock after it", async () => {
  const path = lockPath();
  const child = await locker();
  expect(await ask(child, `try ${path}`)).toBe("flock");
  const sleeper = Number(await ask(child, "sleeper"));
  child.process.kill("SIGKILL");
  await child.exit;
  take(path).release();
  process.kill(sleeper, "SIGKILL");
});

test("a probe that never stops does not make one attempt fail", async () => {
  const path = lockPath();
  take(path).release();
  const child = await locker();
  expect(await ask(child, `probe-forever ${path}`)).toBe("probing");
  for (let i = 0; i < 5000; i++) take(path).release();
});

describe("waiting for a lock", () => {
  test("wakes within milliseconds of its release by another process", async () => {
    const path = lockPath();
    const child = await locker();
    const waits: number[] = [];
    for (let i = 0; i < 20; i++) {
      const lock = take(path);
      expect(await ask(child, `acquire ${path}`)).toBe("waiting");
      const released = performance.now();
      lock.release();
      expect(await child.line()).toBe("flock");
      waits.push(performance.now() - released);
      expect(await ask(child, "release")).toBe("released");
    }
    waits.sort((a, b) => a - b);
    expect(waits[10]).toBeLessThan(25);
  });

  test("gives null when its time is up", async () => {
    const path = lockPath();
    const lock = take(path);
    const start = performance.now();
    expect(await acquireFileLock(path, { maxWaitMs: 20 })).toBeNull();
    expect(performance.now() - start).toBeGreaterThanOrEqual(19);
    lock.release();
    (await acquireFileLock(path, { maxWaitMs: 0 }))!.release();
  });

  test("ends at once on abort, with the signal's reason and no descriptor left", async () => {
    const path = lockPath();
    const lock = take(path);
    const before = openFiles();
    const controller = new AbortController();
    const reason = new Error("enough");
    const waiting = acquireFileLock(path, { signal: controller.signal });
    controller.abort(reason);
    await expect(waiting).rejects.toBe(reason);
    await expect(acquireFileLock(path, { signal: controller.signal })).rejects.toBe(reason);
    expect(openFiles()).toBe(before);
    lock.release();
    await expect(acquireFileLock(path, { signal: controller.signal })).rejects.toBe(reason);
    expect(probeFileLock(path)).toBe("free");
  });
});

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { deferred } from "../../src/abort.ts";
import { withNameLock } from "../../src/lock/index.ts";
import { tempDir } from "../support/spawn.ts";
import { registerSdk } from "../support/telemetry.ts";

test("waiting for a name is a span that ends when the lock is held, and says who held it before", async () => {
  const sdk = registerSdk();
  const dir = tempDir();
  const [held, release] = [deferred<void>(), deferred<void>()];
  const first = withNameLock(dir, "name", async () => {
    held.resolve();
    await release.promise;
  });
  await held.promise;
  const waits = () => sdk.spans("tussock.lock.wait");
  expect(waits()).toHaveLength(1);
  const second = withNameLock(dir, "name", () => expect(waits()).toHaveLength(2));
  release.resolve();
  await Promise.all([first, second]);
  const [one, two] = waits().map(({ attributes }) => attributes);
  expect(one).toEqual({ "tussock.lock.path": join(dir, "name.lock"), "tussock.lock.took_over": false });
  expect(two?.["tussock.lock.holder"]).toContain(`(pid ${process.pid})`);
  expect(waits().every(({ status }) => status.code === 0)).toBe(true);
  const [point] = await sdk.points("tussock.lock.wait.duration");
  expect((point!.value as { count: number }).count).toBe(2);
  expect(point?.attributes).toEqual({ "tussock.lock.took_over": false });
});

test("a lock taken over from a dead holder says so", async () => {
  const sdk = registerSdk();
  const dir = tempDir();
  mkdirSync(dir, { recursive: true });
  const left = {
    holder: "ann@pod",
    hostname: "pod",
    pid: 7,
    acquiredAt: new Date(0).toISOString(),
    ttlMs: 1,
    nonce: "n",
  };
  writeFileSync(join(dir, "name.lock"), JSON.stringify(left));
  await withNameLock(dir, "name", () => {});
  expect(sdk.spans("tussock.lock.wait")[0]?.attributes).toMatchObject({
    "tussock.lock.took_over": true,
    "tussock.lock.holder": "ann@pod (pid 7)",
  });
});

test("a wait that ended without the lock is a failed span; what fn throws is not the wait's failure", async () => {
  const sdk = registerSdk();
  const dir = tempDir();
  await withNameLock(dir, "name", async () => {
    await expect(withNameLock(dir, "name", () => {}, { maxWaitMs: 5 })).rejects.toThrow();
  });
  await expect(withNameLock(dir, "name", () => Promise.reject(new Error("of fn")))).rejects.toThrow("of fn");
  const types = sdk.spans("tussock.lock.wait").map(({ attributes }) => attributes["error.type"]);
  expect(types).toEqual([undefined, "NAME_LOCK_TIMEOUT", undefined]);
});

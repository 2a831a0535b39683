/** What the users of an environment rely on when they follow its rules, on this runtime and this lmdb. */
import { once } from "node:events";
import { mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import fc from "fast-check";
import { expect, test } from "vitest";
import { IndexUnavailableError } from "../../src/errors.ts";
import { type OwnedEnvironment, openOwnedEnvironment, openSharedInWorker } from "../../src/lmdb/index.ts";
import { isLong, tempDir } from "../support/spawn.ts";

const open = (dir = tempDir()): Promise<OwnedEnvironment> => openOwnedEnvironment({ dir, identity: { schema: 1 } });
const sizeOf = ({ path }: OwnedEnvironment): number => statSync(join(path, "data.mdb")).size;

test("a worker of this process writes in bulk while the main thread reads whole states, never half of one", async () => {
  const dir = tempDir();
  const environment = await open(dir);
  const db = environment.root.openDB<string, number>({ name: "bulk", keyEncoding: "uint32", encoding: "string" });
  const worker = new Worker(new URL("./shared.child.ts", import.meta.url), { workerData: environment.path });
  const answer = async (): Promise<unknown> => (await once(worker, "message"))[0];
  expect(await answer()).toBe("ready");
  const count = 5000;
  for (let round = 0; round < 5; round++) {
    let done = false;
    worker.postMessage({ round, count });
    const answered = answer().then(() => {
      done = true;
    });
    while (!done) {
      environment.root.resetReadTxn();
      const rounds = new Set(Array.from({ length: 20 }, (_, i) => db.get(i * 250)?.split(":")[0]));
      expect(rounds.size).toBe(1);
      expect([String(round), String(round - 1), undefined]).toContain([...rounds][0]);
      await setImmediate();
    }
    await answered;
    environment.root.resetReadTxn();
    for (let i = 0; i < count; i += 7) expect(db.get(i)).toBe(`${round}:${i}:${"x".repeat(200)}`);
    // And the main thread may write in between.
    db.transactionSync(() => {
      db.put(count + round, "main");
    });
  }
  worker.postMessage("close");
  expect(await answer()).toBe("close");
  await worker.terminate();
  await environment.close();

  const again = await open(dir);
  expect(again.freshReason).toBeNull();
  const entries = again.root.openDB<string, number>({ name: "bulk", keyEncoding: "uint32", encoding: "string" });
  expect(entries.getCount()).toBe(count + 5);
  await again.close();
});

test("a worker does not make an environment where its owner has none", async () => {
  const dir = tempDir();
  mkdirSync(join(dir, "0"));
  await expect(openSharedInWorker(join(dir, "0"))).rejects.toBeInstanceOf(IndexUnavailableError);
});

test("a fault in the middle of a write of many keys leaves nothing of it, whatever came before", async () => {
  const environment = await open();
  const db = environment.root.openDB<string, string>({ name: "model", encoding: "string" });
  const fault = new Error("fault");
  const key = fc.constantFrom("a", "b", "c", "d");
  const step = fc.oneof(
    fc.record({ put: key, value: fc.string({ maxLength: 3000 }) }),
    fc.record({ remove: key }),
    fc.constant("throw" as const),
  );
  const model = new Map<string, string>();
  fc.assert(
    fc.property(fc.array(step, { maxLength: 8 }), (steps) => {
      const draft = new Map(model);
      let failed = false;
      try {
        db.transactionSync(() => {
          for (const each of steps) {
            if (each === "throw") throw fault;
            if ("put" in each) {
              db.put(each.put, each.value);
              draft.set(each.put, each.value);
            } else {
              db.remove(each.remove);
              draft.delete(each.remove);
            }
          }
        });
      } catch (error) {
        if (error !== fault) throw error;
        failed = true;
      }
      expect(failed).toBe(steps.includes("throw"));
      if (!failed) {
        model.clear();
        for (const [name, value] of draft) model.set(name, value);
      }
      // In the same turn: what has just been committed is seen, what was rolled back is not.
      expect(new Map([...db.getRange()].map(({ key: name, value }) => [name, value]))).toEqual(model);
    }),
    { numRuns: isLong ? 2000 : 100 },
  );
  await environment.close();
});

test("20 rebuilds, and 10,000 updates under a paused scan, keep the file within a factor", async () => {
  const environment = await open();
  const db = environment.root.openDB<string, number>({ name: "entries", keyEncoding: "uint32", encoding: "string" });
  const count = 2000;
  const build = (): void =>
    db.transactionSync(() => {
      for (const { key } of db.getRange({ values: false } as object)) db.remove(key);
      for (let i = 0; i < count; i++) db.put(i, `built ${"x".repeat(200)}`);
    }) as undefined;
  build();
  const once = sizeOf(environment);
  for (let round = 0; round < 20; round++) build();
  expect(sizeOf(environment)).toBeLessThan(4 * once);

  const scan = db.getRange({ snapshot: false })[Symbol.iterator]();
  const seen: number[] = [];
  for (let i = 0; i < 10_000; i += 25) {
    if (i % 1000 === 0) seen.push((scan.next().value as { key: number }).key);
    db.transactionSync(() => {
      for (let j = i; j < i + 25; j++) db.put((j * 7919) % count, `updated ${j} ${"x".repeat(200)}`);
    });
    if (i % 250 === 0) await setImmediate();
  }
  for (let next = scan.next(); !next.done; next = scan.next()) seen.push((next.value as { key: number }).key);
  expect(seen).toEqual(Array.from({ length: count }, (_, i) => i));
  expect(sizeOf(environment)).toBeLessThan(5 * once);
  await environment.close();
});

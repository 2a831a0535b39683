import { mkdtempSync, rmSync } from "node:fs";
import { readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { Bucket } from "../../examples/extension-datastore/bucket.ts";
import { BucketControlPlane } from "../../examples/extension-datastore/control-plane.ts";
import { BucketLock, LeaseLostError } from "../../examples/extension-datastore/lease.ts";
import { BucketSync } from "../../examples/extension-datastore/sync.ts";
import { WORKER_TYPE, workerCodec } from "../../examples/support/definitions.ts";
import { deferred } from "../../src/abort.ts";
import { noticeChanges } from "../../src/index.ts";
import { openSwampRepository } from "../../src/swamp/index.ts";
import { controlPlaneConformance } from "../conformance/index.ts";
import { runChild, tempDir } from "../support/spawn.ts";

const EXAMPLE = new URL("../../examples/extension-datastore.ts", import.meta.url);

test("the extension datastore runs, and what one machine has created the other finds", async () => {
  const temp = tempDir();
  expect(await runChild(EXAMPLE, [], { env: { TMPDIR: temp } })).toEqual([
    "machine one created one/.swamp/auto-definitions/swamp/worker/fleet-a-1.yaml",
    "machine other found other/.swamp/auto-definitions/swamp/worker/fleet-a-1.yaml",
    "claimed by one: true",
    "claimed by the other: false",
  ]);
  expect(await readdir(temp)).toEqual([]);
});

describe("its control-plane records", () => {
  const cases = controlPlaneConformance(async () => {
    const dir = mkdtempSync(join(tmpdir(), "tussock-bucket-"));
    return {
      open: async () => new BucketControlPlane(new Bucket(dir)),
      remove: async () => rmSync(dir, { recursive: true }),
    };
  });
  for (const { name, run } of cases) test(name, run);
});

describe("its sync service", () => {
  async function machine(bucketDir: string, watch = true) {
    const dir = tempDir();
    const service = new BucketSync(new Bucket(bucketDir), dir);
    const repository = await openSwampRepository({
      repoDir: dir,
      codec: workerCodec,
      watch,
      onWillWrite: service.markPaths,
    });
    onTestFinished(() => repository.close());
    const sync = noticeChanges(service, repository.index, { changedPaths: (paths) => paths });
    return { dir, sync, definitions: repository.autoDefinitions };
  }

  test.each([true, false])("brings what others created, changed and deleted (watched: %s)", async (watch) => {
    const bucket = tempDir();
    const [one, other] = [await machine(bucket), await machine(bucket, watch)];
    const find = () => other.definitions.findByName(WORKER_TYPE, "w");
    expect(await find()).toBeNull();
    await one.definitions.save(WORKER_TYPE, { id: "1", name: "w" });
    expect(await one.sync.pushChanged()).toBe(1);
    expect(await find()).toBeNull();
    expect(await other.sync.pullChanged()).toHaveLength(1);
    expect(await find()).toEqual({ id: "1", name: "w" });

    await one.definitions.save(WORKER_TYPE, { id: "1", name: "renamed" });
    await one.sync.pushChanged();
    await other.sync.pullChanged();
    expect(await find()).toBeNull();
    expect(await other.definitions.findByName(WORKER_TYPE, "renamed")).toEqual({ id: "1", name: "renamed" });

    await one.definitions.delete(WORKER_TYPE, "1");
    await one.sync.pushChanged();
    await other.sync.pullChanged();
    expect(await other.definitions.findById(WORKER_TYPE, "1")).toBeNull();
    expect(await other.sync.pullChanged()).toEqual([]);
    expect(await one.sync.pushChanged()).toBe(0);
  });

  test("pushes what was marked dirty and nothing else, and never takes it back by a pull", async () => {
    const bucket = tempDir();
    const [one, other] = [await machine(bucket), await machine(bucket)];
    await writeFile(join(one.dir, "stray.txt"), "not marked");
    await one.definitions.save(WORKER_TYPE, { id: "1", name: "mine" });
    await other.definitions.save(WORKER_TYPE, { id: "2", name: "mine" });
    await one.sync.pushChanged();
    expect(await other.sync.pullChanged()).toEqual([]);
    expect(await other.definitions.findByName(WORKER_TYPE, "mine")).toEqual({ id: "2", name: "mine" });
    expect((await new Bucket(bucket).list("files/")).map(({ key }) => key)).toEqual([
      "files/.swamp/auto-definitions/swamp/worker/mine.yaml",
    ]);
  });

  test("keeps dirty what it could not push", async () => {
    const bucket = tempDir();
    const one = await machine(bucket);
    await one.definitions.save(WORKER_TYPE, { id: "1", name: "w" });
    await expect(one.sync.pushChanged({ signal: AbortSignal.abort(new Error("enough")) })).rejects.toThrow("enough");
    expect(await one.sync.pushChanged()).toBe(1);
  });
});

describe("its lock", () => {
  const lock = (dir: string) => new BucketLock(new Bucket(dir), "datastore");

  test("has one holder at a time, and is given back", async () => {
    const dir = tempDir();
    let inside = 0;
    const enter = () =>
      lock(dir).withLock(
        async () => {
          expect(++inside).toBe(1);
          await new Promise((resolve) => setImmediate(resolve));
          inside--;
        },
        { ttlMs: 5_000 },
      );
    await Promise.all([enter(), enter(), enter()]);
    expect(await lock(dir).inspect()).toBeNull();
  });

  test("is renewed for as long as the work takes, and refused to others", async () => {
    const dir = tempDir();
    const waiting = new AbortController();
    const reason = new Error("tired of waiting");
    const work = lock(dir).withLock(
      async (lease) => {
        const first = await lock(dir).inspect();
        const other = lock(dir).withLock(async () => "taken", { ttlMs: 5_000, signal: waiting.signal });
        for (let info = first; (info?.renewed ?? 0) < 4; ) {
          info = await lock(dir).inspect();
          expect(info?.nonce).toBe(first?.nonce);
        }
        lease.verify();
        waiting.abort(reason);
        await expect(other).rejects.toMatchObject({ name: "AbortError" });
      },
      { ttlMs: 1_500 },
    );
    await work;
  });

  test("goes to another when its holder has died, which may write no more", async () => {
    const dir = tempDir();
    const bucket = new Bucket(dir);
    const taken = deferred<void>();
    const dead = lock(dir).withLock(
      async (lease) => {
        // What a process that stands still does not notice: its renewals do not reach the bucket.
        bucket.put = async () => null;
        const start = performance.now();
        while (performance.now() - start < 350);
        expect(() => lease.verify()).toThrow(LeaseLostError);
        expect(lease.signal.aborted).toBe(true);
        await taken.promise;
      },
      { ttlMs: 300 },
    );
    await lock(dir).withLock(async () => taken.resolve(), { ttlMs: 300 });
    await dead;
  });

  test("is released by force only from the holder that was seen", async () => {
    const dir = tempDir();
    await lock(dir).withLock(
      async (lease) => {
        const info = await lock(dir).inspect();
        expect(await lock(dir).forceRelease("another")).toBe(false);
        expect(await lock(dir).forceRelease(info?.nonce ?? "")).toBe(true);
        await lock(dir).withLock(async () => {});
        await new Promise((resolve) => lease.signal.addEventListener("abort", resolve, { once: true }));
        expect(lease.signal.reason).toBeInstanceOf(LeaseLostError);
      },
      { ttlMs: 300 },
    );
    await rm(dir, { recursive: true });
  });
});

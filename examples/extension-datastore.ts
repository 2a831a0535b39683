/**
 * An extension datastore: `node examples/extension-datastore.ts`. Two machines, each with its own copy of a repository's
 * definitions, share a bucket (a directory plays it). Each pulls, creates and pushes under the bucket's lock; what one has
 * created, the other's index finds as soon as it was pulled.
 *
 * The parts that an author writes are in `extension-datastore/`: the sync service, the control-plane records, and the lock
 * as a lease. What the library does with them is here.
 */
import { join } from "node:path";
import { noticeChanges } from "../src/index.ts";
import { openSwampRepository } from "../src/swamp/index.ts";
import { Bucket } from "./extension-datastore/bucket.ts";
import { BucketLock } from "./extension-datastore/lease.ts";
import { BucketSync } from "./extension-datastore/sync.ts";
import { WORKER_TYPE, workerCodec } from "./support/definitions.ts";
import { runIn } from "./support/program.ts";

await runIn("tussock-extension-", async (base, signal) => {
  const bucketDir = join(base, "bucket");
  await using one = await openMachine(join(base, "one"), bucketDir);
  await using other = await openMachine(join(base, "other"), bucketDir);

  for (const [name, machine] of Object.entries({ one, other })) {
    const { created, path } = await machine.enrol("fleet-a-1", signal);
    console.log(`machine ${name} ${created ? "created" : "found"} ${path.slice(base.length + 1)}`);
  }
  console.log("claimed by one:", await one.controlPlane.putIfAbsent("claims/boot", new Uint8Array(), { signal }));
  console.log(
    "claimed by the other:",
    await other.controlPlane.putIfAbsent("claims/boot", new Uint8Array(), { signal }),
  );
  return 0;
});

async function openMachine(repoDir: string, bucketDir: string) {
  const bucket = new Bucket(bucketDir);
  const service = new BucketSync(bucket, repoDir);
  const { index, autoDefinitions, close } = await openSwampRepository({
    repoDir,
    codec: workerCodec,
    onWillWrite: service.markPaths,
    // Marked again after the write: a push may have come in between.
    onChange: ({ path }) => service.markPaths([path]),
  });
  // After each pull the index knows what it has brought, also where the kernel does not tell.
  const sync = noticeChanges(service, index, { changedPaths: (paths) => paths });
  const lock = new BucketLock(bucket, "datastore");
  const controlPlane = sync.controlPlaneStore();

  const enrol = (worker: string, signal: AbortSignal) =>
    lock.withLock(
      async (lease) => {
        await sync.pullChanged({ signal: lease.signal });
        const create = () => ({ id: autoDefinitions.nextId(), name: worker });
        const resolved = await autoDefinitions.resolveOrCreate(WORKER_TYPE, worker, create, { signal: lease.signal });
        lease.verify();
        await sync.pushChanged({ signal: lease.signal });
        return resolved;
      },
      { signal },
    );
  return {
    enrol,
    controlPlane,
    async [Symbol.asyncDispose]() {
      await controlPlane.close();
      await close();
    },
  };
}

/**
 * Copied into the project of a user, beside the installed package: does the main jobs through the built files of one format,
 * and prints what is not as it should be. The workers must have come up, since everything works without them too.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Worker } from "node:worker_threads";
import type * as Definitions from "../src/definitions/index.ts";
import type * as Scan from "../src/scan/index.ts";
import type * as State from "../src/state/index.ts";

/** Enough for a scan to start its workers. */
const FILES = 6_000;

const [format] = process.argv.slice(2);
const require = createRequire(import.meta.url);
const load = async <T>(specifier: string): Promise<T> =>
  format === "require" ? (require(specifier) as T) : ((await import(specifier)) as T);

const problems: string[] = [];
const expectEqual = (what: string, actual: unknown, expected: unknown): void => {
  if (actual !== expected) problems.push(`${what}: expected ${expected}, got ${actual}`);
};

let online = 0;
process.on("worker", (worker: Worker) => {
  worker.once("online", () => online++);
  worker.once("error", (error) => problems.push(`a worker failed: ${error.stack}`));
});
async function expectWorkers(what: string, job: () => Promise<void>): Promise<void> {
  const before = online;
  await job();
  if (online === before) problems.push(`${what} ran without its worker`);
}

const dir = mkdtempSync(join(tmpdir(), "tussock-use-"));
try {
  const models = join(dir, "models", "worker");
  mkdirSync(models, { recursive: true });
  for (let n = 0; n < FILES; n++)
    writeFileSync(join(models, `name-${n}.yaml`), `id: id-${n}\nname: name-${n}\ntype: worker\n`);

  await expectWorkers("scan", async () => {
    const { scan } = await load<typeof Scan>("tussock/scan");
    let found = 0;
    for await (const result of scan(join(dir, "models"))) if (result.ok) found++;
    expectEqual("files found by a scan", found, FILES);
  });

  await expectWorkers("the definition index", async () => {
    const { openDefinitionIndex } = await load<typeof Definitions>("tussock/definitions");
    const roots = [{ name: "models", dir: join(dir, "models") }];
    const index = await openDefinitionIndex({ roots, indexDir: join(dir, "index") });
    expectEqual("a name that exists", (await index.findByName("worker", "name-7"))?.id, "id-7");
    expectEqual("a name that does not", await index.findByName("worker", "nobody"), null);
    await index.close();
  });

  await expectWorkers("the state index", async () => {
    const { openLeaseIndex } = await load<typeof State>("tussock/state");
    const leases = await openLeaseIndex({ dir: join(dir, "state") });
    await leases.insert({ id: "lease-1", data: { workerName: "name-7" } });
    await leases.transition("lease-1", "completed");
    const found = [];
    for await (const lease of leases.by("worker", "name-7")) found.push(`${lease.id} ${lease.state}`);
    expectEqual("a worker's leases", found.join(), "lease-1 completed");
    await leases.close();
  });
} finally {
  rmSync(dir, { recursive: true, force: true });
}
console.log(JSON.stringify(problems));

/**
 * Report 1955, reproduced and gone: `node examples/demo-boot.ts [--n 10115]`.
 *
 * Generates the report's artifacts (of N leases, 19 still active), imports them once, and boots twice: the server is
 * ready at once, and sweeps in the background while new leases are acquired. Then the same artifacts are booted from
 * in the report's way, in the same run. Ctrl-C stops at once and leaves nothing behind; a promise that is not kept
 * ends it with an error.
 */
import { strict as assert } from "node:assert";
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { type Fleet, REPORTED, writeFleet } from "./support/artifacts.ts";
import { type Imported, importArtifacts, openServer, type Server, type Swept, sweepStale } from "./support/boot.ts";
import { type LinearBoot, linearBoot } from "./support/linear-boot.ts";
import { showProgress } from "./support/progress.ts";
import { Timings, table, time, times } from "./support/table.ts";

const WORKERS = 36;

interface Boot extends Imported {
  readyMs: number;
  importMs: number;
  sweepMs: number;
  swept: Swept;
  /** How long it took to acquire a lease, from when the server was ready until its sweep had ended. */
  acquiring: Timings;
}

const { values } = parseArgs({ options: { n: { type: "string", default: String(REPORTED.leases) } } });
const n = Number(values.n);
if (!Number.isInteger(n) || n < REPORTED.active)
  throw new Error(`--n takes a number of leases, ${REPORTED.active} or more`);
const interrupted = new AbortController();
process.once("SIGINT", () => interrupted.abort(new Error("interrupted")));
const { signal } = interrupted;

const root = mkdtempSync(join(tmpdir(), "tussock-boot-"));
const dataDir = join(root, "data");
const stateDir = join(root, "state");
try {
  const fleet = await generate();
  const importMs = await importOnce(fleet);
  const first = await boot(fleet.activeIds);
  const second = await boot([]);
  check(fleet, first, second);
  const linear = await bootLinearly(fleet);
  print(fleet, importMs, first, second, linear);
} finally {
  rmSync(root, { recursive: true, force: true });
}

async function generate(): Promise<Fleet> {
  const progress = showProgress("generating leases");
  try {
    return await writeFleet(dataDir, { ...REPORTED, leases: n }, { signal, onProgress: progress.update });
  } finally {
    progress.stop();
  }
}

/** What a server does when it meets the artifacts for the first time, in the background as well. */
async function importOnce(fleet: Fleet): Promise<number> {
  await using server = await openServer(stateDir, signal);
  const start = performance.now();
  const { changed, problems } = await importArtifacts(server, dataDir, signal);
  const took = performance.now() - start;
  assert.equal(changed, fleet.leases + REPORTED.pending + REPORTED.workers, "every artifact is a record now");
  assert.equal(problems, 0);
  console.log(`imported ${count(changed)} records in ${time(took)}`);
  return took;
}

async function boot(stale: readonly string[]): Promise<Boot> {
  const start = performance.now();
  await using server = await openServer(stateDir, signal);
  const readyMs = performance.now() - start;

  const working = acquireLeases(server);
  const imported = await importArtifacts(server, dataDir, signal);
  const importedAt = performance.now();
  const swept = await sweepStale(server, signal);
  const sweepMs = performance.now() - importedAt;
  const { acquired, acquiring } = await working.stop();

  for (const id of acquired) assert.equal((await server.leases.get(id))?.state, "active", "no new lease was touched");
  for (const id of stale) {
    const lease = await server.leases.get(id);
    assert.equal(lease?.state, "expired", "each lease that was swept is readable");
    assert.equal(lease.data["error"], "orchestrator restart");
  }
  assert.equal(await server.leases.count("active"), acquired.length);
  await Promise.all(acquired.map((id) => server.leases.transition(id, "completed")));
  assert.deepEqual((await server.leases.verify()).problems, []);
  return { readyMs, importMs: importedAt - start - readyMs, sweepMs, swept, acquiring, ...imported };
}

/** Workers that acquire leases until they are told to stop. */
function acquireLeases(server: Server): { stop(): Promise<{ acquired: string[]; acquiring: Timings }> } {
  const acquired: string[] = [];
  const acquiring = new Timings();
  let stopped = false;
  const workers = Array.from({ length: WORKERS }, async (_, worker) => {
    do {
      const id = randomUUID();
      await acquiring.measure(() => server.leases.insert({ id, data: { workerName: `fleet-a-${worker}` } }));
      acquired.push(id);
      await new Promise((resolve) => setTimeout(resolve, 5));
    } while (!stopped);
  });
  return {
    async stop() {
      stopped = true;
      await Promise.all(workers);
      return { acquired, acquiring };
    },
  };
}

function check(fleet: Fleet, first: Boot, second: Boot): void {
  assert.equal(first.swept.leases, fleet.activeIds.length, "every lease that was left over has ended");
  assert.ok(first.swept.commits <= 2, `in one commit or two, not ${first.swept.commits}`);
  assert.deepEqual([first.swept.pending, first.swept.workers], [0, 1]);
  for (const { artifactsRead, changed } of [first, second]) {
    assert.deepEqual([artifactsRead, changed], [0, 0], "what has been imported is not read again");
  }
  assert.deepEqual(second.swept, { leases: 0, pending: 0, workers: 0, commits: 0 }, "nothing is left to be done");
}

async function bootLinearly(fleet: Fleet): Promise<LinearBoot> {
  const progress = showProgress("the report's way: expiring leases");
  try {
    const linear = await linearBoot(dataDir, { signal, onProgress: progress.update });
    assert.deepEqual([linear.artifactsRead, linear.expired], [fleet.leases, fleet.activeIds.length]);
    return linear;
  } finally {
    progress.stop();
  }
}

function print(fleet: Fleet, importMs: number, first: Boot, second: Boot, linear: LinearBoot): void {
  const linearMs = linear.readMs + linear.sweepMs;
  const ours = [first, second] as const;
  const figures = (of: (boot: Boot) => string): string[] => ours.map(of);
  const rows = [
    ["until it is ready", time(linearMs), ...figures((b) => time(b.readyMs))],
    ["artifacts read", count(linear.artifactsRead), ...figures((b) => count(b.artifactsRead))],
    ["finding what is new in the artifacts", time(linear.readMs), ...figures((b) => `${time(b.importMs)} *`)],
    ["leases expired", count(linear.expired), ...figures((b) => count(b.swept.leases))],
    ["expiring them", time(linear.sweepMs), ...figures((b) => `${time(b.sweepMs)} *`)],
    ["in commits", count(linear.expired), ...figures((b) => count(b.swept.commits))],
    ["leases acquired meanwhile", "0", ...figures((b) => count(b.acquiring.count))],
    ["acquiring one, median", "—", ...figures((b) => time(b.acquiring.median))],
    ["acquiring one, worst", "—", ...figures((b) => time(b.acquiring.worst))],
  ];
  console.log(`
${count(fleet.leases)} leases in ${count(fleet.versions)} versions, ${fleet.activeIds.length} of them active
${table(["", "report 1955", "first boot", "second boot"], rows)}
* in the background, after it is ready; artifacts are imported once, here in ${time(importMs)}

ready ${times(linearMs / Math.max(first.readyMs, second.readyMs))} sooner`);
}

function count(n: number): string {
  return n.toLocaleString("en-US");
}

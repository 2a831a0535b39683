/** Uses one room, and prints what became of it as JSON. Run by Deno with some of its permissions. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [, , room, dir] = process.argv as [string, string, string, string];
const models = join(dir, "models");

const uses: Record<string, () => Promise<unknown>> = {
  prepare: async () => {
    mkdirSync(join(models, "t"), { recursive: true });
    writeFileSync(join(models, "t", "a.yaml"), "id: i1\nname: a\nx: &y {z: 1}\n");
  },
  scan: async () => {
    const { scan } = await import("../../src/scan/index.ts");
    const found: unknown[] = [];
    for await (const each of scan(models)) found.push(each.ok ? each.entry.name : each.problem.message);
    return found;
  },
  artifacts: async () => {
    const item = join(dir, "data", "swamp", "worker", "m", "state-main");
    mkdirSync(join(item, "1"), { recursive: true });
    writeFileSync(join(item, "latest"), "1");
    writeFileSync(join(item, "1", "raw"), "{}");
    writeFileSync(join(item, "1", "metadata.yaml"), "id: i1\nname: state-main\nx: &y {z: 1}\n");
    const { scanArtifacts } = await import("../../src/swamp/index.ts");
    const kinds: string[] = [];
    for await (const { kind } of scanArtifacts(join(dir, "data"), "swamp/worker")) kinds.push(kind);
    return kinds;
  },
  definitions: async () => {
    const { openDefinitionIndex } = await import("../../src/definitions/index.ts");
    await using index = await openDefinitionIndex({
      roots: [{ name: "m", dir: models }],
      indexDir: join(dir, "index"),
    });
    const name = (await index.findByName("t", "a"))?.name;
    await index.refresh();
    const { freshness, reason } = await index.stats();
    return { name, freshness, reason };
  },
  state: async () => {
    const { openLeaseIndex } = await import("../../src/state/index.ts");
    await using leases = await openLeaseIndex({ dir: join(dir, "state") });
    await leases.put({ id: "l", state: "active", data: {} });
    return leases.count("active");
  },
  postgres: async () => {
    const { openLeaseIndex } = await import("../../src/state/index.ts");
    await using leases = await openLeaseIndex({ postgres: "postgres://u@127.0.0.1:1/d", writeDeadlineMs: 1_000 });
    return leases.count("active");
  },
  lock: async () => {
    const { tryFileLock, withNameLock } = await import("../../src/lock/index.ts");
    const lock = tryFileLock(join(dir, "a.lock"));
    lock?.release();
    return [lock?.mechanism, await withNameLock(join(dir, "names"), "n", () => "held")];
  },
  liveness: async () => {
    const { announceInstance, currentProcessIdentity, livenessOf } = await import("../../src/liveness/index.ts");
    await using announcement = await announceInstance(join(dir, "instances"));
    return [announcement.path !== "", livenessOf(currentProcessIdentity())];
  },
};

try {
  console.log(JSON.stringify({ gives: (await uses[room]?.()) ?? null }));
} catch (error) {
  const { name, code, message } = error as { name: string; code?: string; message: string };
  console.log(JSON.stringify({ name, code, message }));
}
process.exit();

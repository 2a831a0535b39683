import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { stepLeaseLifecycle } from "../../src/state/lifecycle.ts";
import { openStateIndex } from "../../src/state/open.ts";
import { tempDir } from "../support/spawn.ts";
import { withoutWorkers } from "../support/workers.ts";

/** A file system of its own of so many bytes; null, and why, where that is not allowed. */
function mountSmall(bytes: number): string {
  const dir = join(tempDir(), "small");
  mkdirSync(dir);
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${bytes}`, "tmpfs", dir], { stdio: "pipe" });
  onTestFinished(() => {
    execFileSync("umount", ["--lazy", dir]);
  });
  return dir;
}

const refusal = (() => {
  const dir = join("/tmp", `tussock-mount-${process.pid}`);
  try {
    mkdirSync(dir);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=65536", "tmpfs", dir], { stdio: "pipe" });
    execFileSync("umount", [dir]);
    return null;
  } catch (error) {
    return String((error as { stderr?: Buffer }).stderr ?? error).trim();
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
})();

const SIZE = 3 * 1_048_576;
const open = (dir: string) =>
  openStateIndex<{ text: string }, "active" | "completed" | "failed" | "expired">({
    name: "lease",
    lifecycle: stepLeaseLifecycle,
    dir,
    retention: false,
  });

for (const where of ["on the writer's thread", "inline"]) {
  const name = `on a full disk a write fails by its type, nothing acknowledged is lost, and the store goes on when there is space again, ${where}`;
  test.skipIf(refusal !== null)(refusal === null ? name : `${name} (skipped: ${refusal})`, async () => {
    if (where === "inline") withoutWorkers();
    const dir = mountSmall(SIZE);
    const index = await open(dir);
    const acknowledged = new Set<string>();
    let refused = 0;
    const text = "x".repeat(2_000);
    const insertMany = async (from: number) => {
      const ids = Array.from({ length: 36 }, (_, n) => `${from}-${n}`);
      for (const outcome of await Promise.allSettled(ids.map((id) => index.insert({ id, data: { text } })))) {
        if (outcome.status === "fulfilled") acknowledged.add(outcome.value.id);
        else {
          expect(outcome.reason).toMatchObject({ code: "STORAGE_FULL" });
          refused++;
        }
      }
    };
    // Somebody else takes the rest of the disk in the middle of it.
    for (let n = 0; n < 5; n++) await insertMany(n);
    const ballast = join(dir, "ballast");
    const { bavail, bsize } = statfsSync(dir);
    writeFileSync(ballast, Buffer.alloc(bavail * bsize - 65_536));
    for (let n = 5; refused < 100; n++) await insertMany(n);
    for (const id of acknowledged) expect((await index.get(id))?.id).toBe(id);
    expect(await index.count()).toBe(acknowledged.size);
    await expect(index.sweep({ from: "active", to: "expired" })).rejects.toMatchObject({ code: "STORAGE_FULL" });
    rmSync(ballast);
    await insertMany(10_000);
    const [first = ""] = acknowledged;
    expect((await index.transition(first, "completed")).state).toBe("completed");
    expect(await index.count()).toBe(acknowledged.size);
    expect(await index.verify()).toEqual({ ok: true, records: acknowledged.size, problems: [] });
    await index.close();
    const again = await open(dir);
    expect(await again.count()).toBe(acknowledged.size);
    await again.close();
  });
}

test.skipIf(refusal !== null)("a store cannot be made on a full disk, and nothing half-made is left", async () => {
  const dir = mountSmall(524_288);
  writeFileSync(join(dir, "ballast"), Buffer.alloc(statfsSync(dir).bavail * statfsSync(dir).bsize));
  await expect(open(join(dir, "state"))).rejects.toMatchObject({ code: "STORAGE_FULL" });
  expect(existsSync(join(dir, "state")) ? readdirSync(join(dir, "state")) : []).toEqual([]);
  rmSync(join(dir, "ballast"));
  await (await open(join(dir, "state"))).close();
});

import { existsSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { writeFleet } from "../../examples/support/artifacts.ts";
import { type LeaseIndex, openLeaseIndex, type StateMirror, type StepLease } from "../../src/state/index.ts";
import {
  type ArtifactProgress,
  artifactMirror,
  leasesFromArtifacts,
  scanArtifacts,
  stepLeaseArtifacts,
} from "../../src/swamp/index.ts";
import { collect } from "../support/collect.ts";
import { copyFixture, expectedOf } from "../support/fixtures.ts";
import { spawnChild, tempDir } from "../support/spawn.ts";

type Mirror = StateMirror<StepLease, "active" | "completed" | "failed" | "expired">;

function mirrorTo(dataDir: string): Mirror {
  return artifactMirror(dataDir, { kind: stepLeaseArtifacts, modelId: "m1", modelName: "leases" });
}

async function open(dir: string, mirror?: Mirror): Promise<LeaseIndex> {
  const leases = await openLeaseIndex({ dir, retention: false, ...(mirror === undefined ? {} : { mirror }) });
  onTestFinished(() => leases.close());
  return leases;
}

async function importInto(leases: LeaseIndex, dataDir: string) {
  let progress: ArtifactProgress = { total: 0, examined: 0, read: 0 };
  const report = await leases.import("artifacts", (since) =>
    leasesFromArtifacts(dataDir, { since, live: leases.byState("active"), onProgress: (p) => (progress = p) }),
  );
  return { ...report, read: progress.read };
}

async function delivered(leases: LeaseIndex): Promise<void> {
  while ((await leases.stats()).mirror.pending > 0) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** The state of every lease, as the artifacts tell it. */
async function statesOf(dataDir: string): Promise<Record<string, string>> {
  const items = await collect(leasesFromArtifacts(dataDir));
  return Object.fromEntries(items.flatMap((item) => ("id" in item ? [[item.id, item.state]] : [])));
}

async function statesIn(leases: LeaseIndex): Promise<Record<string, string>> {
  const records = await collect(leases.byState(["active", "completed", "failed", "expired"]));
  return Object.fromEntries(records.map(({ id, state }) => [id, state]));
}

describe("a lease index over swamp's artifacts", () => {
  test("holds exactly what the artifacts say, and reads none of them a second time", async () => {
    const dataDir = join(copyFixture("leases"), "data");
    const expected = expectedOf<{ stepLeases: Record<string, string[]>; problems: Record<string, string> }>("leases");
    const leases = await open(tempDir());
    const first = await importInto(leases, dataDir);
    for (const [state, ids] of Object.entries(expected.stepLeases)) {
      const records = await collect(leases.byState(state as "active"));
      expect(records.map(({ id }) => id).sort()).toEqual(ids);
      for (const record of records) expect(await leases.get(record.id)).toEqual(record);
    }
    expect(first).toMatchObject({ inserted: 13, problemCount: Object.keys(expected.problems).length });
    expect(await importInto(leases, dataDir)).toMatchObject({
      read: 0,
      examined: 0,
      inserted: 0,
      updated: 0,
      problemCount: 0,
    });
    expect((await leases.verify()).problems).toEqual([]);
  });

  test("a lease whose artifact has gone dangles: reported once, not on every boot, and no longer active", async () => {
    const dataDir = tempDir();
    const { activeIds } = await writeFleet(dataDir, { leases: 10, active: 3, pending: 0, workers: 0 });
    const leases = await open(tempDir());
    await importInto(leases, dataDir);
    const [gone = ""] = activeIds;
    rmSync(join(dataDir, (await leases.get(gone))?.origin ?? "?"), { recursive: true });
    expect(await importInto(leases, dataDir)).toMatchObject({ updated: 1, dangling: 1, read: 0 });
    expect(await leases.get(gone)).toMatchObject({ state: "dangling" });
    expect(await leases.count("active")).toBe(2);
    expect(await importInto(leases, dataDir)).toMatchObject({ updated: 0, dangling: 0, examined: 0 });
  });

  test("what the index changes, the artifacts follow where they are; the next import moves nothing back", async () => {
    const dataDir = tempDir();
    const fleet = await writeFleet(dataDir, { leases: 60, active: 19, pending: 0, workers: 0 });
    const leases = await open(tempDir(), mirrorTo(dataDir));
    await importInto(leases, dataDir);
    const beforeEpoch = await leases.beginEpoch();
    await leases.insert({ id: "new", data: { workerName: "w" } });
    const patch = { error: "orchestrator restart" };
    expect(await leases.sweep({ from: "active", to: "expired", beforeEpoch, patch })).toMatchObject({
      transitioned: 19,
    });
    await delivered(leases);

    const artifacts = await statesOf(dataDir);
    expect(artifacts).toEqual(await statesIn(leases));
    expect(fleet.activeIds.map((id) => artifacts[id])).toEqual(fleet.activeIds.map(() => "expired"));
    for await (const result of scanArtifacts(dataDir, "swamp/step-lease")) {
      if (result.kind !== "artifact") continue;
      const { modelId, name, version, content } = result.artifact;
      if (name === "lease-new") expect([modelId, version]).toEqual(["m1", 1]);
      else expect(modelId).toBe("a0000001-2222-4333-8444-000000000001");
      if (!fleet.activeIds.some((id) => name.endsWith(id))) continue;
      expect(version).toBe(3);
      expect(JSON.parse(new TextDecoder().decode(content))).toMatchObject({ state: "expired", ...patch });
    }
    // What the mirror wrote is new to the watermark, and says nothing new.
    expect(await importInto(leases, dataDir)).toMatchObject({ read: 20, inserted: 0, updated: 0 });
    expect(await importInto(leases, dataDir)).toMatchObject({ read: 0 });
    expect(await statesIn(leases)).toEqual(artifacts);
  });

  test("a mirror that fails delays no change, shows its lag, and loses nothing over a restart", async () => {
    const [dir, dataDir] = [tempDir(), tempDir()];
    const inTheWay = join(dataDir, "swamp");
    writeFileSync(inTheWay, "not a directory");
    const first = await openLeaseIndex({ dir, mirror: mirrorTo(dataDir) });
    for (let n = 0; n < 20; n++) {
      await first.insert({ id: `l${n}`, data: { workerName: "w" } });
      await first.transition(`l${n}`, n % 2 === 0 ? "completed" : "failed");
    }
    while ((await first.stats()).mirror.lastError === null) await new Promise((resolve) => setTimeout(resolve, 5));
    expect((await first.stats()).mirror).toMatchObject({
      pending: 40,
      lastError: expect.stringMatching(/ENOTDIR|EEXIST/),
    });
    await first.close();

    rmSync(inTheWay);
    const told: string[] = [];
    const mirror = mirrorTo(dataDir);
    const second = await open(dir, {
      ...mirror,
      onWillWrite: async (paths) => void told.push(`will ${paths.join()}`),
      onWritten: async ({ id, to }, receipt) => void told.push(`written ${id} ${to} ${receipt?.version}`),
    });
    await delivered(second);
    expect(await statesOf(dataDir)).toEqual(await statesIn(second));
    const item = join(dataDir, "swamp/step-lease/m1/lease-l3");
    expect(told.filter((line) => line.includes(item) || line.includes(" l3 "))).toEqual([
      `will ${item}`,
      "written l3 active 1",
      `will ${item}`,
      "written l3 failed 2",
    ]);
    expect((await second.stats()).mirror).toEqual({ pending: 0, oldestAt: null, lastError: null });
  });

  test("a server that is killed leaves no acknowledged change undelivered", async () => {
    const [dir, dataDir] = [tempDir(), tempDir()];
    let last = -1;
    for (const lines of [5, 25]) {
      const child = spawnChild(new URL("lease.child.ts", import.meta.url), [join(dir, String(lines)), dataDir]);
      for (let n = 0; n < lines; n++) last = Number(await child.line());
      child.process.kill("SIGKILL");
      for await (const line of child.lines) last = Number(line);
      await child.exit;
      const leases = await open(join(dir, String(lines)), mirrorTo(dataDir));
      await delivered(leases);
      const states = await statesOf(dataDir);
      expect(states).toEqual(await statesIn(leases));
      for (let n = 0; n <= last; n++) expect(states[`lease-${n}`]).toBe(n % 2 === 0 ? "completed" : "failed");
      renameSync(join(dataDir, "swamp"), join(dataDir, `swamp-${lines}`));
      expect(existsSync(join(dataDir, "swamp"))).toBe(false);
      await leases.close();
    }
  });
});

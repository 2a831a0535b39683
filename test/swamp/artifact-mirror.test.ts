import { createHash } from "node:crypto";
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { uuid, writeArtifact } from "../../examples/support/artifacts.ts";
import { UnsafePathError } from "../../src/errors.ts";
import type { StateRecord, StateTransition, StepLease } from "../../src/state/index.ts";
import { leasesFromArtifacts } from "../../src/swamp/artifact-import.ts";
import { readItem } from "../../src/swamp/artifact-item.ts";
import { artifactMirror } from "../../src/swamp/artifact-mirror.ts";
import { stepLeaseArtifacts } from "../../src/swamp/artifact-records.ts";
import { collect } from "../support/collect.ts";
import { spawnChild, tempDir } from "../support/spawn.ts";

type Lease = StateRecord<StepLease, "active" | "completed" | "failed" | "expired">;

const ID = uuid(0xd0000001);
const ORIGIN = `swamp/step-lease/m0/lease-${ID}`;
const ENDED = Date.parse("2026-10-22T00:00:00.000Z");

function leaseMirror(dataDir: string) {
  return artifactMirror(dataDir, { kind: stepLeaseArtifacts, modelId: "m1", modelName: "leases" });
}

function transition(
  record: Partial<Lease> = {},
): StateTransition<StepLease, "active" | "completed" | "failed" | "expired"> {
  const whole: Lease = {
    ...{
      id: ID,
      state: "active",
      since: 0,
      createdAt: 0,
      revision: 1,
      epoch: 1,
      cursor: "",
      data: { workerName: "w" },
    },
    ...record,
  };
  return { sequence: 1, id: whole.id, from: "active", to: whole.state, record: whole };
}

function imported(dataDir: string): string {
  const base = { leaseId: ID, workerName: "w", createdAt: "2026-10-21T20:14:27.000Z" };
  return writeArtifact(dataDir, {
    type: "swamp/step-lease",
    modelId: "m0",
    modelName: "old-leases",
    specName: "lease",
    name: `lease-${ID}`,
    versions: [
      { ...base, state: "active", hasWrites: false },
      { ...base, state: "active", hasWrites: true },
    ],
    createdAt: Date.parse(base.createdAt),
  });
}

describe("a change written as an artifact", () => {
  test("of an imported record is the next version where it came from, its settings kept", async () => {
    const dataDir = tempDir();
    const item = imported(dataDir);
    const [record] = await collect(leasesFromArtifacts(dataDir));
    expect(record).toMatchObject({ id: ID, origin: ORIGIN });
    const receipt = await leaseMirror(dataDir).write(
      transition({ ...(record as Lease), state: "expired", since: ENDED }),
    );
    expect(receipt).toMatchObject({ path: item, version: 3 });
    const content = readFileSync(join(item, "3", "raw"));
    expect(JSON.parse(content.toString())).toEqual({
      leaseId: ID,
      workerName: "w",
      hasWrites: true,
      createdAt: "2026-10-21T20:14:27.000Z",
      state: "expired",
      endedAt: "2026-10-22T00:00:00.000Z",
    });
    const reading = readItem(item);
    expect(reading).toMatchObject({ kind: "artifact", version: 3 });
    expect(receipt?.metadata).toEqual((reading as { metadata: { document: object } }).metadata.document);
    expect(receipt?.metadata).toMatchObject({
      name: `lease-${ID}`,
      version: 3,
      contentType: "application/json",
      tags: { type: "resource", specName: "lease", modelName: "old-leases" },
      ownerDefinition: { ownerType: "model-method", ownerRef: "m0" },
      size: content.length,
      checksum: createHash("sha256").update(content).digest("hex"),
    });
    expect(readFileSync(join(item, "3", "metadata.yaml"), "utf8")).toMatch(/^createdAt: '\d{4}-.*Z'$/m);
    const [again] = await collect(leasesFromArtifacts(dataDir));
    expect(again).toMatchObject({ id: ID, state: "expired", since: ENDED, origin: ORIGIN });
  });

  test("of a record made here makes an item under the model that is named for it", async () => {
    const dataDir = join(tempDir(), "not", "yet");
    const mirror = leaseMirror(dataDir);
    const change = transition();
    const item = join(dataDir, "swamp/step-lease/m1", `lease-${ID}`);
    expect(mirror.locate(change.record)).toBe(item);
    expect(await mirror.write(change)).toMatchObject({ path: item, version: 1 });
    expect((await collect(leasesFromArtifacts(dataDir)))[0]).toEqual({
      id: ID,
      state: "active",
      since: 0,
      createdAt: 0,
      origin: `swamp/step-lease/m1/lease-${ID}`,
      data: { leaseId: ID, workerName: "w", createdAt: "1970-01-01T00:00:00.000Z" },
    });
  });

  test("delivered twice is written once", async () => {
    const dataDir = tempDir();
    const mirror = leaseMirror(dataDir);
    const first = await mirror.write(transition());
    expect(await mirror.write(transition())).toEqual(first);
    expect(await mirror.write(transition({ state: "completed", since: ENDED }))).toMatchObject({ version: 2 });
  });

  test("replaces a marker that is a symbolic link, and writes one where there is none", async () => {
    const dataDir = tempDir();
    const item = imported(dataDir);
    const marker = join(item, "latest");
    rmSync(marker);
    symlinkSync("2", marker);
    const mirror = leaseMirror(dataDir);
    await mirror.write(transition({ origin: ORIGIN, data: { n: 1 } }));
    expect(lstatSync(marker).isFile()).toBe(true);
    expect(readFileSync(marker, "utf8")).toBe("3");
    rmSync(marker);
    await mirror.write(transition({ origin: ORIGIN, data: { n: 2 } }));
    expect(readFileSync(marker, "utf8")).toBe("4");
  });

  test("takes no version number that exists, even of a version that somebody else has only begun", async () => {
    const dataDir = tempDir();
    const item = imported(dataDir);
    mkdirSync(join(item, "3"));
    expect(await leaseMirror(dataDir).write(transition({ origin: ORIGIN, data: {} }))).toMatchObject({ version: 4 });
    const mirrors = Array.from({ length: 8 }, (_, n) =>
      leaseMirror(dataDir).write(transition({ origin: ORIGIN, data: { n } })),
    );
    const versions = (await Promise.all(mirrors)).map((receipt) => receipt?.version ?? 0);
    expect(versions.sort((a, b) => a - b)).toEqual([5, 6, 7, 8, 9, 10, 11, 12]);
    expect(readFileSync(join(item, "latest"), "utf8")).toBe("12");
  });

  test("that fails leaves neither a version nor a temporary file", async () => {
    const dataDir = tempDir();
    const item = imported(dataDir);
    rmSync(join(item, "latest"));
    mkdirSync(join(item, "latest", "in-the-way"), { recursive: true });
    await expect(leaseMirror(dataDir).write(transition({ origin: ORIGIN }))).rejects.toMatchObject({ code: /./ });
    expect(readdirSync(item).sort()).toEqual(["1", "2", "latest"]);
  });

  test("is announced before it is written, and told after; not what was just imported from there", async () => {
    const dataDir = tempDir();
    const item = imported(dataDir);
    const told: string[] = [];
    const mirror = artifactMirror(dataDir, {
      kind: stepLeaseArtifacts,
      modelId: "m1",
      modelName: "leases",
      onWillWrite: async ([path]) => void told.push(`will ${path} over ${readItem(item).kind}`),
      onWritten: async ({ to }, receipt) => void told.push(`${to} in ${receipt?.version}`),
    });
    const [lease] = (await collect(leasesFromArtifacts(dataDir))) as unknown as [Lease];
    const found: Lease = { ...transition().record, ...lease, revision: 1 };
    await mirror.write(transition(found));
    expect(told).toEqual([]);
    const ended = transition({ ...found, state: "expired", since: ENDED, revision: 2 });
    await mirror.write(ended);
    // Delivered again, after an end between the write and the note that it was made.
    await mirror.write(ended);
    expect(told).toEqual([`will ${item} over artifact`, "expired in 3", "expired in 3"]);
  });

  test("is not made of a record whose artifact is gone", async () => {
    const dataDir = tempDir();
    expect(await leaseMirror(dataDir).write(transition({ state: "dangling", origin: ORIGIN }))).toBeUndefined();
    expect(existsSync(join(dataDir, "swamp"))).toBe(false);
  });

  test("never leaves the directory of its type", () => {
    const { locate } = leaseMirror(tempDir());
    for (const record of [
      { origin: "swamp/step-lease/../../etc" },
      { origin: "swamp/worker/w1/state-main" },
      { origin: "swamp/step-lease/m0/a/b" },
      { origin: "/etc/passwd" },
      { id: "../../../x" },
      { id: "a\0b" },
    ]) {
      expect(() => locate(transition(record).record), JSON.stringify(record)).toThrow(UnsafePathError);
    }
  });
});

describe("a reader beside the mirror", () => {
  test("finds the version before or the one after, whole, and none twice", async () => {
    const dataDir = tempDir();
    const item = join(dataDir, "swamp/step-lease/m1", `lease-${ID}`);
    const child = spawnChild(new URL("mirror.child.ts", import.meta.url), [dataDir, ID, "60"]);
    await child.line();
    let running = true;
    child.exit.then(() => (running = false));
    const seen: number[] = [];
    while (running) {
      const reading = readItem(item);
      if (reading.kind !== "artifact") throw new Error(`read ${JSON.stringify(reading)}`);
      const { n } = JSON.parse(new TextDecoder().decode(reading.content)) as { n: number };
      expect(reading).toMatchObject({ version: n, metadata: { size: reading.content.length } });
      if (seen.at(-1) !== n) seen.push(n);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect((await child.exit).code).toBe(0);
    expect(seen).toEqual([...seen].sort((a, b) => a - b));
    expect(seen.at(-1)).toBe(60);
    expect(seen.length).toBeGreaterThan(5);
  });

  test("a mirror that was killed leaves the last version that it acknowledged, or the one after", async () => {
    const dataDir = tempDir();
    const item = join(dataDir, "swamp/step-lease/m1", `lease-${ID}`);
    let last = 0;
    for (const lines of [1, 3, 7]) {
      const child = spawnChild(new URL("mirror.child.ts", import.meta.url), [dataDir, ID, "100000"]);
      let acknowledged = 0;
      for (let n = 0; n < lines; n++) acknowledged = Number(await child.line());
      child.process.kill("SIGKILL");
      for await (const line of child.lines) acknowledged = Number(line);
      await child.exit;
      const reading = readItem(item);
      expect(reading.kind).toBe("artifact");
      const { version, content } = reading as { version: number; content: Uint8Array };
      expect(version).toBeGreaterThan(last);
      const { n } = JSON.parse(new TextDecoder().decode(content)) as { n: number };
      expect([acknowledged, acknowledged + 1]).toContain(n);
      last = version;
    }
  });
});

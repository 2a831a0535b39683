import { cpSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { uuid, writeArtifact } from "../../examples/support/artifacts.ts";
import { leasesFromArtifacts, workersFromArtifacts } from "../../src/swamp/artifact-import.ts";
import { collect } from "../support/collect.ts";
import { tempDir } from "../support/spawn.ts";

const CREATED = "2026-10-21T20:14:27.000Z";

function putLease(dataDir: string, n: number, content: object = {}, model = "m1"): string {
  const leaseId = uuid(0xd0000000 + n);
  const versions = [{ leaseId, workerName: "w", state: "active", createdAt: CREATED, ...content }];
  writeArtifact(dataDir, {
    type: "swamp/step-lease",
    modelId: model,
    modelName: "leases",
    specName: "lease",
    name: `lease-${leaseId}`,
    versions,
    createdAt: Date.parse("2026-10-21T20:30:00.000Z"),
  });
  return leaseId;
}

async function* some<T>(...items: T[]): AsyncIterable<T> {
  yield* items;
}

function originOf(leaseId: string, model = "m1"): string {
  return `swamp/step-lease/${model}/lease-${leaseId}`;
}

describe("a record made of an artifact", () => {
  test("a lease says when it entered its state and where it lies; its state is not kept twice", async () => {
    const dataDir = tempDir();
    const active = putLease(dataDir, 1);
    const ended = putLease(dataDir, 2, { state: "failed", endedAt: "2026-10-21T20:15:00.000Z", error: "exit 1" });
    const items = (await collect(leasesFromArtifacts(dataDir))).filter((item) => "id" in item);
    expect(items.sort((a, b) => (a.id < b.id ? -1 : 1))).toEqual([
      {
        id: active,
        state: "active",
        since: Date.parse(CREATED),
        createdAt: Date.parse(CREATED),
        origin: originOf(active),
        data: { leaseId: active, workerName: "w", createdAt: CREATED },
      },
      {
        id: ended,
        state: "failed",
        since: Date.parse("2026-10-21T20:15:00.000Z"),
        createdAt: Date.parse(CREATED),
        origin: originOf(ended),
        data: {
          leaseId: ended,
          workerName: "w",
          createdAt: CREATED,
          endedAt: "2026-10-21T20:15:00.000Z",
          error: "exit 1",
        },
      },
    ]);
  });

  test("a lease without dates has those of its version; a worker's state was entered when it was written", async () => {
    const dataDir = tempDir();
    putLease(dataDir, 1, { createdAt: "yesterday" });
    putLease(dataDir, 2, { createdAt: 5, state: "completed" });
    const written = Date.parse("2026-10-21T20:30:00.000Z");
    for (const item of await collect(leasesFromArtifacts(dataDir))) {
      if ("id" in item) expect([item.since, item.createdAt]).toEqual([written, written]);
    }
    const versions = ["idle", "busy"].map((status) => ({ name: "fleet-1", status, enrolledAt: CREATED }));
    const worker = { type: "swamp/worker", modelId: "w1", modelName: "w", specName: "state", createdAt: written };
    writeArtifact(dataDir, { ...worker, name: "state-main", versions });
    writeArtifact(dataDir, { ...worker, name: "log-main", versions: ["a log"] });
    expect(await collect(workersFromArtifacts(dataDir))).toEqual([
      {
        id: "fleet-1",
        state: "busy",
        since: written + 1000,
        createdAt: Date.parse(CREATED),
        origin: "swamp/worker/w1/state-main",
        data: { name: "fleet-1", enrolledAt: CREATED },
      },
      { watermark: expect.any(String) },
    ]);
  });

  test("what is not an object with an id of its own and a known state is a problem", async () => {
    const dataDir = tempDir();
    const broken = [
      `[]`,
      `null`,
      `{"leaseId":"","state":"active"}`,
      `{"leaseId":"x"}`,
      `{"leaseId":"x","state":"dangling"}`,
    ];
    for (const [n, text] of broken.entries()) {
      writeFileSync(join(dataDir, originOf(putLease(dataDir, n)), "1", "raw"), text);
    }
    writeFileSync(join(dataDir, originOf(putLease(dataDir, 9)), "1", "raw"), Uint8Array.of(0x22, 0xff, 0x22));
    const reasons = (await collect(leasesFromArtifacts(dataDir))).map(
      (item) => "problem" in item && item.problem.reason,
    );
    expect(reasons.filter(Boolean).sort()).toEqual([
      "content is not JSON",
      "content is not a JSON object",
      "content is not a JSON object",
      "leaseId is empty",
      "unknown state",
      "unknown state",
    ]);
  });
});

describe("a record whose artifact is gone", () => {
  const live = (leaseId: string, since = 5) => ({ id: leaseId, since, data: { leaseId }, origin: originOf(leaseId) });

  test("is yielded as dangling, once nothing else is left to be found", async () => {
    const dataDir = tempDir();
    const [gone, there, deleted] = [putLease(dataDir, 1), putLease(dataDir, 2), putLease(dataDir, 3)];
    const before = await collect(leasesFromArtifacts(dataDir));
    const since = before.at(-1)?.watermark ?? "";
    rmSync(join(dataDir, originOf(gone)), { recursive: true });
    writeFileSync(join(dataDir, originOf(deleted), "1", "metadata.yaml"), "lifecycle: deleted\n");
    const options = { since, live: some(live(gone), live(there), live(deleted)) };
    const startedAt = Date.now();
    const items = await collect(leasesFromArtifacts(dataDir, options));
    expect(items.map((item) => ("id" in item ? [item.id, item.state] : Object.keys(item)))).toEqual([
      [gone, "dangling"],
      [deleted, "dangling"],
      ["watermark"],
    ]);
    expect(items[0]).toMatchObject({ origin: originOf(gone), data: { leaseId: gone } });
    expect(items[0]).toHaveProperty("since", expect.any(Number));
    expect((items[0] as { since: number }).since).toBeGreaterThanOrEqual(startedAt);
  });

  test("is none when the artifact lies under another model now, whether that is new or long seen", async () => {
    const dataDir = tempDir();
    const [moved, copied] = [putLease(dataDir, 1), putLease(dataDir, 2)];
    cpSync(join(dataDir, originOf(copied)), join(dataDir, originOf(copied, "m2")), { recursive: true });
    const since = (await collect(leasesFromArtifacts(dataDir))).at(-1)?.watermark ?? "";
    renameSync(join(dataDir, originOf(moved)), join(dataDir, originOf(moved, "m2")));
    rmSync(join(dataDir, originOf(copied)), { recursive: true });
    const items = await collect(leasesFromArtifacts(dataDir, { since, live: some(live(moved), live(copied)) }));
    expect(items.map((item) => ("id" in item ? [item.id, item.state, item.origin] : []))).toEqual([
      [moved, "active", originOf(moved, "m2")],
      [copied, "active", originOf(copied, "m2")],
      [],
    ]);
  });

  test("nothing dangles where the type's directory is not there: a path mistyped, a volume not mounted", async () => {
    const dataDir = tempDir();
    const lease = putLease(dataDir, 1);
    for (const elsewhere of [join(dataDir, "nope"), tempDir()]) {
      const items = await collect(leasesFromArtifacts(elsewhere, { live: some(live(lease)) }));
      expect(items).toEqual([
        {
          problem: {
            path: join(elsewhere, "swamp/step-lease"),
            reason: expect.stringMatching(/not there.*1 live records/),
          },
        },
        { watermark: expect.any(String) },
      ]);
      // What is there after all is read, whatever a scan of nothing has marked.
      const since = items.at(-1)?.watermark ?? "";
      const [found] = await collect(leasesFromArtifacts(dataDir, { since, live: some(live(lease)) }));
      expect(found).toMatchObject({ id: lease, state: "active" });
    }
  });

  test("records that were made here, or came from another type, are left alone", async () => {
    const others = some(
      { id: "a", since: 1, data: {} },
      { id: "b", since: 1, data: {}, origin: "swamp/worker/w1/state-main" },
    );
    expect(await collect(leasesFromArtifacts(tempDir(), { live: others }))).toEqual([
      { watermark: expect.any(String) },
    ]);
  });
});

import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import { currentProcessIdentity, type ProcessIdentity } from "../../src/liveness/index.ts";
import { openStateIndex, type RunRecord, runLifecycle } from "../../src/state/index.ts";
import { reapRuns } from "../../src/state/reap-runs.ts";
import { runsOf } from "../../src/state/runs-of.ts";
import { collect } from "../support/collect.ts";
import { spawnChild, tempDir } from "../support/spawn.ts";

const self = currentProcessIdentity();
const elsewhere = { ...self, instanceId: "00000000-0000-4000-8000-000000000000", pidNamespace: "pid:[1]" };
const ended = { ...self, instanceId: "00000000-0000-4000-8000-000000000001", pid: 2 ** 30 };

/** A tracker in memory. */
function tracker(...rows: RunRecord[]) {
  const runs = new Map(rows.map((row) => [row.id, row]));
  return {
    runs,
    ends: [] as [string, string][],
    async *running() {
      yield* [...runs.values()];
    },
    async end(id: string, from: RunRecord, reason: string) {
      if (runs.get(id) !== from) return false;
      this.ends.push([id, reason]);
      return runs.delete(id);
    },
  };
}

async function untilReaped(source: ReturnType<typeof tracker>, id: string, ttlMs: number): Promise<void> {
  while (source.runs.has(id)) await reapRuns(source, { ttlMs });
}

afterEach(() => {
  vi.restoreAllMocks();
});

describe("reaping runs", () => {
  test("a run whose owner is no identity is unknown, and keeps none of the others waiting", async () => {
    const odd = [undefined, "somebody", 7, null].map((owner, n) => ({ id: `odd-${n}`, owner }) as never as RunRecord);
    const source = tracker(...odd, { id: "dead", owner: ended });
    const { reaped, kept } = await reapRuns(source);
    expect(reaped.map(({ id }) => id)).toEqual(["dead"]);
    expect(kept.map(({ run, verdict }) => [run.id, verdict])).toEqual(odd.map(({ id }) => [id, "unknown"]));
  });

  test("dead is ended at once, however fresh its heartbeat; alive is kept, however old", async () => {
    const source = tracker(
      { id: "dead", owner: ended, heartbeatAt: Date.now() },
      { id: "alive", owner: self, heartbeatAt: 0 },
    );
    const report = await reapRuns(source, { ttlMs: 0, allowedSkewMs: 0 });
    expect(report).toEqual({
      reaped: [{ id: "dead", owner: ended, heartbeatAt: expect.any(Number) }],
      kept: [{ run: { id: "alive", owner: self, heartbeatAt: 0 }, verdict: "alive", why: "its process runs" }],
    });
    expect(source.ends).toEqual([["dead", "its process has ended"]]);
  });

  test("unknown is ended when its heartbeat has been seen to stand still for the TTL, and not before", async () => {
    const source = tracker({ id: "r", owner: elsewhere, heartbeatAt: 1 });
    const startedAt = performance.now();
    await untilReaped(source, "r", 40);
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(40);
    expect(source.ends[0]?.[1]).toMatch(
      /^its owner ran in another PID namespace, and its heartbeat has stood still for (?:4\d|[5-9]\d|\d{3,}) ms$/,
    );
  });

  test("a heartbeat that changes, forwards or backwards, starts the wait again; so does another owner", async () => {
    const source = tracker({ id: "r", owner: elsewhere, heartbeatAt: 1000 });
    const changes: Partial<RunRecord>[] = [
      { heartbeatAt: 1001 },
      { heartbeatAt: 900 },
      { owner: { ...elsewhere, pid: 1 } },
    ];
    for (const change of changes) {
      const { kept } = await reapRuns(source, { ttlMs: 40 });
      expect(kept).toHaveLength(1);
      const seenAt = performance.now();
      while (performance.now() - seenAt < 45) await new Promise((resolve) => setImmediate(resolve));
      source.runs.set("r", { ...source.runs.get("r")!, ...change });
      const { reaped } = await reapRuns(source, { ttlMs: 40 });
      expect(reaped).toEqual([]);
    }
    await untilReaped(source, "r", 40);
  });

  test("a clock that jumps an hour ends nothing, and keeps nothing alive", async () => {
    const source = tracker({ id: "r", owner: elsewhere, heartbeatAt: Date.now() });
    const real = Date.now.bind(Date);
    for (const jump of [3_600_000, -3_600_000]) {
      vi.spyOn(Date, "now").mockImplementation(() => real() + jump);
      expect((await reapRuns(source, { ttlMs: 60_000 })).kept).toHaveLength(1);
    }
    await untilReaped(source, "r", 20);
  });

  test("a tool that looks once compares the clocks, and says the skew that it allows", async () => {
    const now = Date.now();
    const source = tracker(
      { id: "old", owner: elsewhere, heartbeatAt: now - 100_000 },
      { id: "young", owner: elsewhere, heartbeatAt: now - 80_000 },
      { id: "ahead", owner: elsewhere, heartbeatAt: now + 3_600_000 },
      { id: "silent", owner: { hostname: self.hostname, pid: self.pid } },
    );
    const { reaped, kept } = await reapRuns(source, { ttlMs: 60_000, allowedSkewMs: 30_000 });
    expect(reaped.map(({ id }) => id)).toEqual(["old"]);
    expect(source.ends[0]?.[1]).toMatch(/is 1\d{5} ms old, over 60000 ms and a clock skew of 30000 ms$/);
    expect(kept.map(({ run, why }) => [run.id, why])).toEqual([
      ["young", expect.stringMatching(/ 8\d{4} ms old, not over 60000 ms and a clock skew of 30000 ms$/)],
      ["ahead", expect.stringMatching(/ -3\d{6} ms old, not over/)],
      ["silent", expect.stringMatching(/known by host name and PID at most.*it writes no heartbeat: end it by hand$/)],
    ]);
  });

  test("what changed after it was judged is kept, and the report says so", async () => {
    const source = tracker({ id: "dead", owner: ended });
    source.end = async () => false;
    expect((await reapRuns(source)).kept).toEqual([
      { run: { id: "dead", owner: ended }, verdict: "dead", why: "it has changed since it was read" },
    ]);
  });

  test("an abort before the first end rejects and ends nothing; a later one says what was done", async () => {
    const reason = new Error("enough");
    const source = tracker({ id: "a", owner: ended }, { id: "b", owner: ended });
    await expect(reapRuns(source, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(source.ends).toEqual([]);
    const controller = new AbortController();
    const end = source.end.bind(source);
    source.end = async (...run) => {
      controller.abort(reason);
      return end(...run);
    };
    const report = await reapRuns(source, { signal: controller.signal });
    expect(report).toEqual({ reaped: [{ id: "a", owner: ended }], kept: [], aborted: true });
    expect([...source.runs.keys()]).toEqual(["b"]);
  });

  test("an abort does not wait for a source that is stuck", async () => {
    const reason = new Error("enough");
    const controller = new AbortController();
    const stuck = {
      async *running(): AsyncIterableIterator<RunRecord> {
        controller.abort(reason);
        await new Promise(() => {});
      },
      end: async () => true,
    };
    await expect(reapRuns(stuck, { signal: controller.signal })).rejects.toBe(reason);
  });

  test.each([{ ttlMs: -1 }, { ttlMs: Number.NaN }, { allowedSkewMs: Number.POSITIVE_INFINITY }])(
    "refuses %o",
    async (o) => {
      await expect(reapRuns(tracker(), o)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    },
  );
});

describe("the runs of a state index", () => {
  interface Run {
    owner?: Partial<ProcessIdentity>;
    instanceId?: string;
    heartbeatAt?: number;
    error?: string;
  }

  const open = (dir: string) =>
    openStateIndex<Run, "running" | "suspended" | "completed" | "failed" | "cancelled">({
      name: "runs",
      lifecycle: runLifecycle,
      dir,
    });

  test("those of a killed process fail, with the reason; suspended ones and those of the living stay", async () => {
    const dir = tempDir();
    const instancesDir = join(dir, "instances");
    const child = spawnChild(new URL("../liveness/instance.child.ts", import.meta.url), [instancesDir]);
    const owner = JSON.parse(await child.line()) as ProcessIdentity;
    await using runs = await open(dir);
    await runs.insert({ id: "theirs", data: { owner } });
    await runs.insert({ id: "theirs-flat", data: { ...owner } });
    await runs.insert({ id: "theirs-suspended", state: "suspended", data: { owner } });
    await runs.insert({ id: "mine", data: { owner: self } });
    expect((await reapRuns(runsOf(runs), { instancesDir })).reaped).toEqual([]);
    child.process.kill("SIGKILL");
    await child.exit;
    const { reaped, kept } = await reapRuns(runsOf(runs), { instancesDir });
    expect(reaped.map(({ id }) => id).sort()).toEqual(["theirs", "theirs-flat"]);
    expect(kept.map(({ run }) => run.id)).toEqual(["mine"]);
    expect(await runs.get("theirs")).toMatchObject({
      state: "failed",
      data: { owner, error: "its process has ended" },
    });
    expect(await runs.get("theirs-suspended")).toMatchObject({ state: "suspended" });
    expect((await runs.verify()).ok).toBe(true);
  });

  test("one that completes, or beats, after it was read is not ended", async () => {
    await using runs = await open(tempDir());
    await runs.insert({ id: "completes", data: { owner: ended } });
    await runs.insert({ id: "beats", data: { owner: ended } });
    const source = runsOf(runs);
    const [first, second] = await collect(source.running());
    await runs.transition("completes", "completed");
    await runs.update("beats", { heartbeatAt: 5 });
    expect(await source.end("completes", first!, "gone")).toBe(false);
    expect(await source.end("beats", second!, "gone")).toBe(false);
    expect(await source.end("never-was", first!, "gone")).toBe(false);
    expect(await runs.count("failed")).toBe(0);
  });

  test("of which nobody can say whose they are keep none of the others from their end", async () => {
    await using runs = await open(tempDir());
    for (const [n, data] of [null, "text", 7, true, [], { owner: [1] }, { owner: null }].entries())
      await runs.insert({ id: `odd ${n}`, data: data as Run });
    await runs.insert({ id: "z", data: { owner: ended } });
    const { reaped, kept } = await reapRuns(runsOf(runs));
    expect(reaped.map(({ id }) => id)).toEqual(["z"]);
    expect(kept.map(({ verdict }) => verdict)).toEqual(Array(7).fill("unknown"));
    const givesNothing = {
      async *running(): AsyncIterableIterator<RunRecord> {
        yield undefined as never;
      },
      end: async () => true,
    };
    await expect(reapRuns(givesNothing)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  test("are one source, so that a server's next round remembers what the last one saw", async () => {
    await using runs = await open(tempDir());
    await runs.insert({ id: "r", data: { owner: elsewhere, heartbeatAt: 1 } });
    expect(runsOf(runs)).toBe(runsOf(runs));
    while ((await runs.count("failed")) === 0) await reapRuns(runsOf(runs), { ttlMs: 30 });
    expect((await runs.get("r"))?.data.error).toMatch(/stood still/);
  });
});

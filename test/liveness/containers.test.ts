import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { currentProcessIdentity, livenessOf, type ProcessIdentity } from "../../src/liveness/index.ts";
import type { ReapReport, RunRecord } from "../../src/state/model.ts";
import { spawnContainer, whyNoContainers } from "../support/containers.ts";
import { type Child, tempDir } from "../support/spawn.ts";

const PROGRAM = new URL("./container.child.ts", import.meta.url);
const impossible = whyNoContainers();

const children: Child[] = [];
afterEach(async () => {
  for (const child of children.splice(0)) await kill(child);
});

async function kill(child: Child): Promise<void> {
  child.process.kill("SIGKILL");
  await child.exit;
}

interface Container {
  child: Child;
  identity: ProcessIdentity;
  verdictOf(other: Partial<ProcessIdentity>): Promise<string>;
  reap(rows: RunRecord[], ttlMs: number): Promise<ReapReport>;
}

async function container(instancesDir: string): Promise<Container> {
  const child = spawnContainer(PROGRAM, ["serve", instancesDir]);
  children.push(child);
  const ask = async (question: object) => {
    child.send(JSON.stringify(question));
    return child.line();
  };
  return {
    child,
    identity: JSON.parse(await child.line()) as ProcessIdentity,
    verdictOf: (other) => ask({ verdictOf: other }),
    reap: async (rows, ttlMs) => JSON.parse(await ask({ reap: rows, ttlMs })) as ReapReport,
  };
}

/** What the tracker of report 1955 keeps of the owner of a run. */
function oldFields({ hostname, pid }: ProcessIdentity): Partial<ProcessIdentity> {
  return { hostname, pid };
}

describe("the three containers of report 1955: one host name, each process 7", () => {
  beforeEach((context) => {
    if (impossible !== null) context.skip(impossible);
  });

  async function three(instancesDir: string) {
    const [serve, worker, move] = await Promise.all([0, 1, 2].map(() => container(instancesDir)));
    return { serve: serve!, worker: worker!, move: move! };
  }

  test("are one PID and one host name, and yet three identities", async () => {
    const identities = Object.values(await three("")).map(({ identity }) => identity);
    const distinct = (field: keyof ProcessIdentity) => new Set(identities.map((identity) => identity[field])).size;
    expect(identities.map(({ pid }) => pid)).toEqual([7, 7, 7]);
    expect(distinct("hostname")).toBe(1);
    expect(distinct("bootId")).toBe(1);
    expect(distinct("pidNamespace")).toBe(3);
    expect(distinct("instanceId")).toBe(3);
  });

  test("on one volume: each is alive to each, and dead to the others as soon as it is killed", async () => {
    const { serve, worker, move } = await three(join(tempDir(), "instances"));
    for (const judge of [serve, worker, move]) {
      for (const { identity } of [serve, worker, move]) expect(await judge.verdictOf(identity)).toBe("alive");
    }
    await kill(worker.child);
    for (const judge of [serve, move]) {
      expect(await judge.verdictOf(worker.identity)).toBe("dead");
      expect(await judge.verdictOf(move.identity)).toBe("alive");
    }
  });

  test("on no volume: each is alive to itself and unknown to the others, also when it is dead", async () => {
    const { serve, worker, move } = await three("");
    for (const judge of [serve, worker, move]) {
      for (const other of [serve, worker, move]) {
        expect(await judge.verdictOf(other.identity)).toBe(judge === other ? "alive" : "unknown");
      }
    }
    await kill(worker.child);
    expect(await serve.verdictOf(worker.identity)).toBe("unknown");
    expect(livenessOf(worker.identity)).toBe("unknown");
  });

  test("a row with the old fields only, host name and PID 7, is not taken for the process that reads it", async () => {
    const { serve, worker } = await three(join(tempDir(), "instances"));
    for (const { identity } of [serve, worker]) {
      expect(await serve.verdictOf(oldFields(identity))).toBe("unknown");
    }
  });

  test("on one volume: rows of a container that was killed are reaped at once, and no others", async () => {
    const { serve, worker, move } = await three(join(tempDir(), "instances"));
    await kill(worker.child);
    const longAgo = Date.now() - 86_400_000;
    const rows = [serve, worker, move].map(({ identity }) => ({
      id: identity.instanceId,
      owner: identity,
      heartbeatAt: longAgo,
    }));
    const { reaped, kept } = await serve.reap(rows, 0);
    expect(reaped.map(({ id }) => id)).toEqual([worker.identity.instanceId]);
    expect(kept.map(({ run, verdict, why }) => [run.id, verdict, why])).toEqual([
      [serve.identity.instanceId, "alive", "its process runs"],
      [move.identity.instanceId, "alive", "its process runs"],
    ]);
  });

  test("on no volume, and of the old rows: what stands still is reaped, what beats is kept", async () => {
    const { serve, worker, move } = await three("");
    await kill(worker.child);
    const row = (id: string, owner: Partial<ProcessIdentity>, heartbeatAt?: number): RunRecord =>
      heartbeatAt === undefined ? { id, owner } : { id, owner, heartbeatAt };
    const rows = (beat: number) => [
      row("worker", worker.identity, 1),
      row("move", move.identity, beat),
      row("old-worker", oldFields(worker.identity), 1),
      row("old-move", oldFields(move.identity), beat),
      row("old-silent", oldFields(worker.identity)),
    ];
    const first = await serve.reap(rows(1), 50);
    expect(first.reaped).toEqual([]);
    expect(first.kept.map(({ why }) => why)).toEqual([
      "its owner ran in another PID namespace, and its heartbeat has been seen to stand still for 0 of 50 ms",
      "its owner ran in another PID namespace, and its heartbeat has been seen to stand still for 0 of 50 ms",
      expect.stringMatching(/^its owner is known by host name and PID at most.* stand still for 0 of 50 ms$/),
      expect.stringMatching(/^its owner is known by host name and PID at most.* stand still for 0 of 50 ms$/),
      expect.stringMatching(/it writes no heartbeat: end it by hand$/),
    ]);
    const reaped = new Set<string>();
    let last = first;
    for (let beat = 2; reaped.size < 2; beat++) {
      last = await serve.reap(rows(beat), 50);
      for (const { id } of last.reaped) reaped.add(id);
    }
    expect([...reaped].sort()).toEqual(["old-worker", "worker"]);
    const kept = last.kept.map(({ run }) => run.id);
    expect(kept).toEqual(expect.arrayContaining(["move", "old-move", "old-silent"]));
  });
});

test("a PID that was given to another process of the namespace is dead", async (context) => {
  if (impossible !== null) return context.skip(impossible);
  const file = join(tempDir(), "identity.json");
  // Two processes 7, one after the other: the kernel is told which PID it gave last.
  const script = `for pid in 2 3 4 5 6; do /bin/true; done; "$@" write '${file}' && echo 6 > /proc/sys/kernel/ns_last_pid && "$@" judge '${file}'; exit $?`;
  const child = spawnContainer(PROGRAM, [], script);
  children.push(child);
  const { self, other, verdict } = JSON.parse(await child.line()) as Record<"self" | "other", ProcessIdentity> & {
    verdict: string;
  };
  expect(JSON.parse(readFileSync(file, "utf8"))).toEqual(other);
  expect([self.pid, self.pidNamespace, self.bootId]).toEqual([7, other.pidNamespace, other.bootId]);
  expect(other.pid).toBe(7);
  expect(other.startTime).not.toBe(self.startTime);
  expect(verdict).toBe("dead");
});

test("a record of another boot is unknown, even if its PID runs here", () => {
  const self = currentProcessIdentity();
  const owner = { ...self, instanceId: "00000000-0000-4000-8000-000000000000" };
  expect(livenessOf(owner)).toBe("alive");
  expect(livenessOf({ ...owner, bootId: "11111111-0000-4000-8000-000000000000" })).toBe("unknown");
});

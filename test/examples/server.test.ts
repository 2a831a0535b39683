import { describe, expect, onTestFinished, test } from "vitest";
import { burst, type Enrolled, enrol } from "../../examples/serve/burst.ts";
import type { Gateway } from "../../examples/serve/gateway.ts";
import { LinearGateway } from "../../examples/serve/linear-gateway.ts";
import { readySteps } from "../../examples/serve/ready-steps.ts";
import { type Server, startServer } from "../../examples/serve/server.ts";
import { writeFleet } from "../../examples/support/artifacts.ts";
import { generateDefinitions } from "../../examples/support/definitions.ts";
import { deferred } from "../../src/abort.ts";
import { ClosedError } from "../../src/index.ts";
import { collect } from "../support/collect.ts";
import { spawnChild, tempDir } from "../support/spawn.ts";
import { nextTurn, openServer, requestOf, tracesOf } from "./server.ts";

const STEP = { runId: "run", method: "ready" };
const { signal } = new AbortController();

async function openFleet(workers: number): Promise<{ server: Server; names: string[] }> {
  const server = await openServer();
  await server.tokens.issue("fleet", 1_000_000);
  const names = Array.from({ length: workers }, (_, n) => `w-${n}`);
  await Promise.all(names.map((name) => server.enroll(requestOf(name))));
  return { server, names };
}

/** Every index against every record. */
async function expectSound({ rooms }: Server): Promise<void> {
  for (const index of [rooms.leases, rooms.pending, rooms.workers, rooms.tokens, rooms.bindings, rooms.resources])
    expect((await index.verify()).problems).toEqual([]);
}

describe("a burst of new workers", () => {
  test("does not hold up those that are enrolled, as one line for all does", async () => {
    const repoDir = tempDir();
    await generateDefinitions(repoDir, 200);
    const runBurst = async (gateway: Gateway) => {
      const existing: Enrolled[] = [];
      for (let n = 0; n < 3; n++) existing.push(await enrol(gateway, "fleet", `existing-${n}`, signal));
      return burst(gateway, { token: "fleet", prefix: "new", count: 24, existing, signal });
    };
    await using linear = new LinearGateway(repoDir, signal);
    const theirs = await runBurst(linear);
    const ownDir = tempDir();
    await generateDefinitions(ownDir, 200);
    const server = await openServer({ repoDir: ownDir });
    await server.rooms.repository.index.refresh();
    await server.tokens.issue("fleet", 1_000);
    const ours = await runBurst(server);
    for (const operation of ["dispatch", "reenroll", "disconnect"] as const) {
      const ratio = theirs.meanwhile[operation].median / ours.meanwhile[operation].median;
      expect(ratio, operation).toBeGreaterThan(3);
    }
  });
});

describe("changes of one worker", () => {
  test("happen in the order in which they were asked for, whatever others do", async () => {
    const { server, names } = await openFleet(5);
    const seen = new Map(names.map((name) => [name, [] as string[]]));
    const watch = server.rooms.workers.watch();
    const statuses = Array.from({ length: 40 }, (_, n) => (n % 2 === 0 ? ("draining" as const) : ("idle" as const)));
    await Promise.all(statuses.flatMap((status) => names.map((name) => server.setStatus(name, status))));
    let left = statuses.length * names.length;
    for await (const { id, to } of watch) {
      seen.get(id)?.push(to);
      if (--left === 0) break;
    }
    for (const name of names) expect(seen.get(name)).toEqual(statuses);
  });

  test("do not overlap: of many dispatches at once one has the worker", async () => {
    const { server } = await openFleet(1);
    const outcomes = await Promise.allSettled(Array.from({ length: 10 }, () => server.dispatch("w-0", STEP)));
    expect(outcomes.map(({ status }) => status).filter((status) => status === "fulfilled")).toHaveLength(1);
    expect(await server.rooms.leases.count("active")).toBe(1);
    await expectSound(server);
  });

  test("hold up nobody else, however long they take", async () => {
    const { server } = await openFleet(2);
    const held = deferred<void>();
    const holder = server.rooms.queue.run(["worker:w-0", "token:fleet"], () => held.promise);
    const dispatch = await server.dispatch("w-1", STEP);
    await server.writeResource(dispatch, { spec: "ready", name: "w-1", attributes: {} });
    await server.complete(dispatch);
    const { connection } = await server.enroll(requestOf("w-1"));
    await server.disconnect("w-1", connection);
    held.resolve();
    await holder;
  });

  test("are not made by a connection that is no more", async () => {
    const { server } = await openFleet(0);
    const first = await server.enroll(requestOf("w"));
    const second = await server.enroll(requestOf("w"));
    await server.disconnect("w", first.connection);
    expect((await server.rooms.workers.get("w"))?.state).toBe("idle");
    await server.disconnect("w", second.connection);
    expect((await server.rooms.workers.get("w"))?.state).toBe("disconnected");
  });

  test("are made for it when it has been silent for too long", async () => {
    const server = await openServer({ heartbeatMs: 150 });
    await server.tokens.issue("fleet", 10);
    const { connection } = await server.enroll(requestOf("lively"));
    const { connection: earlier } = await server.enroll(requestOf("silent"));
    await server.enroll(requestOf("silent"));
    const watch = server.rooms.workers.watch({ states: ["disconnected"] });
    const beating = setInterval(() => {
      server.heartbeat("lively", connection);
      server.heartbeat("silent", earlier);
    }, 10);
    for await (const { id } of watch) {
      expect(id).toBe("silent");
      break;
    }
    clearInterval(beating);
  });
});

describe("a step", () => {
  test("is leased, owned, written and completed, and each of it is on record", async () => {
    const { server, names } = await openFleet(4);
    const times = await readySteps(server, { runId: "run", workers: names, rounds: 3, signal });
    expect(times.step.count).toBe(12);
    expect(await server.rooms.leases.count("completed")).toBe(13);
    expect(await server.rooms.leases.count("active")).toBe(0);
    for (const name of names) {
      expect(await server.query("run", "ready", name)).toBe(true);
      expect(await server.query("another run", "ready", name)).toBe(false);
      const [lease] = await collect(server.rooms.leases.by("worker", name, { limit: 1, reverse: true }));
      expect(lease?.data).toMatchObject({ runId: "run", hasWrites: true });
      expect((await server.rooms.workers.get(name))?.state).toBe("idle");
    }
    await expectSound(server);
  });

  test("that has ended writes no more, and its late end does not touch the worker's next one", async () => {
    const { server } = await openFleet(0);
    const { connection } = await server.enroll(requestOf("w"));
    const lost = await server.dispatch("w", STEP);
    await server.disconnect("w", connection);
    expect((await server.rooms.leases.get(lost.leaseId))?.state).toBe("failed");
    const late = { spec: "ready", name: "w", attributes: {} };
    await expect(server.writeResource(lost, late)).rejects.toMatchObject({ code: "TRANSITION" });
    expect(await server.query("run", "ready", "w")).toBe(false);
    await server.enroll(requestOf("w"));
    const next = await server.dispatch("w", STEP);
    await expect(server.complete(lost)).rejects.toMatchObject({ code: "TRANSITION" });
    expect((await server.rooms.workers.get("w"))?.state).toBe("busy");
    await server.complete(next);
    expect((await server.rooms.workers.get("w"))?.state).toBe("idle");
  });

  test("goes on when its worker loses the connection and comes back", async () => {
    const { server } = await openFleet(1);
    const dispatch = await server.dispatch("w-0", STEP);
    await server.enroll(requestOf("w-0"));
    await expect(server.dispatch("w-0", STEP)).rejects.toThrow("busy");
    await server.complete(dispatch);
    expect((await server.rooms.workers.get("w-0"))?.state).toBe("idle");
  });

  test.each(["dispatch", "writeResource", "complete"] as const)(
    "that is given up at any moment of %s has happened or has not",
    async (call) => {
      const { server } = await openFleet(1);
      const reason = new Error("given up");
      for (let [turns, before] = [0, 1]; turns < 150; [turns, before] = [turns + before, turns]) {
        const controller = new AbortController();
        const options = { signal: controller.signal };
        const dispatch = call === "dispatch" ? null : await server.dispatch("w-0", STEP);
        const resource = { spec: "ready", name: `${turns}`, attributes: {} };
        const calling =
          dispatch === null
            ? server.dispatch("w-0", STEP, options)
            : call === "complete"
              ? server.complete(dispatch, options)
              : server.writeResource(dispatch, resource, options);
        const outcome = calling.then(
          () => "done",
          (error: unknown) => error,
        );
        for (let turn = 0; turn < turns; turn++) await nextTurn();
        controller.abort(reason);
        const isDone = (await outcome) === "done";
        if (!isDone) expect(await outcome).toBe(reason);
        const [active, worker] = [
          await collect(server.rooms.leases.byState("active")),
          await server.rooms.workers.get("w-0"),
        ];
        const isAtWork = call === "complete" ? !isDone : call === "dispatch" ? isDone : true;
        expect([active.length, worker?.state]).toEqual(isAtWork ? [1, "busy"] : [0, "idle"]);
        if (call === "writeResource") expect(await server.query("run", "ready", `${turns}`)).toBe(isDone);
        for (const { id } of active) await server.complete({ ...STEP, leaseId: id, worker: "w-0" });
      }
      await expectSound(server);
    },
  );
});

describe("a server that is stopped in the middle", () => {
  test("settles every request, and another boot has all that was acknowledged and goes on from there", async () => {
    const repoDir = tempDir();
    const server = await startServer({ repoDir });
    await server.tokens.issue("fleet", 60);
    const enough = new AbortController();
    let acknowledged = 0;
    const requests = Array.from({ length: 60 }, (_, n) => requestOf(`w-${n}`));
    const enrolling = requests.map(async (request) => {
      const enrolment = await server.enroll(request);
      const dispatch = await server.dispatch(request.worker, STEP);
      if (++acknowledged === 10) enough.abort(new Error("shutting down"));
      return { ...enrolment, ...dispatch };
    });
    const closing = new Promise<void>((resolve, reject) => {
      enough.signal.addEventListener("abort", () => server.close({ signal: enough.signal }).then(resolve, reject));
    });
    const outcomes = await Promise.allSettled(enrolling);
    await closing;
    await expect(server.enroll(requestOf("late"))).rejects.toThrow(ClosedError);
    for (const outcome of outcomes) {
      if (outcome.status === "rejected" && outcome.reason !== enough.signal.reason)
        expect(outcome.reason).toBeInstanceOf(ClosedError);
    }

    const again = await openServer({ repoDir });
    const { swept } = await again.booted;
    const done = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
    expect(done.length).toBeGreaterThanOrEqual(10);
    expect(swept.leases).toBeGreaterThanOrEqual(done.length);
    expect(await again.rooms.leases.count("active")).toBe(0);
    for (const { worker, definitionId, leaseId } of done) {
      const traces = await tracesOf(again, requestOf(worker));
      expect([traces.definition, traces.state]).toEqual([definitionId, "disconnected"]);
      expect((await again.rooms.leases.get(leaseId))?.state).toBe("expired");
    }
    await Promise.all(requests.map((request) => again.enroll(request)));
    expect(await again.tokens.used("fleet")).toBe(60);
    await expectSound(again);
  });

  test("leaves alone what the next one has begun while it still sweeps", async () => {
    const repoDir = tempDir();
    const server = await startServer({ repoDir });
    await server.tokens.issue("fleet", 2);
    for (const worker of ["back", "gone"]) {
      await server.enroll(requestOf(worker));
      await server.dispatch(worker, STEP);
    }
    await server.close();
    const again = await startServer({ repoDir });
    onTestFinished(() => again.close());
    await again.enroll(requestOf("back"));
    await again.booted;
    expect((await again.rooms.workers.get("gone"))?.state).toBe("disconnected");
    expect((await again.rooms.workers.get("back"))?.state).not.toBe("disconnected");
    expect(await again.rooms.leases.count("expired")).toBe(2);
  });

  test("is followed by one that takes over the artifacts of an older server, once, while it serves", async () => {
    const [repoDir, dataDir] = [tempDir(), tempDir()];
    const fleet = await writeFleet(dataDir, { leases: 60, active: 7, pending: 2, workers: 3 });
    const server = await startServer({ repoDir, dataDir });
    await server.tokens.issue("fleet", 5);
    await server.enroll(requestOf("new"));
    const begun = await server.dispatch("new", STEP);
    const { imported, swept } = await server.booted;
    expect([imported?.changed, swept.leases, swept.workers]).toEqual([65, 7, 1]);
    for (const id of fleet.activeIds) expect((await server.rooms.leases.get(id))?.state).toBe("expired");
    await server.complete(begun);
    await server.close();
    const again = await openServer({ repoDir, dataDir });
    expect(await again.booted).toMatchObject({ imported: { changed: 0, artifactsRead: 0 }, swept: { leases: 0 } });
  });

  test("with SIGKILL, has lost nothing that it acknowledged, and its run is ended", async () => {
    const repoDir = tempDir();
    const acknowledged: { worker: string; definitionId: string; leaseId: string }[] = [];
    for (const prefix of ["first", "second"]) {
      const child = spawnChild(new URL("server.child.ts", import.meta.url), [repoDir, prefix]);
      expect(await child.line()).toBe("ready");
      for (let n = 0; n < 20; n++) acknowledged.push(JSON.parse(await child.line()));
      child.process.kill("SIGKILL");
      for await (const line of child.lines) if (line.endsWith("}")) acknowledged.push(JSON.parse(line));
      await child.exit;
    }
    const server = await openServer({ repoDir });
    const { reaped } = await server.booted;
    expect(reaped.reaped.map(({ id }) => id)).toContain("run-second");
    for (const { worker, definitionId, leaseId } of acknowledged) {
      expect((await tracesOf(server, requestOf(worker))).definition).toBe(definitionId);
      expect((await server.rooms.leases.get(leaseId))?.state).toBe("expired");
    }
    expect(await server.rooms.leases.count("active")).toBe(0);
    expect(await server.tokens.used("fleet")).toBeGreaterThanOrEqual(acknowledged.length);
    await expectSound(server);
  });
});

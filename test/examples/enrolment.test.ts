import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import type { Enrolment, EnrolmentRequest } from "../../examples/serve/gateway.ts";
import { NEWCOMERS, type Server, startServer } from "../../examples/serve/server.ts";
import { Stages } from "../../examples/serve/stages.ts";
import { deferred } from "../../src/abort.ts";
import { tempDir } from "../support/spawn.ts";
import { countListeners } from "../transitions/listeners.ts";
import { nextTurn, openServer, requestOf, tracesOf } from "./server.ts";

/** 10 ms, on a machine that does nothing else. */
const GRACE_MS = 100;

let server: Server;
let cases = 0;
let repoDir: string;
beforeAll(async () => {
  repoDir = mkdtempSync(join(tmpdir(), "tussock-enrol-"));
  server = await startServer({ repoDir });
  await server.booted;
  return async () => {
    await server.close();
    rmSync(repoDir, { recursive: true });
  };
});

/** A worker nobody has heard of, and a token of its own. */
async function newcomer(allowance = 1): Promise<EnrolmentRequest> {
  const request = requestOf(`newcomer-${++cases}`, `token-${cases}`);
  await server.tokens.issue(request.token, allowance);
  return request;
}

interface Attempt {
  enrolment: Enrolment | null;
  /** From giving up until it had settled. */
  settledMs: number;
}

/** Tries to enrol; `giveUp` does so at the moment that the test is about. */
async function attempt(
  request: EnrolmentRequest,
  arrange: (giveUp: () => void) => { onMark?: (stage: string) => void } | undefined,
): Promise<Attempt> {
  const reason = new Error("given up");
  const controller = new AbortController();
  let gaveUpAt = Number.NaN;
  const giveUp = (): void => {
    gaveUpAt = performance.now();
    controller.abort(reason);
  };
  const stages = new Stages(arrange(giveUp)?.onMark);
  const enrolment = await server.enroll(request, { signal: controller.signal, stages }).catch((error: unknown) => {
    expect(error).toBe(reason);
    return null;
  });
  return { enrolment, settledMs: performance.now() - gaveUpAt };
}

function at(stage: string) {
  return (giveUp: () => void) => ({ onMark: (marked: string) => void (marked === stage && giveUp()) });
}

/** Nothing of the attempt goes on; the machine's retry is enrolled and has used the one part of the allowance; another's is refused. */
async function expectRetry(request: EnrolmentRequest): Promise<Enrolment> {
  expect(server.rooms.queue.size).toBe(0);
  const enrolment = await server.enroll(request);
  expect(await tracesOf(server, request)).toEqual({ used: 1, definition: enrolment.definitionId, state: "idle" });
  const other = { ...request, machine: "another", worker: `${request.worker}-other` };
  await expect(server.enroll(other)).rejects.toThrow("used up");
  expect(await tracesOf(server, other)).toEqual({ used: 1, definition: null, state: null });
  return enrolment;
}

describe("an enrolment that is abandoned", () => {
  const nothing = { used: 0, definition: null, state: null };

  test("before it is asked for, has used nothing", async () => {
    const request = await newcomer();
    const { enrolment, settledMs } = await attempt(request, (giveUp) => void giveUp());
    expect(enrolment).toBeNull();
    expect(settledMs).toBeLessThan(GRACE_MS);
    expect(await tracesOf(server, request)).toEqual(nothing);
    await expectRetry(request);
  });

  test("while many others are let in before it, has used nothing", async () => {
    const request = await newcomer();
    const held = deferred<void>();
    const crowd = await newcomer(100);
    const holder = server.rooms.queue.run(`token:${crowd.token}`, () => held.promise);
    const others = Array.from({ length: NEWCOMERS }, (_, n) =>
      server.enroll(requestOf(`before-${cases}-${n}`, crowd.token)),
    );
    while (server.rooms.queue.depth(`token:${crowd.token}`) < 1 + NEWCOMERS) await nextTurn();
    const { enrolment, settledMs } = await attempt(request, (giveUp) => void setImmediate(giveUp));
    expect(enrolment).toBeNull();
    expect(settledMs).toBeLessThan(GRACE_MS);
    expect(await tracesOf(server, request)).toEqual(nothing);
    held.resolve();
    await holder;
    await Promise.all(others);
    await expectRetry(request);
  });

  test("while it waits for its token, has used nothing", async () => {
    const request = await newcomer();
    const held = deferred<void>();
    const holder = server.rooms.queue.run(`token:${request.token}`, () => held.promise);
    const { enrolment, settledMs } = await attempt(request, (giveUp) => {
      const wait = (): unknown =>
        server.rooms.queue.depth(`token:${request.token}`) < 2 ? setImmediate(wait) : giveUp();
      setImmediate(wait);
      return undefined;
    });
    expect(enrolment).toBeNull();
    expect(settledMs).toBeLessThan(GRACE_MS);
    held.resolve();
    await holder;
    expect(await tracesOf(server, request)).toEqual(nothing);
    await expectRetry(request);
  });

  test("before its binding is written, has used nothing", async () => {
    const request = await newcomer();
    const { enrolment, settledMs } = await attempt(request, at("token's line"));
    expect(enrolment).toBeNull();
    expect(settledMs).toBeLessThan(GRACE_MS);
    expect(await tracesOf(server, request)).toEqual(nothing);
    await expectRetry(request);
  });

  test("once its token is redeemed, keeps its binding, and nothing was created", async () => {
    const request = await newcomer();
    const { enrolment, settledMs } = await attempt(request, at("redeem"));
    expect(enrolment).toBeNull();
    expect(settledMs).toBeLessThan(GRACE_MS);
    expect(await tracesOf(server, request)).toEqual({ ...nothing, used: 1 });
    expect((await expectRetry(request)).created).toBe(true);
  });

  test("while its definition is made, keeps its binding, and none is stored", async () => {
    const request = await newcomer();
    const { enrolment, settledMs } = await attempt(request, at("look-up"));
    expect(enrolment).toBeNull();
    expect(settledMs).toBeLessThan(GRACE_MS);
    expect(await tracesOf(server, request)).toEqual({ ...nothing, used: 1 });
    expect((await expectRetry(request)).created).toBe(true);
  });

  test("once its definition is stored, leaves it for the retry to find", async () => {
    const request = await newcomer();
    const { enrolment, settledMs } = await attempt(request, at("definition"));
    expect(enrolment).toBeNull();
    expect(settledMs).toBeLessThan(GRACE_MS);
    const { used, definition, state } = await tracesOf(server, request);
    expect([used, state]).toEqual([1, null]);
    expect(await expectRetry(request)).toMatchObject({ created: false, definitionId: definition });
  });

  test("while it waits for changes of its worker, is not recorded", async () => {
    const request = await newcomer();
    const held = deferred<void>();
    const key = `worker:${request.worker}`;
    const holder = server.rooms.queue.run(key, () => held.promise);
    const { enrolment, settledMs } = await attempt(request, (giveUp) => {
      const wait = (): unknown => (server.rooms.queue.depth(key) < 2 ? setImmediate(wait) : giveUp());
      setImmediate(wait);
      return undefined;
    });
    expect(enrolment).toBeNull();
    expect(settledMs).toBeLessThan(GRACE_MS);
    held.resolve();
    await holder;
    expect((await tracesOf(server, request)).state).toBeNull();
    expect((await expectRetry(request)).created).toBe(false);
  });

  test("before it is recorded, is not recorded", async () => {
    const request = await newcomer();
    const { enrolment, settledMs } = await attempt(request, at("worker's line"));
    expect(enrolment).toBeNull();
    expect(settledMs).toBeLessThan(GRACE_MS);
    expect((await tracesOf(server, request)).state).toBeNull();
    expect((await expectRetry(request)).created).toBe(false);
  });

  test("when it is recorded, is enrolled", async () => {
    const request = await newcomer();
    const { enrolment } = await attempt(request, at("record"));
    expect(enrolment).not.toBeNull();
    expect((await tracesOf(server, request)).state).toBe("idle");
    await expectRetry(request);
  });

  test.each(["asked", "token's line", "look-up", "worker's line"])(
    "some turns after %j, settles with the truth, whatever that is",
    async (stage) => {
      for (let [turns, before] = [0, 1]; ; [turns, before] = [turns + before, turns]) {
        const request = await newcomer();
        let reached = false;
        const { enrolment } = await attempt(request, (giveUp) => {
          const countDown = async (): Promise<void> => {
            for (let turn = 0; turn < turns; turn++) await nextTurn();
            giveUp();
          };
          if (stage === "asked") void countDown();
          return {
            onMark(marked) {
              if (marked === "record") reached = true;
              if (marked === stage) void countDown();
            },
          };
        });
        const { used, definition, state } = await tracesOf(server, request);
        if (enrolment === null) expect([0, 1]).toContain(used);
        else
          expect({ used, definition, state }).toEqual({ used: 1, definition: enrolment.definitionId, state: "idle" });
        if (used === 0) expect({ definition, state }).toEqual({ definition: null, state: null });
        if (state !== null) expect(enrolment).not.toBeNull();
        const again = await expectRetry(request);
        if (definition !== null) expect(again.definitionId).toBe(definition);
        if (reached && enrolment !== null) break;
      }
    },
  );

  test("leaves no temporary file and no lock of a name behind, and no listener when it was not abandoned", async () => {
    const { signal } = new AbortController();
    const listeners = countListeners(signal);
    await server.enroll(await newcomer(), { signal });
    expect([listeners(), listeners.most()]).toEqual([0, 1]);
    const dir = join(repoDir, ".swamp/auto-definitions");
    const files = readdirSync(dir, { recursive: true }) as string[];
    expect(files.filter((path) => /\.(tmp|lock)$/.test(path))).toEqual([]);
  });
});

describe("the allowance of a token", () => {
  test("is never exceeded, however many come at once, and no definition is made for those who are refused", async () => {
    const { token } = await newcomer(10);
    const requests = Array.from({ length: 30 }, (_, n) => requestOf(`crowd-${n}`, token));
    const outcomes = await Promise.allSettled(requests.map((request) => server.enroll(request)));
    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(10);
    for (const [n, { status }] of outcomes.entries()) {
      const { definition, state } = await tracesOf(server, requests[n]!);
      expect([definition !== null, state]).toEqual(status === "fulfilled" ? [true, "idle"] : [false, null]);
    }
    expect(await server.tokens.used(token)).toBe(10);
  });

  test("is used once by a machine that tries several times at once", async () => {
    const request = await newcomer(1);
    const enrolments = await Promise.all(Array.from({ length: 8 }, () => server.enroll(request)));
    expect(new Set(enrolments.map(({ definitionId }) => definitionId)).size).toBe(1);
    expect(await server.tokens.used(request.token)).toBe(1);
  });

  test("is counted again after a restart", async () => {
    const own = tempDir();
    const first = await startServer({ repoDir: own });
    await first.tokens.issue("fleet", 2);
    await first.enroll(requestOf("one"));
    await first.close();
    const second = await openServer({ repoDir: own });
    await second.enroll(requestOf("two"));
    await expect(second.enroll(requestOf("three"))).rejects.toThrow("used up");
    await second.enroll(requestOf("one"));
  });

  test("is for those only who have a valid token", async () => {
    const request = await newcomer(5);
    await expect(server.enroll({ ...request, token: "none" })).rejects.toThrow("not valid");
    await server.enroll(request);
    await server.rooms.tokens.transition(request.token, "revoked");
    await expect(server.enroll(request)).rejects.toThrow("not valid");
    const other = requestOf(`${request.worker}-other`, request.token);
    await expect(server.enroll(other)).rejects.toThrow("not valid");
    expect(await tracesOf(server, other)).toEqual({ used: 1, definition: null, state: null });
  });

  test("does not let a machine take the place of another's worker, unless that is gone", async () => {
    const request = await newcomer(5);
    const { connection } = await server.enroll(request);
    const rival = { ...request, machine: "rival" };
    await expect(server.enroll(rival)).rejects.toThrow("from another machine");
    await server.disconnect(request.worker, connection);
    await server.enroll(rival);
  });
});

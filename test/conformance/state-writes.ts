/** One record at a time: what may be done to it, what is refused, and how a refusal looks. */
import { deepStrictEqual as equal, ok, rejects, throws } from "node:assert/strict";
import {
  defineLifecycle,
  pendingDispatchLifecycle,
  stepLeaseLifecycle,
  workerLifecycle,
} from "../../src/state/lifecycle.ts";
import { later } from "./case.ts";
import { StoreTime } from "./state-clock.ts";
import type { Promises } from "./state-index.ts";

interface Lease {
  worker: string;
  hasWrites?: boolean;
  [more: string]: unknown;
}

const lease = { name: "lease", lifecycle: stepLeaseLifecycle };

export const writes: Promises = {
  async "a new record has the initial state, revision 1, and is read as it was returned"(open, clock) {
    const index = await open<Lease, "active" | "completed" | "failed" | "expired">(lease);
    const time = await StoreTime.begin(open, clock);
    const before = time.now();
    const made = await index.insert({ id: "a", data: { worker: "w" } });
    const { cursor, since, createdAt, ...rest } = made;
    equal(rest, { id: "a", state: "active", revision: 1, epoch: 0, data: { worker: "w" } });
    ok(typeof cursor === "string" && since === createdAt);
    time.check(since, before);
    equal(await index.get("a"), made);
    equal(await index.get("b"), null);
    const given = await index.insert({ id: "b", state: "failed", since: 17, data: { worker: "w" } });
    equal([given.state, given.since], ["failed", 17]);
  },

  async "an id that exists is not inserted again, and the error carries the record as it is"(open) {
    const index = await open<Lease, string>(lease as never);
    await index.insert({ id: "a", data: { worker: "first" } });
    const there = await index.transition("a", "completed");
    await rejects(index.insert({ id: "a", data: { worker: "second" } }), {
      code: "RECORD_EXISTS",
      id: "a",
      record: there,
    });
    equal(await index.get("a"), there);
  },

  async "of many that insert one id at once exactly one succeeds"(open) {
    const handles = [await open<Lease, string>(lease as never), await open<Lease, string>(lease as never)];
    const tries = Array.from({ length: 20 }, (_, n) => handles[n % 2]?.insert({ id: "a", data: { worker: `w${n}` } }));
    const outcomes = await Promise.allSettled(tries);
    equal(outcomes.filter((outcome) => outcome.status === "fulfilled").length, 1);
    for (const outcome of outcomes) if (outcome.status === "rejected") equal(outcome.reason.code, "RECORD_EXISTS");
  },

  async "a transition goes where the lifecycle lets it, and an ended record stays ended"(open) {
    const index = await open(lease);
    await index.insert({ id: "a", data: {} });
    const ended = await index.transition("a", "completed", { from: "active" });
    equal([ended.state, ended.revision], ["completed", 2]);
    for (const to of ["active", "completed", "failed", "expired"] as const) {
      await rejects(index.transition("a", to), { code: "TRANSITION", id: "a", record: ended });
    }
    await rejects(index.transition("gone", "completed"), { code: "RECORD_NOT_FOUND", id: "gone" });
    await rejects(index.transition("a", "no such state" as never), { code: "LIFECYCLE_MISMATCH" });
    await rejects(index.transition("a", "dangling" as never), { code: "LIFECYCLE_MISMATCH" });
    equal(await index.get("a"), ended);
  },

  async "a state that may follow itself keeps the time it was entered, and takes the epoch of now"(open) {
    const index = await open({ name: "workers", lifecycle: workerLifecycle });
    const first = await index.insert({ id: "w", since: 5, data: {} });
    const epoch = await index.beginEpoch();
    const again = await index.transition("w", "idle");
    equal([again.since, again.epoch, again.revision], [first.since, epoch, 2]);
    const busy = await index.transition("w", "busy");
    ok(busy.since > first.since);
  },

  async "compare-and-set on the revision lets one of many through"(open) {
    const handles = [await open(lease), await open(lease)];
    await handles[0]?.insert({ id: "a", data: { n: 0 } });
    const tries = Array.from({ length: 20 }, (_, n) => handles[n % 2]?.update("a", { n }, { revision: 1 }));
    const outcomes = await Promise.allSettled(tries);
    equal(outcomes.filter(({ status }) => status === "fulfilled").length, 1);
    for (const outcome of outcomes) {
      if (outcome.status === "rejected")
        equal([outcome.reason.code, outcome.reason.record.revision], ["TRANSITION", 2]);
    }
  },

  async "no change is lost when many change one record at once"(open) {
    const handles = [
      await open<{ n: number }, string>(lease as never),
      await open<{ n: number }, string>(lease as never),
    ];
    await handles[0]?.insert({ id: "a", data: { n: 0 } });
    const add = (data: { n: number }) => ({ n: data.n + 1 });
    await Promise.all(Array.from({ length: 50 }, (_, n) => handles[n % 2]?.update("a", add)));
    const record = await handles[0]?.get("a");
    equal([record?.data, record?.revision], [{ n: 50 }, 51]);
  },

  async "marking a lease that has ended is refused with the lease as it is"(open) {
    const index = await open<Lease, string>(lease as never);
    await index.insert({ id: "a", data: { worker: "w", hasWrites: false } });
    const marked = await index.update("a", { hasWrites: true }, { state: "active" });
    equal([marked.data, marked.state, marked.revision], [{ worker: "w", hasWrites: true }, "active", 2]);
    const ended = await index.transition("a", "expired");
    await rejects(index.update("a", { hasWrites: false }, { state: "active" }), { code: "TRANSITION", record: ended });
    equal(await index.get("a"), ended);
  },

  async "an update keeps state and time; a function may remove fields, and must not be given what is not there"(open) {
    const index = await open<Lease, string>(lease as never);
    const first = await index.insert({ id: "a", data: { worker: "w", extra: 1 } });
    const next = await index.update("a", ({ extra: _, ...rest }) => rest as Lease);
    equal([next.data, next.since, next.epoch, next.state], [{ worker: "w" }, first.since, first.epoch, "active"]);
    await rejects(index.update("b", {}), { code: "RECORD_NOT_FOUND" });
    const thrown = new Error("from the patch");
    await rejects(
      index.update("a", () => {
        throw thrown;
      }),
      thrown,
    );
    equal(await index.get("a"), next);
  },

  async "put inserts or replaces, along the lifecycle, and by revision when asked"(open) {
    const index = await open<Lease, string>({ name: "dispatch", lifecycle: pendingDispatchLifecycle } as never);
    const made = await index.put({ id: "a", state: "waiting", data: { worker: "w" } });
    equal(made.revision, 1);
    const same = await index.put({ id: "a", state: "waiting", data: { worker: "v" } });
    equal([same.revision, same.since, same.data], [2, made.since, { worker: "v" }]);
    await rejects(index.put({ id: "a", state: "dispatched", data: { worker: "u" } }, { revision: 1 }), {
      code: "TRANSITION",
      record: same,
    });
    const moved = await index.put({ id: "a", state: "dispatched", data: { worker: "u" } }, { revision: 2 });
    await rejects(index.put({ id: "a", state: "waiting", data: { worker: "t" } }), {
      code: "TRANSITION",
      record: moved,
    });
    await rejects(index.put({ id: "a", state: "dispatched", data: { worker: "t" } }, { revision: 0 }), {
      code: "RECORD_EXISTS",
    });
    await rejects(index.put({ id: "b", state: "waiting", data: { worker: "t" } }, { revision: 3 }), {
      code: "RECORD_NOT_FOUND",
    });
    equal((await index.put({ id: "b", state: "waiting", data: { worker: "t" } }, { revision: 0 })).revision, 1);
  },

  async "what is stored is JSON and comes back as it was; anything else is refused before anything happens"(open) {
    const index = await open<unknown, string>(lease as never);
    const good = {
      text: "ä\u0000\ud800 \u{1F600}",
      deep: [[{ a: null, b: [true, 0.1, -5e300] }]],
      "": {},
      __proto__x: 1,
    };
    await index.insert({ id: "good", data: good });
    equal((await index.get("good"))?.data, good);
    const mutable = { list: [1] };
    await index.insert({ id: "copy", data: mutable });
    mutable.list.push(2);
    const copy = await index.get("copy");
    equal(copy?.data, { list: [1] });
    const circle: unknown[] = [];
    circle.push(circle);
    const bad = [
      undefined,
      () => {},
      1n,
      Symbol("s"),
      Number.NaN,
      Number.POSITIVE_INFINITY,
      new Date(0),
      new Map(),
      /x/,
      circle,
    ];
    for (const value of bad) {
      for (const data of [value, { inside: value }, [value]]) {
        await rejects(index.insert({ id: "bad", data }), { code: "INVALID_ARGUMENT" });
        await rejects(
          index.update("good", () => data),
          { code: "INVALID_ARGUMENT" },
        );
      }
    }
    equal(await index.get("bad"), null);
    equal((await index.get("good"))?.revision, 1);
  },

  async "an id, a key or a name that is too long, empty or no text is refused by a typed error"(open) {
    const index = await open<Lease, string>({
      ...lease,
      indexes: { worker: (r: { data: Lease }) => r.data.worker },
    } as never);
    await index.insert({ id: "i".repeat(512), data: { worker: "k".repeat(512) } });
    equal((await index.get("i".repeat(512)))?.revision, 1);
    await rejects(index.insert({ id: "i".repeat(513), data: { worker: "w" } }), { code: "KEY_TOO_LONG", limit: 512 });
    await rejects(index.insert({ id: "é".repeat(257), data: { worker: "w" } }), { code: "KEY_TOO_LONG", limit: 512 });
    await rejects(index.insert({ id: "a", data: { worker: "k".repeat(513) } }), { code: "KEY_TOO_LONG", limit: 512 });
    for (const id of ["", "a\0b", "half \ud800", 5, undefined, null]) {
      await rejects(index.insert({ id: id as string, data: { worker: "w" } }), { code: "INVALID_ARGUMENT" });
      await rejects(index.get(id as string), { code: "INVALID_ARGUMENT" });
    }
    await rejects(open({ ...lease, name: "n".repeat(129) }), { code: "KEY_TOO_LONG" });
    await rejects(open({ ...lease, name: "" }), { code: "INVALID_ARGUMENT" });
    equal(await index.count(), 1);
  },

  async "a record may have entered its state at any time that a Date holds, and at no other"(open) {
    const index = await open({ ...lease });
    const furthest = 8.64e15;
    await index.insert({ id: "first", since: -furthest, data: {} });
    await index.insert({ id: "last", since: furthest, data: {} });
    const listed: string[] = [];
    for await (const { id } of index.byState("active")) listed.push(id);
    equal(listed, ["first", "last"]);
    for (const since of [furthest + 1, -furthest - 1, Number.MAX_SAFE_INTEGER, 0.5, Number.NaN, "1"]) {
      await rejects(index.insert({ id: "a", since: since as number, data: {} }), { code: "INVALID_ARGUMENT" });
    }
    equal((await index.verify()).problems, []);
  },

  async "what is no state is refused by every call, before anything happens"(open) {
    const index = await open({ ...lease });
    await index.insert({ id: "a", data: {} });
    for (const state of [5, true, {}, null, () => {}, [5], 5n, [["active"]]]) {
      const wrong = state as never;
      const isRefused = { code: "INVALID_ARGUMENT" };
      await rejects(index.count(wrong), isRefused);
      await rejects(async () => index.byState(wrong).next(), isRefused);
      await rejects(index.transition("a", "completed", { from: wrong }), isRefused);
      await rejects(index.transition("a", wrong), isRefused);
      await rejects(index.update("a", {}, { state: wrong }), isRefused);
      await rejects(index.sweep({ from: wrong, to: "expired" }), isRefused);
      await rejects(index.sweep({ from: "active", to: wrong }), isRefused);
      await rejects(index.prune({ states: wrong }), isRefused);
      await rejects(async () => index.watch({ states: wrong }).next(), isRefused);
    }
    await rejects(index.count(["active", "completed"] as never), { code: "INVALID_ARGUMENT" });
    await rejects(index.sweep({ from: "active", to: "expired", where: (async () => false) as never }), {
      code: "INVALID_ARGUMENT",
    });
    equal([await index.count("active"), (await index.get("a"))?.revision], [1, 1]);
  },

  async "a lifecycle that differs from the stored one is refused, in whatever order it is written"(open) {
    await (await open(lease)).insert({ id: "a", data: {} });
    const reordered = defineLifecycle({
      initial: "active",
      transitions: { failed: [], expired: [], completed: [], active: ["expired", "completed", "failed"] },
    });
    equal((await (await open({ name: "lease", lifecycle: reordered })).get("a"))?.state, "active");
    await rejects(open({ name: "lease", lifecycle: workerLifecycle }), { code: "LIFECYCLE_MISMATCH" });
    const fewer = defineLifecycle({ initial: "active", transitions: { active: ["completed"], completed: [] } });
    await rejects(open({ name: "lease", lifecycle: fewer }), { code: "LIFECYCLE_MISMATCH" });
    for (const [state, code] of [
      ["", "INVALID_ARGUMENT"],
      ["dangling", "INVALID_ARGUMENT"],
      ["a\0b", "INVALID_ARGUMENT"],
      ["\ud800", "INVALID_ARGUMENT"],
      ["s".repeat(65), "KEY_TOO_LONG"],
    ] as const)
      throws(() => defineLifecycle({ initial: state, transitions: { [state]: [] } as Record<string, []> }), { code });
  },

  async "indexes of one place know nothing of each other's records"(open) {
    const leases = await open(lease);
    const workers = await open({ name: "workers", lifecycle: workerLifecycle });
    await leases.insert({ id: "a", data: { of: "lease" } });
    await workers.insert({ id: "a", data: { of: "worker" } });
    equal((await leases.get("a"))?.data, { of: "lease" });
    equal((await workers.get("a"))?.data, { of: "worker" });
    equal([await leases.count(), await workers.count(), await workers.count("idle")], [1, 1, 1]);
    equal([(await leases.verify()).records, (await workers.verify()).records], [1, 1]);
  },

  async "aborted before its point of no return, a call rejects with the reason and has done nothing"(open) {
    const index = await open<{ n: number }, string>(lease as never);
    const made = await index.insert({ id: "a", data: { n: 0 } });
    const reason = new Error("given up");
    const aborted = { signal: AbortSignal.abort(reason) };
    const calls = [
      () => index.insert({ id: "b", data: { n: 1 } }, aborted),
      () => index.put({ id: "a", state: "active", data: { n: 1 } }, aborted),
      () => index.update("a", { n: 1 }, aborted),
      () => index.transition("a", "completed", aborted),
      () => index.get("a", aborted),
      () => index.count("active", aborted),
      () => index.sweep({ from: "active", to: "expired", ...aborted }),
      () => index.prune({ states: ["active"], ...aborted }),
      () => index.verify(aborted),
      () => index.stats(aborted),
      () => index.beginEpoch(aborted),
      () => index.byState("active", aborted)[Symbol.asyncIterator]().next(),
      () => index.import("source", async function* () {}, aborted),
      () => open({ ...lease, ...aborted }),
    ];
    for (const call of calls) await rejects(async () => call(), reason);
    equal(await index.get("a"), made);
    equal([await index.count(), (await index.stats()).epoch], [1, 0]);
  },

  async "aborted at any moment, a call has either rejected with the reason and done nothing, or done it and said so"(
    open,
  ) {
    const index = await open<{ n: number }, string>(lease as never);
    await index.insert({ id: "a", data: { n: 0 } });
    for (let n = 1; n <= 60; n++) {
      const abort = new AbortController();
      const before = await index.get("a");
      const call = later(index.update("a", { n }, { signal: abort.signal }));
      for (let turns = n % 6; turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve));
      abort.abort(n);
      const outcome = await call.catch((reason) => reason);
      const now = await index.get("a");
      if (outcome === n) equal(now, before);
      else equal([now?.data, now], [{ n }, outcome]);
    }
    ok((await index.verify()).ok);
  },

  async "what is closed says so, closing twice is no error, and closing waits for what is under way"(open) {
    const index = await open<{ n: number }, string>(lease as never);
    const listing = index.byState("active");
    const call = later(index.insert({ id: "a", data: { n: 1 } }));
    const closing = index.close();
    await Promise.all([closing, index.close()]);
    const outcome = await call.then(
      () => 1,
      (error) => error.code,
    );
    ok(outcome === 1 || outcome === "CLOSED");
    await rejects(index.get("a"), { code: "CLOSED" });
    await rejects(index.insert({ id: "b", data: { n: 1 } }), { code: "CLOSED" });
    await rejects(async () => listing.next(), { code: "CLOSED" });
    const again = await open<{ n: number }, string>(lease as never);
    equal(await again.count(), outcome === 1 ? 1 : 0);
  },
};

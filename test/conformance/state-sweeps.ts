/** Sweeps among others who read, write, come and go meanwhile. */
import { deepStrictEqual as equal, ok, rejects } from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { stepLeaseLifecycle, workerLifecycle } from "../../src/state/lifecycle.ts";
import type { IndexFunction, StateIndex } from "../../src/state/model.ts";
import { later } from "./case.ts";
import type { Open, Promises } from "./state-index.ts";
import { idsOf } from "./state-listings.ts";

type LeaseState = "active" | "completed" | "failed" | "expired";
interface Lease {
  worker?: string;
  beat?: number;
}
type Indexes = Record<string, IndexFunction<Lease, LeaseState> | null>;

const worker: IndexFunction<Lease, LeaseState> = ({ data }) => data.worker;
const other: IndexFunction<Lease, LeaseState> = ({ data }) => `other ${data.worker}`;

function openLeases(open: Open, indexes: Indexes = { worker }): Promise<StateIndex<Lease, LeaseState>> {
  return open<Lease, LeaseState>({ name: "lease", lifecycle: stepLeaseLifecycle, indexes });
}

async function fill(index: StateIndex<Lease, LeaseState>, count: number): Promise<void> {
  await Promise.all(
    Array.from({ length: count }, (_, n) => index.insert({ id: `${n}`, data: { worker: `w${n % 3}` } })),
  );
}

export const sweeps: Promises = {
  async "a sweep after another process has added an index leaves no record out of it"(open) {
    const index = await openLeases(open);
    await fill(index, 300);
    const adding = await openLeases(open, { worker, other });
    equal((await index.sweep({ from: "active", to: "expired", batchSize: 100 })).transitioned, 300);
    equal((await idsOf(adding.by("other", "other w1", { state: "expired" }))).length, 100);
    equal((await adding.verify()).problems, []);
  },

  async "a sweep after another process has dropped an index leaves nothing of it behind"(open) {
    const index = await openLeases(open);
    await fill(index, 300);
    await openLeases(open, { worker: null });
    equal((await index.sweep({ from: "active", to: "expired", batchSize: 100 })).transitioned, 300);
    const again = await openLeases(open);
    equal((await idsOf(again.by("worker", "w1", { state: "expired" }))).length, 100);
    equal((await again.verify()).problems, []);
  },

  async "so do changes that are asked for at once"(open) {
    const index = await openLeases(open);
    await fill(index, 600);
    const adding = await openLeases(open, { worker, other });
    const asked = Array.from({ length: 600 }, (_, n) => [
      index.transition(`${n}`, "completed"),
      index.insert({ id: `new ${n}`, data: { worker: "w1" } }),
    ]);
    await Promise.all(asked.flat());
    equal((await idsOf(adding.by("other", "other w1"))).length, 800);
    equal((await adding.verify()).problems, []);
  },

  async "a sweep by an index that is dropped meanwhile says so"(open) {
    const index = await openLeases(open);
    await fill(index, 300);
    let dropping: Promise<unknown> | null = null;
    const sweeping = index.sweep({
      from: "active",
      to: "expired",
      by: { index: "worker", key: "w1" },
      batchSize: 10,
      onProgress: () => {
        dropping ??= later(openLeases(open, { worker: null }));
      },
    });
    // Over before the index is gone, or refused.
    await sweeping.then(
      ({ transitioned }) => equal(transitioned, 100),
      (error: { code?: string }) => equal(error.code, "INVALID_ARGUMENT"),
    );
    await dropping;
    await rejects(index.sweep({ from: "active", to: "expired", by: { index: "worker", key: "w1" } }), {
      code: "INVALID_ARGUMENT",
    });
  },

  async "a sweep by an index finds what a process without its function changes meanwhile"(open) {
    const [index, ignorant] = [await openLeases(open), await openLeases(open, {})];
    await fill(index, 600);
    let beating: Promise<unknown> | null = null;
    const report = await index.sweep({
      from: "active",
      to: "expired",
      by: { index: "worker", key: "w1" },
      batchSize: 20,
      onProgress: () => {
        beating ??= later(
          Promise.all(Array.from({ length: 50 }, (_, n) => ignorant.update(`${448 + 3 * n}`, { beat: 1 }))),
        );
      },
    });
    await beating;
    equal([report.transitioned, await index.count("active")], [200, 400]);
  },

  async "a sweep by a key leaves alone what comes under another one meanwhile"(open) {
    const index = await openLeases(open);
    await fill(index, 30);
    let moving: Promise<unknown> | null = null;
    const report = await index.sweep({
      from: "active",
      to: "expired",
      by: { index: "worker", key: "w1" },
      where: () => {
        moving ??= later(index.update("28", { worker: "w2" }));
        return true;
      },
    });
    await moving;
    equal([report.transitioned, report.skipped, (await index.get("28"))?.state], [9, 1, "active"]);
  },

  async "a sweep to a state that it comes from ends each record once"(open) {
    const index = await open<{ n: number }, "idle" | "busy">({
      name: "workers",
      lifecycle: workerLifecycle as never,
    });
    await Promise.all(Array.from({ length: 400 }, (_, n) => index.insert({ id: `${n}`, data: { n: 0 } })));
    let entered = 0;
    const report = await index.sweep({
      from: ["idle", "busy"],
      to: "idle",
      batchSize: 20,
      patch: ({ n }) => ({ n: n + 1 }),
      onProgress: () => void later(index.insert({ id: `new ${entered++}`, data: { n: 0 } })),
    });
    ok(report.transitioned >= 400 && report.transitioned <= 400 + entered, JSON.stringify(report));
    for await (const { id, data } of index.byState("idle"))
      ok(id.startsWith("new") || data.n === 1, `${id}: ${data.n}`);
  },

  async "a sweep from a state to itself takes all, also what has entered by a clock ahead"(open) {
    const index = await open<{ n: number }, "idle">({ name: "workers", lifecycle: workerLifecycle as never });
    await index.insert({ id: "now", data: { n: 0 } });
    await index.insert({ id: "ahead", since: Date.now() + 3_600_000, data: { n: 0 } });
    const report = await index.sweep({ from: "idle", to: "idle", patch: ({ n }) => ({ n: n + 1 }) });
    equal(report.transitioned, 2);
    for await (const { id, data } of index.byState("idle")) equal(data.n, 1, id);
  },

  async "a sweep ends, however many enter meanwhile, and finds what has entered by a clock ahead"(open) {
    const index = await openLeases(open);
    await fill(index, 100);
    await index.insert({ id: "ahead", since: Date.now() + 3_600_000, data: {} });
    let entered = 0;
    const report = await index.sweep({
      from: "active",
      to: "expired",
      batchSize: 8,
      onProgress: () => {
        for (let n = 0; n < 8; n++) void later(index.insert({ id: `new ${entered++}`, data: {} }));
      },
    });
    ok(report.transitioned >= 101 && report.examined < 200, JSON.stringify(report));
    equal((await index.get("ahead"))?.state, "expired");
  },

  async "what a sweep ends has not ended before it began"(open) {
    const index = await openLeases(open);
    await fill(index, 10);
    let inserted = 0;
    const until = performance.now() + 50;
    await index.sweep({
      from: "active",
      to: "expired",
      batchSize: 4,
      where: () => {
        if (performance.now() < until) void later(index.insert({ id: `new ${inserted++}`, data: {} }));
        for (const end = performance.now() + 2; performance.now() < end; );
        return true;
      },
    });
    for await (const { id, since, createdAt } of index.byState("expired"))
      ok(since >= createdAt, `${id} ended ${createdAt - since} ms before it was inserted`);
  },

  async "a sweep that ends nothing lets others go on, and hears an abort"(open) {
    const index = await openLeases(open);
    await fill(index, 2_000);
    const abort = new AbortController();
    let turns = 0;
    const timer = setInterval(() => turns++, 0);
    const sweep = { from: "active", to: "expired", where: () => false, batchSize: 1 } as const;
    try {
      equal((await index.sweep(sweep)).examined, 2_000);
      ok(turns > 2, `${turns} turns of a timer`);
      void delay(1).then(() => abort.abort(new Error("stop")));
      await rejects(index.sweep({ ...sweep, signal: abort.signal }), { message: "stop" });
    } finally {
      clearInterval(timer);
    }
  },
};

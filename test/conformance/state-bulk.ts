/** Many records at a time: sweeps and epochs, imports, pruning, and indexes that come later. */
import { deepStrictEqual as equal, ok, rejects } from "node:assert/strict";
import { stepLeaseLifecycle, workerLifecycle } from "../../src/state/lifecycle.ts";
import type { ImportItem, StateIndex } from "../../src/state/model.ts";
import { later } from "./case.ts";
import type { Open, Promises } from "./state-index.ts";
import { idsOf } from "./state-listings.ts";

type LeaseState = "active" | "completed" | "failed" | "expired";
interface Lease {
  worker?: string;
  error?: string;
}
type Items = ImportItem<Lease, LeaseState>[];

const openLeases = (open: Open) =>
  open<Lease, LeaseState>({ name: "lease", lifecycle: stepLeaseLifecycle, indexes: { worker: (r) => r.data.worker } });

/** A source that remembers what it was asked, and yields what lies behind the watermark. */
function sourceOf(items: Items, asked: (string | null)[] = []) {
  return async function* (since: string | null) {
    asked.push(since);
    for (const item of items) if (since === null || (item.watermark ?? "") > since) yield item;
  };
}

async function fill(index: StateIndex<Lease, LeaseState>, count: number): Promise<void> {
  await Promise.all(
    Array.from({ length: count }, (_, n) => index.insert({ id: `${n}`, data: { worker: `w${n % 3}` } })),
  );
}

export const bulk: Promises = {
  async "a sweep ends what it is asked to, and each is readable afterwards"(open) {
    const index = await openLeases(open);
    await fill(index, 1_200);
    await index.transition("7", "completed");
    const progress: number[] = [];
    const report = await index.sweep({
      from: "active",
      to: "expired",
      where: ({ data }) => data.worker !== "w0",
      patch: { error: "orchestrator restart" },
      onProgress: ({ transitioned }) => progress.push(transitioned),
    });
    const { elapsedMs, ...figures } = report;
    equal(figures, { examined: 1_199, transitioned: 799, skipped: 0 });
    ok(elapsedMs > 0 && progress.length > 1 && progress.at(-1) === 799);
    for await (const { id, data } of index.byState("expired")) {
      const record = await index.get(id);
      equal([record?.state, record?.data], ["expired", { worker: data.worker, error: "orchestrator restart" }]);
    }
    equal([await index.count("active"), await index.count("expired"), await index.count("completed")], [400, 799, 1]);
    equal((await index.sweep({ from: "active", to: "expired", where: () => false })).transitioned, 0);
  },

  async "a sweep before an epoch touches nothing that was acquired since it began, whatever the clock says"(open) {
    const index = await openLeases(open);
    await index.insert({ id: "old", data: {} });
    await index.insert({ id: "old but with a clock ahead", since: Date.now() + 3_600_000, data: {} });
    const epoch = await index.beginEpoch();
    await index.insert({ id: "new", data: {} });
    await index.insert({ id: "new but with a clock behind", since: Date.now() - 3_600_000, data: {} });
    const report = await index.sweep({ from: "active", to: "expired", beforeEpoch: epoch });
    equal([report.examined, report.transitioned], [4, 2]);
    equal((await idsOf(index.byState("active"))).sort(), ["new", "new but with a clock behind"]);
    equal((await index.sweep({ from: "active", to: "expired", beforeEpoch: epoch })).transitioned, 0);
  },

  async "a worker that enrols again after a boot is not swept, though it is idle since before"(open) {
    const index = await open({ name: "workers", lifecycle: workerLifecycle });
    await index.insert({ id: "again", data: {} });
    await index.insert({ id: "gone", data: {} });
    const epoch = await index.beginEpoch();
    await index.put({ id: "again", state: "idle", data: {} });
    await index.sweep({ from: ["idle", "busy"], to: "disconnected", beforeEpoch: epoch });
    equal([(await index.get("again"))?.state, (await index.get("gone"))?.state], ["idle", "disconnected"]);
  },

  async "epochs count up by one for all indexes of a place"(open) {
    const leases = await openLeases(open);
    const workers = await open({ name: "workers", lifecycle: workerLifecycle });
    equal([await leases.beginEpoch(), await workers.beginEpoch(), await leases.beginEpoch()], [1, 2, 3]);
    equal((await workers.insert({ id: "w", data: {} })).epoch, 3);
    equal((await Promise.all([1, 2, 3].map(() => leases.beginEpoch()))).sort(), [4, 5, 6]);
  },

  async "a lease that completes between being listed and being swept stays completed"(open) {
    const index = await openLeases(open);
    await fill(index, 20);
    let completing: Promise<unknown> = Promise.resolve();
    const report = await index.sweep({
      from: "active",
      to: "expired",
      where: ({ id }) => {
        // Asked for while the sweep looks at the lease: it is committed before the sweep's own change.
        if (id === "5") completing = later(index.transition("5", "completed"));
        return true;
      },
    });
    await completing;
    equal([report.transitioned, report.skipped], [19, 1]);
    equal((await index.get("5"))?.state, "completed");
  },

  async "two sweeps at once end each lease once"(open) {
    const handles = [await openLeases(open), await openLeases(open)];
    await fill(handles[0] as StateIndex<Lease, LeaseState>, 500);
    const watched = handles[0]?.watch({ states: ["expired"] });
    const reports = await Promise.all(
      handles.map((index) => index.sweep({ from: "active", to: "expired", batchSize: 50 })),
    );
    equal((reports[0]?.transitioned ?? 0) + (reports[1]?.transitioned ?? 0), 500);
    const ended = new Set<string>();
    for await (const { id } of watched ?? []) {
      ok(!ended.has(id), `${id} ended twice`);
      if (ended.add(id).size === 500) break;
    }
  },

  async "everything that one instance holds is ended in one call"(open) {
    const index = await openLeases(open);
    await fill(index, 30);
    const report = await index.sweep({ from: "active", to: "failed", by: { index: "worker", key: "w1" } });
    equal([report.examined, report.transitioned], [10, 10]);
    equal(await idsOf(index.by("worker", "w1", { state: "active" })), []);
    equal(await index.count("active"), 20);
  },

  async "an aborted sweep stops between two batches and says what was done"(open) {
    const index = await openLeases(open);
    await fill(index, 100);
    const abort = new AbortController();
    const report = await index.sweep({
      from: "active",
      to: "expired",
      batchSize: 10,
      signal: abort.signal,
      onProgress: ({ transitioned }) => transitioned >= 30 && abort.abort(new Error("stop")),
    });
    ok(report.aborted && report.transitioned >= 30 && report.transitioned < 100, JSON.stringify(report));
    equal(await index.count("expired"), report.transitioned);
    equal(await index.count("active"), 100 - report.transitioned);
    await rejects(index.sweep({ from: "completed", to: "active" as never }), { code: "INVALID_ARGUMENT" });
    await rejects(index.sweep({ from: "x" as never, to: "expired" }), { code: "LIFECYCLE_MISMATCH" });
    await rejects(index.sweep({ from: "active", to: "expired", batchSize: 0 }), { code: "INVALID_ARGUMENT" });
  },

  async "a sweep, an import and a pruning that the closing of the index overtakes say what they did"(open) {
    const reader = await openLeases(open);
    const isClosed = { code: "CLOSED" };
    const closedIn = async <R>(call: (index: StateIndex<Lease, LeaseState>, close: () => void) => Promise<R>) => {
      const index = await openLeases(open);
      let closing: Promise<void> | undefined;
      const result = await call(index, () => {
        closing ??= later(index.close());
      });
      await closing;
      return result;
    };
    await fill(reader, 300);
    const swept = await closedIn((index, onProgress) =>
      index.sweep({ from: "active", to: "expired", batchSize: 50, onProgress }),
    );
    ok(swept.aborted && swept.transitioned > 0 && swept.transitioned < 300, JSON.stringify(swept));
    equal(await reader.count("expired"), swept.transitioned);

    const items: Items = Array.from({ length: 1_500 }, (_, n) => ({
      id: `i${n}`,
      state: "failed",
      since: n,
      data: {},
    }));
    const imported = await closedIn((index, onProgress) => index.import("s", sourceOf(items), { onProgress }));
    ok(imported.aborted && imported.inserted > 0 && imported.inserted < 1_500, JSON.stringify(imported));
    equal(await reader.count("failed"), imported.inserted);

    await reader.import("rest", sourceOf(items));
    const pruned = await closedIn(async (index, close) => {
      const pruning = later(index.prune({ states: ["failed"] }));
      // Nobody is told what a pruning does while it does it.
      while ((await reader.count("failed")) === 1_500) await new Promise((resolve) => setTimeout(resolve, 0));
      close();
      return pruning;
    });
    equal(await reader.count("failed"), 1_500 - pruned);
    ok(pruned > 0);

    const index = await openLeases(open);
    await index.close();
    await rejects(index.sweep({ from: "active", to: "expired" }), isClosed);
    await rejects(index.import("s", sourceOf(items)), isClosed);
    await rejects(index.prune({ states: ["failed"] }), isClosed);
  },

  async "what a source gives by mistake is a problem of the import, and what it gives beside that comes in"(open) {
    const index = await openLeases(open);
    const wrong = [null, undefined, "text", 5, {}, { Id: "misspelt", state: "active", since: 1, data: {} }];
    const states = [5, {}, null, undefined, ["active"], ["active", "failed"], true];
    const odd = [
      ...wrong,
      ...states.map((state, n) => ({ id: `s${n}`, state, since: 1, data: {} })),
      { id: "far", state: "active", since: Number.MAX_SAFE_INTEGER, data: {} },
      { id: "good", state: "active", since: 1, data: {}, watermark: "9" },
    ] as unknown as Items;
    const report = await index.import("s", sourceOf(odd));
    // An empty object is a mark that marks nothing.
    equal([report.inserted, report.problemCount, report.watermark], [1, odd.length - 2, "9"]);
    equal(await idsOf(index.byState("active")), ["good"]);
  },

  async "an import goes on where the last one ended, and a second run brings in nothing twice"(open) {
    const index = await openLeases(open);
    const items: Items = Array.from({ length: 1_100 }, (_, n) => ({
      id: `${n}`,
      state: n % 2 ? "completed" : "active",
      since: n,
      createdAt: n - 1,
      origin: `model/${n}`,
      data: { worker: "w" },
      watermark: String(n).padStart(5, "0"),
    }));
    const asked: (string | null)[] = [];
    const first = await index.import("artifacts", sourceOf(items, asked));
    equal([first.examined, first.inserted, first.watermark], [1_100, 1_100, "01099"]);
    const record = await index.get("7");
    equal(
      [record?.state, record?.since, record?.createdAt, record?.origin, record?.epoch],
      ["completed", 7, 6, "model/7", 0],
    );
    equal((await index.import("artifacts", sourceOf(items, asked))).examined, 0);
    equal(asked, [null, "01099"]);
    const again = await index.import("under another name", sourceOf(items, asked));
    equal([again.examined, again.inserted, again.updated, again.unchanged], [1_100, 0, 0, 1_100]);
    equal(await index.get("7"), record);
  },

  async "an import moves a record forward only: ended over live, later over earlier"(open) {
    const index = await openLeases(open);
    const item = (state: LeaseState | "dangling", since: number, origin = "m1") => ({
      id: "a",
      state,
      since,
      origin,
      data: { worker: `${state} ${since}` },
    });
    const bring = async (...items: Items) => {
      await index.import("source", sourceOf(items));
      const record = await index.get("a");
      return `${record?.state} ${record?.since} ${record?.origin} ${record?.revision}`;
    };
    equal(await bring(item("active", 10)), "active 10 m1 1");
    equal(await bring(item("active", 9), item("active", 10, "m2")), "active 10 m1 1");
    equal(await bring(item("active", 11, "m2")), "active 11 m2 2");
    equal(await bring(item("failed", 5)), "failed 5 m1 3");
    equal(await bring(item("active", 99), item("dangling", 99)), "failed 5 m1 3");
    equal(await bring(item("completed", 6, "m2"), item("failed", 4)), "completed 6 m2 4");
    const mine = await index.insert({ id: "mine", data: {} });
    await index.import(
      "source",
      sourceOf([{ id: "mine", state: "dangling", since: Date.now() + 1, origin: "m1", data: {} }]),
    );
    equal(await index.get("mine"), mine);
  },

  async "an import takes what its source has amended, and nothing over what was changed here"(open) {
    const index = await openLeases(open);
    const item = (worker: string, origin = "m1") => ({
      id: "a",
      state: "active" as const,
      since: 10,
      origin,
      data: { worker },
    });
    const bring = async (...items: Items) => (await index.import("source", sourceOf(items))).updated;
    await bring(item("w1"));
    equal([await bring(item("w1")), await bring(item("w2", "m2")), await bring(item("w2"))], [0, 0, 1]);
    equal((await index.get("a"))?.data, { worker: "w2" });
    await index.update("a", { worker: "mine" });
    equal(await bring(item("w3")), 0);
    equal((await index.get("a"))?.data, { worker: "mine" });
    await bring({ ...item("w4"), id: "b" }, { ...item("w5"), id: "b" });
    equal((await index.get("b"))?.data, { worker: "w5" });
  },

  async "a record whose source is gone becomes dangling, once, and can be read"(open) {
    const index = await openLeases(open);
    const live = { id: "a", state: "active" as const, since: 1, origin: "m1", data: { worker: "w" } };
    const gone: Items = [
      { ...live, state: "dangling", since: 2 },
      { id: "b", state: "dangling", since: 2, origin: "m2", data: {} },
    ];
    await index.import("source", sourceOf([live]));
    const report = await index.import("source", sourceOf(gone));
    equal([report.dangling, report.inserted, report.updated], [2, 1, 1]);
    equal((await index.import("source", sourceOf(gone))).dangling, 0);
    equal(await idsOf(index.byState("dangling")), ["a", "b"]);
    equal((await index.get("a"))?.state, "dangling");
    await rejects(index.transition("a", "completed"), { code: "TRANSITION" });
    equal(await idsOf(index.by("worker", "w", { state: "dangling" })), ["a"]);
    const found = await index.import("source", sourceOf([{ ...live, state: "completed", since: 1 }]));
    equal([found.updated, (await index.get("a"))?.state], [1, "completed"]);
  },

  async "what has been pruned does not come back by an import"(open) {
    const index = await openLeases(open);
    const items: Items = [
      { id: "ended", state: "completed", since: 1, data: {} },
      { id: "live", state: "active", since: 1, data: {} },
    ];
    await index.import("source", sourceOf(items));
    equal(await index.prune({ states: ["completed", "active"] }), 2);
    const report = await index.import("source", sourceOf(items));
    equal([report.inserted, report.pruned, await index.count()], [0, 2, 0]);
    const later = items.map((item) => ({ ...item, since: 2 })) as Items;
    equal((await index.import("source", sourceOf(later))).inserted, 1);
    equal(await idsOf(index.byState(["active", "completed"])), ["live"]);
    await index.insert({ id: "ended", data: {} });
    equal((await index.get("ended"))?.state, "active");
  },

  async "a watermark that is reported is stored, also when somebody has added an index meanwhile"(open) {
    const index = await openLeases(open);
    const asked: (string | null)[] = [];
    const source = (watermark: string) => sourceOf([{ watermark }] as Items, asked);
    await index.import("source", source("1"));
    const { name, lifecycle } = index;
    await open({ name, lifecycle, indexes: { added: () => "key" } });
    equal((await index.import("source", source("2"))).watermark, "2");
    await index.import("source", source("3"));
    equal(asked, [null, "1", "2"]);
  },

  async "items that cannot be stored are problems with a reason, and the others come in"(open) {
    const index = await openLeases(open);
    const items = [
      { problem: { path: "/data/lease-1", reason: "content is not JSON" }, watermark: "1" },
      { id: "x".repeat(600), state: "active", since: 1, data: {}, origin: "/data/lease-2" },
      { id: "c", state: "no such state", since: 1, data: {} },
      { id: "d", state: "active", since: Number.NaN, data: {} },
      { id: "e", state: "active", since: 1, data: { f: undefined } },
      { id: "good", state: "active", since: 1, data: {} },
      { watermark: "7" },
    ] as unknown as Items;
    const report = await index.import("source", sourceOf(items));
    equal([report.examined, report.inserted, report.problemCount, report.watermark], [6, 1, 5, "7"]);
    equal(report.problems[0], { path: "/data/lease-1", reason: "content is not JSON" });
    equal(
      report.problems.map(({ path }) => path),
      ["/data/lease-1", "/data/lease-2", "c", "d", "e"],
    );
    equal(await idsOf(index.byState("active")), ["good"]);
  },

  async "an import whose source fails, or that is aborted, keeps what it has committed and goes on from there"(open) {
    const index = await openLeases(open);
    const items: Items = Array.from({ length: 1_600 }, (_, n) => ({
      id: `${n}`,
      state: "active",
      since: n,
      data: {},
      watermark: String(n).padStart(5, "0"),
    }));
    const broken = new Error("the disk");
    const failing = async function* (since: string | null) {
      for await (const item of sourceOf(items)(since)) {
        if (item.watermark === "00700") throw broken;
        yield item;
      }
    };
    await rejects(index.import("source", failing), broken);
    equal(await index.count(), 500);
    const abort = new AbortController();
    const report = await index.import("source", sourceOf(items), {
      signal: abort.signal,
      onProgress: () => abort.abort(new Error("stop")),
    });
    ok(report.aborted && (await index.count()) === 500 + report.inserted && report.inserted >= 500);
    equal((await index.import("source", sourceOf(items))).inserted, 1_600 - 500 - report.inserted);
    equal(await index.count(), 1_600);
    const silent = new AbortController();
    const never = () => ({ [Symbol.asyncIterator]: () => ({ next: () => new Promise<never>(() => {}) }) });
    const waiting = later(index.import("silent", never, { signal: silent.signal }));
    silent.abort(broken);
    await rejects(waiting, broken);
  },

  async "pruning takes the oldest, keeps the latest that it is told to keep, and only the states named"(open) {
    const index = await openLeases(open);
    for (let n = 0; n < 10; n++)
      await index.insert({ id: `c${n}`, state: "completed", since: n, data: { worker: "w" } });
    for (let n = 0; n < 10; n++) await index.insert({ id: `f${n}`, state: "failed", since: n, data: { worker: "w" } });
    equal(await index.prune({ states: ["completed"], endedBefore: 3 }), 3);
    equal(await index.prune({ states: ["completed"], keep: 5 }), 2);
    equal(await idsOf(index.byState("completed")), ["c5", "c6", "c7", "c8", "c9"]);
    equal(await index.prune({ states: ["completed", "failed"], endedBefore: 8, keep: 4 }), 7);
    equal(
      await idsOf(index.byState(["completed", "failed"])),
      ["f6", "c6", "f7", "c7", "f8", "c8", "f9", "c9"].sort(bySince),
    );
    equal((await idsOf(index.by("worker", "w"))).length, 8);
    await index.insert({ id: "c0", data: {} });
    equal((await index.get("c0"))?.revision, 1);
    await rejects(index.prune({ states: ["x" as never] }), { code: "LIFECYCLE_MISMATCH" });
  },

  async "an index that comes later has the older records too, and one that is given up is gone"(open) {
    const plain = { name: "lease", lifecycle: stepLeaseLifecycle };
    const first = await open<Lease, LeaseState>(plain);
    await fill(first, 600);
    await first.transition("1", "completed");
    const second = await openLeases(open);
    equal((await idsOf(second.by("worker", "w1"))).length, 200);
    equal(await idsOf(second.by("worker", "w1", { state: "completed" })), ["1"]);
    ok((await second.verify()).ok);
    const third = await open<Lease, LeaseState>({ ...plain, indexes: { worker: null, other: (r) => r.data.worker } });
    await rejects(idsOf(third.by("worker", "w1")), { code: "INVALID_ARGUMENT" });
    equal((await idsOf(third.by("other", "w1"))).length, 200);
    await third.transition("4", "failed");
    ok((await third.verify()).ok);
  },

  async "what a process without the index functions writes is found by the next one that has them"(open) {
    const knowing = await openLeases(open);
    await fill(knowing, 6);
    const ignorant = await open<Lease, LeaseState>({ name: "lease", lifecycle: stepLeaseLifecycle });
    await ignorant.insert({ id: "new", data: { worker: "w1" } });
    await ignorant.update("0", { worker: "w1" });
    await ignorant.transition("1", "completed");
    await rejects(idsOf(ignorant.by("worker", "w1")), { code: "INVALID_ARGUMENT" });
    ok((await ignorant.verify()).ok);
    equal((await idsOf(knowing.by("worker", "w1"))).sort(), ["0", "1", "4", "new"]);
    equal(await idsOf(knowing.by("worker", "w1", { state: "completed" })), ["1"]);
    equal(await idsOf(knowing.by("worker", "w0")), ["3"]);
    ok((await knowing.verify()).ok);
  },

  async "verify tells of a function that has changed under its name"(open) {
    const index = await openLeases(open);
    await fill(index, 3);
    const changed = await open<Lease, LeaseState>({
      name: "lease",
      lifecycle: stepLeaseLifecycle,
      indexes: { worker: () => "same" },
    });
    const report = await changed.verify();
    equal(
      [report.ok, report.records, report.problems.map(({ part }) => part)],
      [false, 3, ["index", "index", "index"]],
    );
  },
};

function bySince(a: string, b: string): number {
  return Number(a.slice(1)) - Number(b.slice(1)) || Number(a < b ? -1 : 1);
}

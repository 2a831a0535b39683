/** Listings by state and by key: order, ranges, cursors, counts, and what one sees while others write. */
import { deepStrictEqual as equal, ok, rejects } from "node:assert/strict";
import { stepLeaseLifecycle, workerLifecycle } from "../../src/state/lifecycle.ts";
import type { StateRecord } from "../../src/state/model.ts";
import { allOf } from "./case.ts";
import type { Promises } from "./state-index.ts";

const lease = { name: "lease", lifecycle: stepLeaseLifecycle };

export async function idsOf<D, S extends string>(listing: AsyncIterable<StateRecord<D, S>>): Promise<string[]> {
  const ids: string[] = [];
  for await (const record of listing) ids.push(record.id);
  return ids;
}

export const listings: Promises = {
  async "a listing comes by the time of entry, and by insertion among equals"(open) {
    const index = await open(lease);
    for (const [id, since] of [
      ["c", 3],
      ["a", 1],
      ["b2", 2],
      ["b1", 2],
      ["d", -4],
    ] as const) {
      await index.insert({ id, since, data: {} });
    }
    equal(await idsOf(index.byState("active")), ["d", "a", "b2", "b1", "c"]);
    equal(await idsOf(index.byState("active", { reverse: true })), ["c", "b1", "b2", "a", "d"]);
    equal(await idsOf(index.byState("active", { enteredAfter: 1 })), ["b2", "b1", "c"]);
    equal(await idsOf(index.byState("active", { enteredBefore: 2 })), ["d", "a"]);
    equal(await idsOf(index.byState("active", { enteredAfter: -4, enteredBefore: 3, limit: 2 })), ["a", "b2"]);
    equal(await idsOf(index.byState("active", { limit: 0 })), []);
    // A range that ends before it begins.
    const { cursor: after } = (await index.get("b2")) as StateRecord<unknown, string>;
    equal(await idsOf(index.byState("active", { after, enteredBefore: 1 })), []);
    equal(await idsOf(index.byState("active", { after, enteredAfter: 2, reverse: true })), []);
    equal(await idsOf(index.byState("active", { enteredAfter: 3, enteredBefore: 1 })), []);
    equal(await idsOf(index.byState("completed")), []);
    equal(await idsOf(index.byState([])), []);
  },

  async "a listing of several states is one listing in order"(open) {
    const index = await open(lease);
    for (let n = 0; n < 12; n++) {
      await index.insert({ id: `${n}`, since: n, state: (["active", "failed", "expired"] as const)[n % 3], data: {} });
    }
    equal(await idsOf(index.byState(["failed", "active", "failed"])), ["0", "1", "3", "4", "6", "7", "9", "10"]);
    equal(await idsOf(index.byState(["expired", "dangling", "active"], { reverse: true, limit: 3 })), ["11", "9", "8"]);
  },

  async "a cursor goes on behind its record, in either direction, also when that record is gone"(open) {
    const index = await open(lease);
    for (let n = 0; n < 10; n++) await index.insert({ id: `${n}`, since: Math.floor(n / 4), data: {} });
    const all: StateRecord<unknown, string>[] = [];
    for await (const record of index.byState("active")) all.push(record);
    for (const [at, { cursor }] of all.entries()) {
      const behind = all.slice(at + 1).map(({ id }) => id);
      const before = all.slice(0, at).map(({ id }) => id);
      equal(await idsOf(index.byState("active", { after: cursor })), behind);
      equal(await idsOf(index.byState("active", { after: cursor, reverse: true })), before.reverse());
    }
    await index.transition("4", "completed");
    equal(await idsOf(index.byState("active", { after: all[4]?.cursor })), ["5", "6", "7", "8", "9"]);
    for (const after of ["", "x", "1", "1.2.3"]) {
      await rejects(idsOf(index.byState("active", { after })), { code: "INVALID_ARGUMENT" });
    }
    for (const limit of [-1, 1.5, "2", null]) {
      await rejects(idsOf(index.byState("active", { limit: limit as number })), { code: "INVALID_ARGUMENT" });
    }
    await rejects(idsOf(index.byState("no such state" as never)), { code: "LIFECYCLE_MISMATCH" });
  },

  async "more records than a page holds come whole, once each, in order"(open) {
    const index = await open(lease);
    const ids = Array.from({ length: 700 }, (_, n) => `${n}`);
    await Promise.all(ids.map((id) => index.insert({ id, since: 7, data: { text: "x".repeat(50) } })));
    equal((await idsOf(index.byState("active"))).sort(), [...ids].sort());
    equal(await idsOf(index.byState("active", { reverse: true })), (await idsOf(index.byState("active"))).reverse());
    const large = await open({ name: "large", lifecycle: stepLeaseLifecycle });
    const text = "x".repeat(200_000);
    for (let n = 0; n < 70; n++) await large.insert({ id: `${n}`, since: n, data: { text } });
    equal(await idsOf(large.byState("active")), ids.slice(0, 70));
  },

  async "what a listing returns, get returns, whatever happens meanwhile"(open) {
    const index = await open({ name: "workers", lifecycle: workerLifecycle, indexes: { fleet: () => "fleet" } });
    for (let n = 0; n < 300; n++) await index.insert({ id: `${n}`, data: {} });
    let stop = false;
    const churn = async () => {
      for (let n = 0; !stop; n++) await index.transition(`${n % 300}`, n % 2 ? "idle" : "busy");
    };
    const read = async () => {
      try {
        for (let round = 0; round < 5; round++) {
          for await (const record of index.byState(["idle", "busy"])) {
            const now = await index.get(record.id);
            ok(now !== null && now.revision >= record.revision);
          }
          equal((await idsOf(index.by("fleet", "fleet"))).length >= 300, true);
        }
      } finally {
        stop = true;
      }
    };
    await allOf([churn, read]);
  },

  async "a secondary index finds a record under the keys it has now, each with the state in front"(open) {
    interface Data {
      worker?: string;
      tags?: string[];
    }
    const index = await open<Data, "active" | "completed" | "failed" | "expired">({
      ...lease,
      indexes: {
        worker: (r) => r.data.worker,
        tag: (r) => r.data.tags,
        open: (r) => (r.state === "active" ? "yes" : undefined),
      },
    });
    await index.insert({ id: "a", since: 1, data: { worker: "w1", tags: ["x", "y", "x"] } });
    await index.insert({ id: "b", since: 2, data: { worker: "w1" } });
    await index.insert({ id: "c", since: 3, data: { worker: "w2", tags: [] } });
    equal(await idsOf(index.by("worker", "w1")), ["a", "b"]);
    equal(await idsOf(index.by("tag", "x")), ["a"]);
    await index.update("a", { worker: "w2" });
    equal(await idsOf(index.by("worker", "w1")), ["b"]);
    equal(await idsOf(index.by("worker", "w2")), ["a", "c"]);
    await index.transition("c", "failed");
    equal(await idsOf(index.by("worker", "w2", { state: "active" })), ["a"]);
    equal(await idsOf(index.by("worker", "w2", { state: ["failed", "completed"] })), ["c"]);
    equal(await idsOf(index.by("worker", "w2", { reverse: true, limit: 1 })), ["c"]);
    equal(await idsOf(index.by("open", "yes")), ["a", "b"]);
    const { cursor } = (await index.get("a")) ?? {};
    equal(await idsOf(index.by("worker", "w2", { after: cursor })), ["c"]);
    equal(await idsOf(index.by("worker", "nobody")), []);
    await rejects(idsOf(index.by("no such index", "k")), { code: "INVALID_ARGUMENT" });
    await index.update("c", { worker: "" });
    equal(await idsOf(index.by("worker", "")), ["c"]);
    ok((await index.verify()).ok);
    await rejects(idsOf(index.by("worker", "w", { state: "x" as never })), { code: "LIFECYCLE_MISMATCH" });
  },

  async "counts are those of the states as they are"(open) {
    const index = await open(lease);
    for (let n = 0; n < 9; n++) await index.insert({ id: `${n}`, data: {} });
    for (let n = 0; n < 4; n++) await index.transition(`${n}`, n < 3 ? "completed" : "failed");
    equal([await index.count(), await index.count("active"), await index.count("completed")], [9, 5, 3]);
    equal([await index.count("failed"), await index.count("expired"), await index.count("dangling")], [1, 0, 0]);
    await rejects(index.count("x" as never), { code: "LIFECYCLE_MISMATCH" });
    const { records } = await index.stats();
    equal([records["active"], records["failed"]], [5, 1]);
  },

  async "a listing that is left or aborted in the middle leaves the index usable"(open) {
    const index = await open(lease);
    for (let n = 0; n < 100; n++) await index.insert({ id: `${n}`, data: {} });
    for await (const { id } of index.byState("active")) if (id === "3") break;
    const abort = new AbortController();
    const reason = new Error("enough");
    const seen: string[] = [];
    await rejects(async () => {
      for await (const { id } of index.byState("active", { signal: abort.signal })) {
        seen.push(id);
        if (seen.length === 5) abort.abort(reason);
      }
    }, reason);
    equal(seen.length, 5);
    equal(await index.count(), 100);
  },
};

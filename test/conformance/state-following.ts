/** Those who follow an index: watchers, the mirror, and the retention that waits for it. */
import { deepStrictEqual as equal, ok, rejects } from "node:assert/strict";
import { runLifecycle, stepLeaseLifecycle } from "../../src/state/lifecycle.ts";
import type { StateIndex, StateMirror, StateTransition } from "../../src/state/model.ts";
import { later } from "./case.ts";
import { slackOf, timeAt } from "./state-clock.ts";
import type { Promises } from "./state-index.ts";

const lease = { name: "lease", lifecycle: stepLeaseLifecycle };
type LeaseState = "active" | "completed" | "failed" | "expired";
type Seen = StateTransition<unknown, LeaseState>;

const short = ({ id, from, to, record }: Seen) => `${id} ${from}->${to} ${record.revision}`;

async function take<T>(from: AsyncIterator<T>, count: number): Promise<T[]> {
  const taken: T[] = [];
  while (taken.length < count) {
    const next = await from.next();
    if (next.done) break;
    taken.push(next.value);
  }
  return taken;
}

/** Until it holds; fails after ten seconds. */
async function until(holds: () => boolean | Promise<boolean>, what: string): Promise<void> {
  for (const start = performance.now(); !(await holds()); ) {
    if (performance.now() - start > 10_000) throw new Error(`never came: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Keeps what it is given; fails where it is told to. */
class Recorder implements StateMirror<unknown, LeaseState> {
  readonly written: string[] = [];
  readonly calls: string[] = [];
  failing = (_: Seen): boolean => false;

  locate(record: { id: string }): string {
    return `/mirror/${record.id}`;
  }

  async onWillWrite(paths: string[]): Promise<void> {
    this.calls.push(`will ${paths.join()}`);
  }

  async write(transition: Seen): Promise<{ path: string; version: number; metadata: Record<string, unknown> }> {
    if (this.failing(transition)) throw new Error("the mirror is full");
    this.written.push(short(transition));
    this.calls.push(`write ${transition.id}`);
    return { path: this.locate(transition.record), version: transition.record.revision, metadata: {} };
  }

  async onWritten(transition: Seen, receipt?: { version: number }): Promise<void> {
    this.calls.push(`written ${transition.id} ${receipt?.version}`);
  }
}

const drained = (index: StateIndex<unknown, LeaseState>) => async () => (await index.stats()).mirror.pending === 0;

export const following: Promises = {
  async "a write that the mirror refuses once holds up what follows of its record, however much else there is"(open) {
    const recorder = new Recorder();
    let refused = false;
    recorder.failing = ({ id, record }) => {
      const refuses = !refused && id === "7" && record.revision === 1;
      refused ||= refuses;
      return refuses;
    };
    const write = recorder.write.bind(recorder);
    // Long enough that the pause after the refusal ends within one pass through all that waits.
    recorder.write = async (transition) => {
      await new Promise((resolve) => setTimeout(resolve, 2));
      return write(transition);
    };
    const index = await open({ ...lease, mirror: recorder });
    await Promise.all(
      Array.from({ length: 400 }, async (_, n) => {
        await index.insert({ id: `${n}`, data: {} });
        await index.update(`${n}`, { marked: true });
        await index.transition(`${n}`, "completed");
      }),
    );
    await until(drained(index), "all that was refused");
    const ofSeven = recorder.written.filter((written) => written.startsWith("7 "));
    equal(ofSeven, ["7 null->active 1", "7 active->active 2", "7 active->completed 3"]);
  },

  async "a watcher sees every change from the call on, in order, whichever handle makes it"(open) {
    const [one, other] = [await open(lease), await open(lease)];
    await one.insert({ id: "before", data: {} });
    const watcher = other.watch();
    await one.insert({ id: "a", data: { n: 1 } });
    const marked = await other.update("a", { n: 2 });
    await one.transition("a", "completed");
    await other.sweep({ from: "active", to: "expired" });
    const seen = await take(watcher, 4);
    equal(seen.map(short), [
      "a null->active 1",
      "a active->active 2",
      "a active->completed 3",
      "before active->expired 2",
    ]);
    equal(seen[1]?.record, marked);
    ok(seen.every(({ sequence }, at) => at === 0 || sequence > (seen[at - 1]?.sequence ?? 0)));
    await watcher.return?.();
  },

  async "a watcher of some states sees changes into these only, and of its own index only"(open) {
    const index = await open(lease);
    const runs = await open({ name: "run", lifecycle: runLifecycle });
    const watcher = index.watch({ states: ["failed", "completed"] });
    await runs.insert({ id: "r", data: {} });
    await runs.transition("r", "failed");
    for (const [id, to] of [
      ["a", "failed"],
      ["b", "expired"],
      ["c", "completed"],
    ] as const) {
      await index.insert({ id, data: {} });
      await index.transition(id, to);
    }
    equal((await take(watcher, 2)).map(short), ["a active->failed 2", "c active->completed 2"]);
    await watcher.return?.();
    await rejects(async () => index.watch({ states: ["x" as never] }), { code: "LIFECYCLE_MISMATCH" });
  },

  async "a watcher that waits is woken, misses nothing under load, and ends by abort, return or close"(open) {
    const index = await open(lease);
    const watcher = index.watch();
    const waiting = later(watcher.next());
    await index.insert({ id: "0", data: {} });
    equal((await waiting).value.id, "0");
    const inserts = Array.from({ length: 600 }, (_, n) => index.insert({ id: `${n + 1}`, data: {} }));
    const [seen] = await Promise.all([take(watcher, 600), ...inserts]);
    equal(new Set(seen.map(({ id }) => id)).size, 600);
    const abort = new AbortController();
    const reason = new Error("enough");
    const aborted = later(index.watch({ signal: abort.signal }).next());
    abort.abort(reason);
    await rejects(aborted, reason);
    const returned = index.watch();
    const pending = later(returned.next());
    await returned.return?.();
    equal((await pending).done, true);
    const last = later(watcher.next());
    await index.close();
    equal((await last).done, true);
  },

  async "the mirror gets every change once, in order per record, told before and after"(open) {
    const mirror = new Recorder();
    const index = await open<unknown, LeaseState>({ ...lease, mirror });
    for (const id of ["a", "b"]) await index.insert({ id, data: {} });
    await index.update("a", { n: 1 });
    await Promise.all([index.transition("a", "completed"), index.transition("b", "failed")]);
    await until(drained(index), "an empty outbox");
    equal(
      mirror.written.filter((each) => each.startsWith("a")),
      ["a null->active 1", "a active->active 2", "a active->completed 3"],
    );
    equal(
      mirror.written.filter((each) => each.startsWith("b")),
      ["b null->active 1", "b active->failed 2"],
    );
    equal(mirror.calls.filter((each) => each.endsWith("b") || each.includes(" b ")).slice(0, 3), [
      "will /mirror/b",
      "write b",
      "written b 1",
    ]);
  },

  async "a mirror that fails delays no commit and no other record, is tried again, and its lag can be seen"(
    open,
    clock,
  ) {
    const mirror = new Recorder();
    mirror.failing = ({ id }) => id === "a";
    const index = await open<unknown, LeaseState>({ ...lease, mirror });
    const { createdAt } = await index.insert({ id: "a", data: {} });
    await index.insert({ id: "b", data: {} });
    await index.transition("a", "completed");
    await until(() => mirror.written.length === 1, "the other record");
    const { pending, oldestAt, lastError } = (await index.stats()).mirror;
    ok(pending >= 2, `${pending} pending`); // The other one may still have to be struck off.
    equal(lastError, "Error: the mirror is full");
    const slackMs = slackOf(clock);
    ok(oldestAt !== null && oldestAt >= createdAt - slackMs && oldestAt <= (await timeAt(open)) + slackMs);
    mirror.failing = () => false;
    await until(drained(index), "the second try");
    equal(mirror.written, ["b null->active 1", "a null->active 1", "a active->completed 2"]);
    equal((await index.stats()).mirror.lastError, null);
  },

  async "changes wait for the mirror over a restart, also those made where there is none; until it is given up"(open) {
    const first = new Recorder();
    first.failing = () => true;
    const index = await open<unknown, LeaseState>({ ...lease, mirror: first });
    await index.insert({ id: "a", data: {} });
    await index.close();
    const without = await open<unknown, LeaseState>(lease);
    await without.transition("a", "failed");
    equal((await without.stats()).mirror.pending, 2);
    await without.close();
    const second = new Recorder();
    const again = await open<unknown, LeaseState>({ ...lease, mirror: second });
    await until(drained(again), "the delivery of what was left");
    equal(second.written, ["a null->active 1", "a active->failed 2"]);
    await again.close();
    const never = await open<unknown, LeaseState>({ ...lease, mirror: false });
    await never.insert({ id: "b", data: {} });
    equal((await never.stats()).mirror.pending, 0);
  },

  async "nothing is pruned before the mirror has it"(open) {
    const mirror = new Recorder();
    mirror.failing = () => true;
    const index = await open<unknown, LeaseState>({ ...lease, mirror });
    await index.insert({ id: "a", state: "completed", since: 1, data: {} });
    equal(await index.prune({ states: ["completed"] }), 0);
    ok((await index.get("a")) !== null);
    mirror.failing = () => false;
    await until(drained(index), "the second try");
    equal(await index.prune({ states: ["completed"] }), 1);
  },

  async "terminal records go thirty days after they ended, unless told otherwise; live ones stay"(open) {
    const day = 86_400_000;
    const now = await timeAt(open);
    const ago = (days: number) => now - days * day;
    const records = [
      { id: "old", state: "completed", since: ago(31) },
      { id: "recent", state: "completed", since: ago(29) },
      { id: "live", state: "active", since: ago(400) },
    ] as const;
    const fillAnd = async (options: object) => {
      const index = await open<unknown, LeaseState>({ ...lease, retention: false });
      for (const record of records)
        if ((await index.get(record.id)) === null) await index.insert({ ...record, data: {} });
      await index.close();
      return open<unknown, LeaseState>({ ...lease, ...options });
    };
    const kept = await fillAnd({ retention: false });
    equal(await kept.count(), 3);
    await kept.close();
    const byDefault = await fillAnd({ retention: undefined });
    await until(async () => (await byDefault.get("old")) === null, "the default retention");
    equal([(await byDefault.get("recent"))?.state, (await byDefault.get("live"))?.state], ["completed", "active"]);
    await byDefault.close();
    const shorter = await fillAnd({ retention: { endedForMs: 28 * day } });
    await until(async () => (await shorter.count("completed")) === 0, "a shorter retention");
    equal(await shorter.count(), 1);
  },
};

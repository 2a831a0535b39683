/** The state index, its opening, and the reaping of runs. */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { expect } from "vitest";
import { currentProcessIdentity } from "../../src/liveness/index.ts";
import {
  defineLifecycle,
  type ImportItem,
  openLeaseIndex,
  openStateIndex,
  type PostgresSource,
  type RunRecord,
  reapRuns,
  type StateIndex,
} from "../../src/state/index.ts";
import { attempt, type Call, having, iterate, type Reached, type Room, turns } from "./call.ts";

interface Data {
  group: string;
  note?: string;
}
type State = "active" | "busy" | "done";
export type Things = StateIndex<Data, State>;

type O = { signal?: AbortSignal };
type Where = { dir: string } | { postgres: PostgresSource };

/** Where the indexes of a room are. */
export interface StatePlace {
  where: Where;
  /** More records than one commit's. */
  many: number;
  /** Others like it, by number; nobody has them open. */
  apart(n: number): Where;
  /** Makes all connections that there may be: one that came up in the midst of a call would seem to be left by it. */
  connect?(index: Things): Promise<void>;
  /** What is left there that this process cannot see. */
  left?(): Promise<string[]>;
  remove?(): Promise<void>;
}

interface World {
  place: StatePlace;
  things: Things;
  /** For what moves many records at once. */
  many: Things;
}

const lifecycle = defineLifecycle<State>({
  initial: "active",
  transitions: { active: ["busy", "done"], busy: ["active", "done"], done: [] },
});

const openThings = (where: Where, name: string, o: O = {}): Promise<Things> =>
  openStateIndex<Data, State>({
    ...o,
    ...where,
    name,
    lifecycle,
    indexes: { group: ({ data }) => data.group },
    retention: false,
  });

/** What is seen of a record. */
interface Thing {
  state: string;
  revision: number;
  note?: string | undefined;
}

async function groupIn(index: Things, group: string): Promise<Record<string, Thing>> {
  const seen: Record<string, Thing> = {};
  for await (const { id, state, revision, data } of index.by("group", group))
    seen[id] = { state, revision, note: data.note };
  return seen;
}

const countOf = (seen: Record<string, Thing>, state: State): number =>
  Object.values(seen).filter((each) => each.state === state).length;

/** Brings `count` records of the group into `index`, in order. */
async function fill(index: Things, group: string, count: number, more: { state?: State; since?: number } = {}) {
  const ids = Array.from({ length: count }, (_, n) => `${group}-${n}`);
  await Promise.all(ids.map((id) => index.insert({ id, data: { group }, ...more })));
}

/** Changes one record, which is there or not. */
function changesOne(
  there: boolean,
  call: (index: Things, id: string, group: string, o: O) => Promise<unknown>,
  to: Thing,
) {
  return {
    async prepare({ things }, n) {
      const group = `one-${randomUUID()}`;
      const id = `record-${group}-${n}`;
      if (there) await things.insert({ id, data: { group } });
      return attempt({
        call: (signal) => call(things, id, group, having(signal)),
        look: () => groupIn(things, group),
        check: (value, seen) =>
          expect(value).toMatchObject({ id, state: seen[id]?.state, revision: seen[id]?.revision }),
        done: ({ [id]: now }) => now?.revision === to.revision && now.state === to.state && now.note === to.note,
      });
    },
  } satisfies Call<World>;
}

/** Reads the records of a group of two. */
function readsGroup<Value>(
  call: (index: Things, group: string, o: O, reached: Reached) => Promise<Value>,
  check: (value: Value, group: string) => void,
  more: Partial<Call<World>> = {},
): Call<World> {
  return {
    repeats: 500,
    ...more,
    async prepare({ things }) {
      const group = `two-${randomUUID()}`;
      await fill(things, group, 2);
      return attempt({
        call: (signal, reached) => call(things, group, having(signal), reached),
        look: () => groupIn(things, group),
        check: (value: Value) => check(value, group),
      });
    },
  };
}

export const stateIn = (name: string, placeIn: (dir: string) => StatePlace): Room<World> => ({
  name,
  async open(dir) {
    const place = placeIn(dir);
    const [things, many] = [await openThings(place.where, "things"), await openThings(place.where, "many")];
    await place.connect?.(things);
    return { place, things, many };
  },
  async close({ place, things, many }) {
    for (const index of [things, many]) {
      expect((await index.verify()).problems).toEqual([]);
      await index.close();
    }
    await place.remove?.();
  },
  left: async ({ place }) => (await place.left?.()) ?? [],
  calls: {
    "StateIndex.insert": changesOne(false, (index, id, group, o) => index.insert({ id, data: { group } }, o), {
      state: "active",
      revision: 1,
    }),
    "StateIndex.put": changesOne(
      true,
      (index, id, group, o) => index.put({ id, state: "busy", data: { group, note: "put" } }, o),
      { state: "busy", revision: 2, note: "put" },
    ),
    "StateIndex.update": changesOne(true, (index, id, _, o) => index.update(id, { note: "new" }, o), {
      state: "active",
      revision: 2,
      note: "new",
    }),
    "StateIndex.transition": changesOne(true, (index, id, _, o) => index.transition(id, "done", o), {
      state: "done",
      revision: 2,
    }),
    "StateIndex.beginEpoch": {
      prepare: ({ things }) =>
        attempt({
          call: (signal) => things.beginEpoch(having(signal)),
          look: async () => ({ epoch: (await things.stats()).epoch }),
          check: (value, seen) => expect(value).toBe(seen.epoch),
          done: (seen, before) => seen.epoch === before.epoch + 1,
        }),
    },
    "StateIndex.get": readsGroup(
      (index, group, o) => index.get(`${group}-0`, o),
      (record, group) => expect(record).toMatchObject({ state: "active", data: { group } }),
      { atOnce: true, repeats: 1_000 },
    ),
    "StateIndex.by": readsGroup(
      (index, group, o, reached) => iterate(index.by("group", group, o), reached),
      (records, group) => expect(records.map(({ id }) => id)).toEqual([`${group}-0`, `${group}-1`]),
    ),
    "StateIndex.byState": readsGroup(
      (index, _, o, reached) => iterate(index.byState("active", { ...o, limit: 300 }), reached),
      (records) => expect(records.every((record) => record.state === "active")).toBe(true),
      { repeats: 100 },
    ),
    "StateIndex.count": readsGroup(
      (index, _, o) => index.count("active", o),
      (count) => expect(count).toBeGreaterThanOrEqual(2),
      { atOnce: true, repeats: 1_000 },
    ),
    "StateIndex.stats": readsGroup(
      (index, _, o) => index.stats(o),
      ({ records }) => expect(records["active"]).toBeGreaterThanOrEqual(2),
      { atOnce: true, repeats: 1_000 },
    ),
    "StateIndex.verify": readsGroup(
      (index, _, o) => index.verify(o),
      ({ ok }) => expect(ok).toBe(true),
      { sparse: true, repeats: 2 },
    ),
    "StateIndex.watch": {
      repeats: 100,
      prepare({ things }) {
        const id = `watched-${randomUUID()}`;
        /** Somebody else's: it goes on whatever becomes of the watching. */
        let inserted: Promise<unknown> = Promise.resolve();
        return attempt({
          async call(signal, reached) {
            const changes = things.watch(having(signal));
            const first = changes.next();
            first.catch(() => {});
            inserted = inserted.then(() => things.put({ id, state: "active", data: { group: id } }));
            const { value } = await first;
            reached();
            await changes.return?.();
            return value;
          },
          async look() {
            await inserted;
            return null;
          },
          check: (value) => expect(value).toMatchObject({ id, to: "active" }),
        });
      },
    },
    "StateIndex.sweep": {
      inParts: true,
      async prepare({ many }) {
        const group = `sweep-${randomUUID()}`;
        await fill(many, group, 60);
        return attempt({
          call: (signal, reached) =>
            many.sweep({
              ...having(signal),
              from: "active",
              to: "done",
              by: { index: "group", key: group },
              batchSize: 20,
              onProgress: () => reached("after"),
            }),
          look: () => groupIn(many, group),
          check(report, seen, before) {
            expect(report.transitioned).toBe(countOf(seen, "done") - countOf(before, "done"));
            if (!report.aborted) expect(countOf(seen, "done")).toBe(60);
          },
          done: (seen) => countOf(seen, "done") === 60,
        });
      },
    },
    "StateIndex.import": {
      inParts: true,
      sparse: true,
      repeats: 2,
      prepare({ many, place }) {
        const group = `import-${randomUUID()}`;
        return attempt({
          call: (signal, reached) =>
            many.import(group, (since) => source(group, place.many, since, reached), {
              ...having(signal),
              onProgress: () => reached("after"),
            }),
          look: () => groupIn(many, group),
          check(report, seen, before) {
            expect(report.inserted).toBe(countOf(seen, "active") - countOf(before, "active"));
            // The next import begins behind what is there.
            expect(Number(report.watermark)).toBe(countOf(seen, "active"));
          },
          done: (seen) => countOf(seen, "active") === place.many,
        });
      },
    },
    "StateIndex.prune": {
      inParts: true,
      sparse: true,
      repeats: 2,
      async prepare({ many, place }) {
        const group = `prune-${randomUUID()}`;
        await fill(many, group, place.many, { state: "done", since: 1 });
        return attempt({
          call: (signal) => many.prune({ ...having(signal), states: ["done"], endedBefore: 2 }),
          look: () => groupIn(many, group),
          check: (removed, seen, before) => expect(removed).toBe(countOf(before, "done") - countOf(seen, "done")),
          done: (seen) => countOf(seen, "done") === 0,
        });
      },
    },
  },
});

async function* source(
  group: string,
  count: number,
  since: string | null,
  reached: Reached,
): AsyncGenerator<ImportItem<Data, State>> {
  for (let n = Number(since ?? 0); n < count; n++) {
    if (n % 400 === 0) {
      await turns(1);
      reached();
    }
    yield { id: `${group}-${n}`, state: "active", since: n + 1, data: { group }, watermark: String(n + 1) };
  }
}

/** Opens what is closed again when it has been looked at. */
function opens(
  open: (place: StatePlace, o: O, n: number) => Promise<StateIndex<never, never>>,
  more: Partial<Call<Openings>> = {},
): Call<Openings> {
  return {
    repeats: 2,
    ...more,
    prepare({ place }, n) {
      let opened: StateIndex<never, never> | null = null;
      return attempt({
        async call(signal) {
          opened = await open(place, having(signal), n);
          return opened;
        },
        look: () => null,
        check: () => {},
        done: () => opened !== null,
        async end() {
          expect(await opened?.count()).toBe(0);
          await opened?.close();
        },
      });
    },
  };
}

interface Openings {
  place: StatePlace;
  /** Keeps the place open. */
  other: Things;
}

export const stateOpeningsIn = (name: string, placeIn: (dir: string) => StatePlace): Room<Openings> => ({
  name,
  async open(dir) {
    const place = placeIn(dir);
    const other = await openThings(place.where, "other");
    await place.connect?.(other);
    return { place, other };
  },
  async close({ place, other }) {
    await other.close();
    await place.remove?.();
  },
  left: async ({ place }) => (await place.left?.()) ?? [],
  calls: {
    openStateIndex: opens(({ where }, o) => openThings(where, "things", o) as Promise<never>),
    "openStateIndex, the first of its place": opens(
      ({ apart }, o) => openThings(apart(0), "things", o) as Promise<never>,
      { sparse: true },
    ),
    "openStateIndex, where nothing is yet": opens(
      ({ apart }, o, n) => openThings(apart(n), "things", o) as Promise<never>,
      { sparse: true },
    ),
    openLeaseIndex: opens(({ where }, o) => openLeaseIndex({ ...o, ...where }) as Promise<never>),
  },
});

const inDirectory = (dir: string): StatePlace => ({
  where: { dir },
  many: 1_100,
  apart: (n) => ({ dir: join(dir, `apart-${n}`) }),
});

export const state = stateIn("state", inDirectory);
export const stateOpenings = stateOpeningsIn("opening state", inDirectory);

const ended = { ...currentProcessIdentity(), instanceId: randomUUID(), pid: 2 ** 30 };

export const runs: Room<null> = {
  name: "runs",
  open: () => null,
  close() {},
  calls: {
    reapRuns: {
      inParts: true,
      repeats: 300,
      prepare() {
        const running = new Map<string, RunRecord>(["a", "b", "c"].map((id) => [id, { id, owner: ended }]));
        return attempt({
          call: (signal, reached) =>
            reapRuns(
              {
                async *running() {
                  for (const run of [...running.values()]) {
                    await turns(1);
                    reached();
                    yield run;
                  }
                },
                async end(id) {
                  await turns(1);
                  reached("after");
                  return running.delete(id);
                },
              },
              having(signal),
            ),
          look: () => [...running.keys()],
          check(report, seen, before) {
            expect(report.reaped.map(({ id }) => id)).toEqual(before.filter((id) => !seen.includes(id)));
            if (!report.aborted) expect(seen).toEqual([]);
          },
          done: (seen) => seen.length === 0,
        });
      },
    },
  },
};

/** The control-plane store and its opening. */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { expect } from "vitest";
import { type ControlPlaneStore, openControlPlaneStore, type PostgresSource } from "../../src/state/index.ts";
import { attempt, type Call, having, type Room } from "./call.ts";
import { treeOf } from "./residue.ts";

type Where = { dir: string } | { postgres: PostgresSource };

/** Where the records of a room are. */
export interface RecordsPlace {
  where: Where;
  /** All that is there, by key or path: drafts and directories, too. */
  look(): Record<string, string> | Promise<Record<string, string>>;
  /** Another like it, which nobody has open, and what an opening leaves there; none where it costs too much. */
  apart?(): RecordsPlace & { made: Record<string, string> };
  /** What is left there that this process cannot see. */
  left?(): Promise<string[]>;
  /** Makes all connections that there may be. */
  connect?(): Promise<void>;
  remove?(): Promise<void>;
}

interface World {
  place: RecordsPlace;
  store: ControlPlaneStore;
}

const text = (bytes: Uint8Array | null): string | null => (bytes === null ? null : Buffer.from(bytes).toString());

/** A call on a key of its own, which is there with the content `old` or not. */
function onKey<Value>(
  there: boolean,
  call: (store: ControlPlaneStore, key: string, o: { signal?: AbortSignal }) => Promise<Value>,
  check: (value: Value, key: string) => void,
  content: string | null,
): Call<World> {
  return {
    repeats: 20,
    async prepare({ place, store }) {
      const group = randomUUID();
      const key = `${group}/a/b`;
      if (there) await store.put(key, Buffer.from("old"));
      return attempt({
        call: (signal) => call(store, key, having(signal)),
        look: () => place.look(),
        check: (value: Value) => check(value, key),
        done: (seen) =>
          (Object.entries(seen).find(([path]) => path.startsWith(`${group}/a/b`))?.[1] ?? null) === content,
        end: () => store.delete(key),
      });
    },
  };
}

export const controlPlaneIn = (name: string, placeIn: (base: string) => RecordsPlace): Room<World> => ({
  name,
  async open(base) {
    const place = placeIn(base);
    const store = await openControlPlaneStore(place.where);
    await place.connect?.();
    return { place, store };
  },
  async close({ place, store }) {
    await store.close();
    await place.remove?.();
  },
  left: async ({ place }) => (await place.left?.()) ?? [],
  calls: {
    "ControlPlaneStore.put": onKey(
      false,
      (store, key, o) => store.put(key, Buffer.from("new"), o),
      () => {},
      "new",
    ),
    "ControlPlaneStore.put, over what is there": onKey(
      true,
      (store, key, o) => store.put(key, Buffer.from("new"), o),
      () => {},
      "new",
    ),
    "ControlPlaneStore.putIfAbsent": onKey(
      false,
      (store, key, o) => store.putIfAbsent(key, Buffer.from("new"), o),
      (won) => expect(won).toBe(true),
      "new",
    ),
    "ControlPlaneStore.delete": onKey(
      true,
      (store, key, o) => store.delete(key, o),
      () => {},
      null,
    ),
    "ControlPlaneStore.get": onKey(
      true,
      (store, key, o) => store.get(key, o),
      (bytes) => expect(text(bytes)).toBe("old"),
      "old",
    ),
    "ControlPlaneStore.list": onKey(
      true,
      (store, key, o) => store.list(key.slice(0, 20), o),
      (keys, key) => expect(keys).toEqual([key]),
      "old",
    ),
    openControlPlaneStore: {
      repeats: 20,
      prepare({ place }) {
        const { where, look, made } = place.apart?.() ?? { ...place, made: null };
        let opened: ControlPlaneStore | null = null;
        return attempt({
          async call(signal) {
            opened = await openControlPlaneStore({ ...where, ...having(signal) });
            return opened;
          },
          look,
          check(_: unknown, seen, before) {
            expect(seen).toEqual(made ?? before);
          },
          done: () => opened !== null,
          end: () => opened?.close(),
        });
      },
    },
  },
});

const filesIn = (dir: string): RecordsPlace => ({
  where: { dir },
  look: () => treeOf(dir),
  apart: () => ({ ...filesIn(`${dir}-${randomUUID()}`), made: { ".tmp/": "" } }),
});

export const controlPlane = controlPlaneIn("control plane", (base) => filesIn(join(base, "records")));

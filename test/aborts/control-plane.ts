/** The control-plane store and its opening. */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { expect } from "vitest";
import { type ControlPlaneStore, openControlPlaneStore } from "../../src/state/index.ts";
import { attempt, type Call, having, type Room } from "./call.ts";
import { treeOf } from "./residue.ts";

interface World {
  dir: string;
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
    async prepare({ dir, store }) {
      const group = randomUUID();
      const key = `${group}/a/b`;
      if (there) await store.put(key, Buffer.from("old"));
      return attempt({
        call: (signal) => call(store, key, having(signal)),
        // All files and directories, drafts among them.
        look: () => treeOf(dir),
        check: (value: Value) => check(value, key),
        done: (seen) =>
          (Object.entries(seen).find(([path]) => path.startsWith(`${group}/a/b`))?.[1] ?? null) === content,
        end: () => store.delete(key),
      });
    },
  };
}

export const controlPlane: Room<World> = {
  name: "control plane",
  async open(base) {
    const dir = join(base, "records");
    return { dir, store: await openControlPlaneStore({ dir }) };
  },
  close: ({ store }) => store.close(),
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
      prepare({ dir }) {
        const place = `${dir}-${randomUUID()}`;
        let opened: ControlPlaneStore | null = null;
        return attempt({
          async call(signal) {
            opened = await openControlPlaneStore({ dir: place, ...having(signal) });
            return opened;
          },
          look: () => treeOf(place),
          check: (_: unknown, seen) => expect(seen).toEqual({ ".tmp/": "" }),
          done: () => opened !== null,
          end: () => opened?.close(),
        });
      },
    },
  },
};

/** Control-plane records in memory, as an author of a store would write them: by the package's types and manual alone. */
import type { ControlPlaneStore } from "../../src/state/index.ts";

const MAX_KEY_BYTES = 1_024;

/** The records of a place, in whatever order they came. */
export type MemoryPlace = Map<string, Uint8Array>;

function refuse(code: string, message: string): never {
  throw Object.assign(new Error(message), { code });
}

/** Every call has done its work, or refused it, when it returns its promise. */
export function openMemoryStore(place: MemoryPlace): ControlPlaneStore {
  let isOpen = true;

  const begin = (signal?: AbortSignal) => {
    if (!isOpen) refuse("CLOSED", "the store is closed");
    signal?.throwIfAborted();
  };
  const checkPrefix = (prefix: string) => {
    if (typeof prefix !== "string" || /[\0\p{Surrogate}]/u.test(prefix)) refuse("INVALID_ARGUMENT", "this is no text");
  };
  const checkKey = (key: string) => {
    checkPrefix(key);
    if (key === "") refuse("INVALID_ARGUMENT", "a key is not empty");
    if (Buffer.byteLength(key) > MAX_KEY_BYTES) refuse("KEY_TOO_LONG", `a key has at most ${MAX_KEY_BYTES} bytes`);
  };
  const checkData = (data: Uint8Array) => {
    if (!(data instanceof Uint8Array)) refuse("INVALID_ARGUMENT", "a record is bytes");
  };

  const store: ControlPlaneStore = {
    async put(key, data, { signal } = {}) {
      begin(signal);
      checkKey(key);
      checkData(data);
      place.set(key, data.slice());
    },
    async putIfAbsent(key, data, { signal } = {}) {
      begin(signal);
      checkKey(key);
      checkData(data);
      if (place.has(key)) return false;
      place.set(key, data.slice());
      return true;
    },
    async get(key, { signal } = {}) {
      begin(signal);
      checkKey(key);
      return place.get(key)?.slice() ?? null;
    },
    async delete(key, { signal } = {}) {
      begin(signal);
      checkKey(key);
      place.delete(key);
    },
    async list(prefix, { signal } = {}) {
      begin(signal);
      checkPrefix(prefix);
      const keys = [...place.keys()].filter((key) => key.startsWith(prefix));
      return keys.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    },
    async close() {
      isOpen = false;
    },
    [Symbol.asyncDispose]: () => store.close(),
  };
  return store;
}

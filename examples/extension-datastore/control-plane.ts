/** Control-plane records as objects of the bucket. */
import {
  type AbortOptions,
  ClosedError,
  type ControlPlaneStore,
  InvalidArgumentError,
  KeyTooLongError,
} from "../../src/index.ts";
import type { Bucket } from "./bucket.ts";

const PREFIX = "control-plane/";
const MAX_KEY_BYTES = 1_024;

export class BucketControlPlane implements ControlPlaneStore {
  readonly #bucket: Bucket;
  readonly #calls = new Set<Promise<unknown>>();
  #closed = false;

  constructor(bucket: Bucket) {
    this.#bucket = bucket;
  }

  async put(key: string, data: Uint8Array, o?: AbortOptions): Promise<void> {
    await this.#call(() => this.#bucket.put(objectOf(key), bytesOf(data), { ...o }));
  }

  putIfAbsent(key: string, data: Uint8Array, o?: AbortOptions): Promise<boolean> {
    return this.#call(
      async () => (await this.#bucket.put(objectOf(key), bytesOf(data), { ...o, ifMatch: null })) !== null,
    );
  }

  get(key: string, o?: AbortOptions): Promise<Uint8Array | null> {
    return this.#call(async () => (await this.#bucket.get(objectOf(key), o))?.data ?? null);
  }

  async delete(key: string, o?: AbortOptions): Promise<void> {
    await this.#call(() => this.#bucket.delete(objectOf(key), { ...o }));
  }

  list(prefix: string, o?: AbortOptions): Promise<string[]> {
    return this.#call(async () => {
      if (!isText(prefix)) throw new InvalidArgumentError("prefix", prefix, "text without NUL");
      const objects = await this.#bucket.list(PREFIX + prefix, o);
      return objects.map(({ key }) => key.slice(PREFIX.length));
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled(this.#calls);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #call<R>(work: () => Promise<R>): Promise<R> {
    if (this.#closed) throw new ClosedError("the control-plane store");
    const call = (async () => work())();
    this.#calls.add(call);
    try {
      return await call;
    } finally {
      this.#calls.delete(call);
    }
  }
}

function objectOf(key: unknown): string {
  if (!isText(key) || key === "") throw new InvalidArgumentError("key", key, "text without NUL");
  const bytes = Buffer.byteLength(key);
  if (bytes > MAX_KEY_BYTES) throw new KeyTooLongError("key", key, bytes, MAX_KEY_BYTES);
  return PREFIX + key;
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.isWellFormed() && !value.includes("\0");
}

/** A copy: the caller may go on with its own. */
function bytesOf(data: unknown): Uint8Array {
  if (data instanceof Uint8Array) return new Uint8Array(data);
  throw new InvalidArgumentError("data", data, "bytes");
}

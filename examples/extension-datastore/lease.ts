/**
 * A lock among machines as a lease on one object of the bucket: its holder renews it, and whoever has seen it unchanged for
 * its whole time, on a clock of his own, may take it. Every change of it is conditional: of two who try, one succeeds.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { type AbortOptions, currentProcessIdentity } from "../../src/index.ts";
import type { Bucket } from "./bucket.ts";

export interface LeaseInfo {
  holder: string;
  hostname: string;
  pid: number;
  acquiredAt: string;
  ttlMs: number;
  nonce: string;
  /** Counts the renewals, so that each of them is another content. */
  renewed: number;
}

export interface LeaseOptions extends AbortOptions {
  /** Default 30,000. */
  ttlMs?: number;
}

export interface Lease {
  /** Aborts when the lease is lost, with a {@link LeaseLostError}, and when the caller gives up. */
  readonly signal: AbortSignal;
  /** Call it right before writing: a process that stood still has not noticed yet. @throws LeaseLostError */
  verify(): void;
}

/** The lease was not renewed in time, and somebody else may have it: nothing may be written under it any more. */
export class LeaseLostError extends Error {
  override name = "LeaseLostError";
}

export class BucketLock {
  readonly #bucket: Bucket;
  readonly #key: string;

  constructor(bucket: Bucket, key: string) {
    this.#bucket = bucket;
    this.#key = `locks/${key}`;
  }

  /** Runs `work` while this machine holds the lease. Aborted while it waits, it rejects, and holds nothing. */
  async withLock<R>(work: (lease: Lease) => Promise<R>, options: LeaseOptions = {}): Promise<R> {
    const { ttlMs = 30_000, signal } = options;
    const held = await this.#acquire(ttlMs, signal);
    const lost = new AbortController();
    const done = new AbortController();
    const verify = (): void => {
      if (performance.now() - held.renewedAt > ttlMs) lost.abort(new LeaseLostError(`${this.#key} is lost`));
      lost.signal.throwIfAborted();
    };
    const renewing = (async () => {
      while (!lost.signal.aborted && (await waited(ttlMs / 3, done.signal))) await this.#renew(held, lost);
    })();
    try {
      const either = signal === undefined ? lost.signal : AbortSignal.any([signal, lost.signal]);
      return await work({ signal: either, verify });
    } finally {
      done.abort();
      await renewing;
      await this.#bucket.delete(this.#key, { ifMatch: held.etag });
    }
  }

  async inspect(o?: AbortOptions): Promise<LeaseInfo | null> {
    const object = await this.#bucket.get(this.#key, o);
    return object === null ? null : decode(object.data);
  }

  /** For an operator who knows that the holder is gone. False when another has it by now. */
  async forceRelease(expectedNonce: string, o?: AbortOptions): Promise<boolean> {
    const object = await this.#bucket.get(this.#key, o);
    if (object === null || decode(object.data).nonce !== expectedNonce) return false;
    return this.#bucket.delete(this.#key, { ...o, ifMatch: object.etag });
  }

  /** A store that does not answer is asked again: there are two more tries before the time is over. */
  async #renew(held: Held, lost: AbortController): Promise<void> {
    const askedAt = performance.now();
    const info = { ...held.info, renewed: held.info.renewed + 1 };
    const etag = await this.#bucket.put(this.#key, encode(info), { ifMatch: held.etag }).catch(() => undefined);
    if (typeof etag === "string") Object.assign(held, { info, etag, renewedAt: askedAt });
    else if (etag === null || performance.now() - held.renewedAt > info.ttlMs)
      lost.abort(new LeaseLostError(`${this.#key} is lost`));
  }

  async #acquire(ttlMs: number, signal: AbortSignal | undefined): Promise<Held> {
    const { hostname, pid, instanceId } = currentProcessIdentity();
    const nonce = randomUUID();
    let seen = { etag: "", since: 0 };
    for (;;) {
      const current = await this.#bucket.get(this.#key, { signal });
      if (current !== null && current.etag !== seen.etag) seen = { etag: current.etag, since: performance.now() };
      const renewedAt = performance.now();
      if (current === null || renewedAt - seen.since >= decode(current.data).ttlMs) {
        const acquiredAt = new Date().toISOString();
        const info = { holder: instanceId, hostname, pid, acquiredAt, ttlMs, nonce, renewed: 0 };
        const etag = await this.#bucket.put(this.#key, encode(info), { ifMatch: current?.etag ?? null, signal });
        if (etag !== null) return { info, etag, renewedAt };
      }
      await pause(Math.min(ttlMs / 10, 1_000), undefined, { signal });
    }
  }
}

/** The lease as its holder last wrote it, and when, on the clock of `performance.now()`. */
interface Held {
  info: LeaseInfo;
  etag: string;
  renewedAt: number;
}

/** False when there is nothing to wait for any more. */
async function waited(ms: number, signal: AbortSignal): Promise<boolean> {
  await pause(ms, undefined, { signal }).catch(() => {});
  return !signal.aborted;
}

function encode(info: LeaseInfo): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(info));
}

function decode(data: Uint8Array): LeaseInfo {
  return JSON.parse(new TextDecoder().decode(data)) as LeaseInfo;
}

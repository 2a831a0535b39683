/** Heartbeats: the workers', by which their end is noticed, and the server's own. */
import { setTimeout } from "node:timers/promises";
import { type ControlPlaneStore, currentProcessIdentity } from "../../src/index.ts";

/**
 * When each connection was last heard of, on a clock that nobody sets. In memory: a heartbeat costs no write. One that has
 * ended stays for as long as one that is silent.
 */
export class Heartbeats {
  readonly #heard = new Map<string, { connection: string; at: number }>();

  connected(worker: string, connection: string): void {
    this.#heard.set(worker, { connection, at: performance.now() });
  }

  /** Of an earlier connection, it does not count. Whatever a worker asks for is one. */
  hear(worker: string, connection?: string): void {
    const heard = this.#heard.get(worker);
    if (heard !== undefined && heard.connection === (connection ?? heard.connection)) heard.at = performance.now();
  }

  /** Whether it is connected, or was a short while ago. */
  knows(worker: string): boolean {
    return this.#heard.has(worker);
  }

  forget(worker: string, connection: string): void {
    if (this.#heard.get(worker)?.connection === connection) this.#heard.delete(worker);
  }

  silentFor(ms: number): { worker: string; connection: string }[] {
    const since = performance.now() - ms;
    return [...this.#heard].flatMap(([worker, { connection, at }]) => (at < since ? [{ worker, connection }] : []));
  }
}

/** A worker that was not heard of for so many heartbeats has disconnected. */
const MISSED = 6;

/**
 * Until the signal aborts: says that this server lives, to those who cannot see its lock, and ends the connections that are
 * silent. What fails is tried again with the next heartbeat.
 */
export async function beat(
  controlPlane: ControlPlaneStore,
  heartbeats: Heartbeats,
  everyMs: number,
  end: (worker: string, connection: string) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const identity = currentProcessIdentity();
  const key = `heartbeats/${identity.instanceId}`;
  while (!signal.aborted) {
    const beat = JSON.stringify({ ...identity, at: new Date().toISOString() });
    const silent = heartbeats.silentFor(MISSED * everyMs);
    await Promise.allSettled([
      controlPlane.put(key, new TextEncoder().encode(beat)),
      ...silent.map(async ({ worker, connection }) => {
        await end(worker, connection);
        heartbeats.forget(worker, connection);
      }),
    ]);
    await setTimeout(everyMs, undefined, { signal }).catch(() => {});
  }
  await controlPlane.delete(key);
}

/** Heartbeats as this process has seen them: for how long each has stood still, on a clock that nobody sets. */
import type { RunRecord, RunSource } from "./model.ts";

interface Sighting {
  heartbeat: string;
  /** On the clock of `performance.now()`. */
  since: number;
}

export class Heartbeats {
  readonly #seen = new Map<string, Sighting>();

  /** For how many milliseconds the run's heartbeat has not changed; 0 when it is seen for the first time. */
  stillForMs(run: RunRecord): number {
    const now = performance.now();
    // Another owner's heartbeat is another one, even if it shows the same time.
    const heartbeat = JSON.stringify([run.heartbeatAt, run.owner.instanceId, run.owner.bootId, run.owner.pid]);
    const known = this.#seen.get(run.id);
    if (known?.heartbeat === heartbeat) return now - known.since;
    this.#seen.set(run.id, { heartbeat, since: now });
    return 0;
  }

  /** Forgets the runs that are no more. */
  keepOnly(ids: ReadonlySet<string>): void {
    for (const id of this.#seen.keys()) if (!ids.has(id)) this.#seen.delete(id);
  }
}

const bySource = new WeakMap<RunSource, Heartbeats>();

/** What has been seen of the source's runs, for as long as the source is in use. */
export function heartbeatsOf(source: RunSource): Heartbeats {
  let heartbeats = bySource.get(source);
  if (heartbeats === undefined) {
    heartbeats = new Heartbeats();
    bySource.set(source, heartbeats);
  }
  return heartbeats;
}

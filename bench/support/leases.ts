/** Step leases: a history to ask among, generated once, and the library's index over it. */
import type { ImportItem, LeaseIndex, StepLease, StepLeaseState } from "../../src/state/index.ts";
import { sqliteLeases } from "../baselines/leases.ts";
import { generated } from "./cache.ts";
import { type Context, count } from "./context.ts";
import { load } from "./library.ts";

/** As many as report 1955 found. */
export const ACTIVE = 19;

/** What a lease holds, beside what the history makes of it. */
export function leaseData(n: number): StepLease {
  return {
    leaseId: leaseId(n),
    workerName: `fleet-a-${n % 36}`,
    dispatchId: `dispatch-${n.toString(16).padStart(12, "0")}`,
    modelType: "@acme/runner",
    methodName: "ready",
    stepName: `ready-${n}`,
    hasWrites: true,
  };
}

export function leaseId(n: number): string {
  return `${n.toString(16).padStart(8, "0")}-2222-4333-8444-555555555555`;
}

const BEGAN = Date.UTC(2026, 0, 1);

/** When the n-th entered its state: a second after the one before. */
export function sinceOf(n: number): number {
  return BEGAN + n * 1_000;
}

/** A directory with so many leases that have ended; whoever wants active ones inserts them ({@link keepActive}). */
export function leaseHistory(context: Context, records: number): Promise<string> {
  return generated(`leases-${records}`, async (dir) => {
    const leases = await openLeases(context, dir, "committed");
    const label = `generate ${count(records)} leases`;
    await leases.import("bench", () => ended(records), {
      onProgress: ({ examined }) => context.progress(label, examined, records),
    });
    await leases.close();
    context.progress(label, records, records);
  });
}

/** The same history in {@link sqliteLeases}, for what is to be compared with it. */
export function bareHistory(context: Context, records: number): Promise<string> {
  return generated(`bare-leases-${records}`, async (dir) => {
    const bare = sqliteLeases(dir);
    const label = `generate ${count(records)} leases by hand`;
    for (let from = 0; from < records; from += BARE_BATCH) {
      bare.transaction(() => {
        for (let n = from; n < Math.min(from + BARE_BATCH, records); n++)
          bare.insertEnded(leaseId(n), sinceOf(n), leaseData(n));
      });
      context.progress(label, from, records);
    }
    bare.close();
    context.progress(label, records, records);
  });
}

const BARE_BATCH = 10_000;

async function* ended(records: number): AsyncIterableIterator<ImportItem<StepLease, StepLeaseState>> {
  for (let n = 0; n < records; n++) {
    yield { id: leaseId(n), state: "completed", since: sinceOf(n), data: leaseData(n) };
  }
}

export async function openLeases(
  context: Context,
  dir: string,
  durability: "flushed" | "committed" = "flushed",
): Promise<LeaseIndex> {
  const { openLeaseIndex } = await load(context.library, "state");
  return openLeaseIndex({ dir, durability, retention: false });
}

let inserted = 0;

/** Inserts `howMany` active leases; returns their ids. */
export async function insertActive(leases: LeaseIndex, howMany: number): Promise<string[]> {
  const ids = Array.from({ length: howMany }, () => `active-${process.pid}-${Date.now().toString(36)}-${inserted++}`);
  await Promise.all(ids.map((id, n) => leases.insert({ id, data: { ...leaseData(n), hasWrites: false } })));
  return ids;
}

/** Brings the active ones to exactly `howMany`. */
export async function keepActive(leases: LeaseIndex, howMany: number): Promise<void> {
  const active: string[] = [];
  for await (const { id } of leases.byState("active")) active.push(id);
  await Promise.all(active.slice(howMany).map((id) => leases.transition(id, "completed")));
  await insertActive(leases, Math.max(0, howMany - active.length));
}

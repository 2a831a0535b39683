/** What earlier boots left behind, looked after while the server serves. */
import { type ReapReport, reapRuns, runsOf } from "../../src/index.ts";
import { type Imported, importArtifacts, type Swept, sweepStale } from "../support/boot.ts";
import type { Rooms } from "./rooms.ts";

export interface BootReport {
  /** Runs whose server is gone. */
  reaped: ReapReport;
  /** Records that an older server left as artifacts; null when there is no such place. */
  imported: Imported | null;
  /** What was begun before this boot and nobody goes on with. */
  swept: Swept;
}

export async function lookAfterLeftovers(
  rooms: Rooms,
  { dataDir, instancesDir }: { dataDir?: string; instancesDir: string },
  signal: AbortSignal,
): Promise<BootReport> {
  const reaped = await reapRuns(runsOf(rooms.runs), { instancesDir, signal });
  const imported = dataDir === undefined ? null : await importArtifacts(rooms, dataDir, signal);
  return { reaped, imported, swept: await sweepStale(rooms, signal) };
}

/** Ending the runs whose owner is gone: at once where that is certain, else when its heartbeat has stood still. */
import type { AbortOptions } from "../abort.ts";
import { checkFunction, checkObject, checkOptions, isObject } from "../arguments.ts";
import { InvalidArgumentError } from "../errors.ts";
import { currentProcessIdentity, livenessOf, type Verdict } from "../liveness/identity.ts";
import { type Heartbeats, heartbeatsOf } from "./heartbeats.ts";
import { untilAborted } from "./import.ts";
import type { ReapReport, RunOwner, RunRecord, RunSource } from "./model.ts";

export interface ReapOptions extends AbortOptions {
  /**
   * How long the heartbeat of a run must stand still before it is ended, where nothing else can tell. Default
   * 120,000.
   */
  ttlMs?: number | undefined;
  /** Where processes announce themselves: see `announceInstance`. Without it their PIDs alone decide. */
  instancesDir?: string | undefined;
  /**
   * For a tool that looks once: take a heartbeat that is older than the TTL and this skew, by the wall clocks of its
   * writer and of this machine, for one that stands still. Not for a server, whose clock may be set while it runs.
   */
  allowedSkewMs?: number | undefined;
}

const TTL_MS = 120_000;

/**
 * Judges every run of the source by its owner. Dead: ended at once. Alive: kept, however old its heartbeat. Unknown (an
 * owner in another PID namespace, from another boot or machine, or of which only host name and PID are known): ended
 * when its heartbeat has not changed for `ttlMs`. That is observed on this process's monotonic clock, from call to call
 * with the same source: a server calls this every so often, and a clock that jumps ends nothing. A tool that looks only
 * once gives `allowedSkewMs`. An unknown run that writes no heartbeat is kept.
 *
 * What has changed since it was read is kept. Aborted before the first run was ended: rejects with the signal's reason,
 * and nothing has happened. Later: the report says what was done.
 */
export async function reapRuns(runs: RunSource, options: ReapOptions = {}): Promise<ReapReport> {
  checkOptions(options);
  checkTimes(options);
  checkObject("runs", runs, SOURCE);
  checkFunction("runs.running", runs.running, SOURCE);
  checkFunction("runs.end", runs.end, SOURCE);
  const { signal } = options;
  const heartbeats = heartbeatsOf(runs);
  const report: ReapReport = { reaped: [], kept: [] };
  signal?.throwIfAborted();
  try {
    for await (const run of untilAborted(runs.running(), signal)) {
      checkObject("runs.running()", run, "runs");
      const { verdict, isOver, why } = judge(run, options, heartbeats);
      if (!isOver) report.kept.push({ run, verdict, why });
      else if (await runs.end(run.id, run, why)) report.reaped.push(run);
      else report.kept.push({ run, verdict, why: "it has changed since it was read" });
    }
  } catch (error) {
    if (signal?.aborted && error === signal.reason && report.reaped.length > 0) return { ...report, aborted: true };
    throw error;
  }
  heartbeats.keepOnly(new Set(report.kept.map(({ run }) => run.id)));
  return report;
}

interface Judgement {
  verdict: Verdict;
  isOver: boolean;
  why: string;
}

function judge(run: RunRecord, options: ReapOptions, heartbeats: Heartbeats): Judgement {
  const { instancesDir } = options;
  // Somebody else's program says who it is: where it says nothing, nothing is known, of this run alone.
  const owner: RunOwner = isObject(run.owner) ? run.owner : {};
  const verdict = livenessOf(owner, instancesDir === undefined ? {} : { instancesDir });
  if (verdict === "alive") return { verdict, isOver: false, why: "its process runs" };
  if (verdict === "dead") return { verdict, isOver: true, why: "its process has ended" };
  const { isOver, why } = judgeByHeartbeat(run, options, heartbeats);
  return { verdict, isOver, why: `${whyUnknown(owner)}, and ${why}` };
}

function judgeByHeartbeat(run: RunRecord, options: ReapOptions, heartbeats: Heartbeats): Omit<Judgement, "verdict"> {
  const { ttlMs = TTL_MS, allowedSkewMs } = options;
  if (run.heartbeatAt === undefined) return { isOver: false, why: "it writes no heartbeat: end it by hand" };
  const stillMs = Math.floor(heartbeats.stillForMs(run));
  if (stillMs >= ttlMs) return { isOver: true, why: `its heartbeat has stood still for ${stillMs} ms` };
  if (allowedSkewMs === undefined) {
    return { isOver: false, why: `its heartbeat has been seen to stand still for ${stillMs} of ${ttlMs} ms` };
  }
  const ageMs = Date.now() - run.heartbeatAt;
  const limit = `${ttlMs} ms and a clock skew of ${allowedSkewMs} ms`;
  if (ageMs > ttlMs + allowedSkewMs) return { isOver: true, why: `its heartbeat is ${ageMs} ms old, over ${limit}` };
  return { isOver: false, why: `its heartbeat is ${ageMs} ms old, not over ${limit}` };
}

/** For the operator who wonders why a run is kept that nobody works on. */
function whyUnknown(owner: RunOwner): string {
  const self = currentProcessIdentity();
  if (owner.bootId == null) return "its owner is known by host name and PID at most, which containers share";
  if (owner.bootId !== self.bootId) return "its owner ran on another machine or before a restart of this one";
  if (owner.pidNamespace !== self.pidNamespace) return "its owner ran in another PID namespace";
  return "its owner's PID does not tell";
}

const SOURCE = "a RunSource, such as runsOf(index)";

function checkTimes({ ttlMs, allowedSkewMs }: ReapOptions): void {
  for (const [name, value] of Object.entries({ ttlMs, allowedSkewMs })) {
    if (value !== undefined && !(Number.isFinite(value) && value >= 0)) {
      throw new InvalidArgumentError(name, value, "a number of milliseconds, 0 or more");
    }
  }
}

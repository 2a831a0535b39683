/**
 * Who a process is, so that another one can tell later whether it still runs. A host name and a PID do not say that:
 * containers share host names, and every PID namespace has its own process 7.
 */
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";

/** Fields are null where the system does not tell (outside Linux, or without the permission to read `/proc`). */
export interface ProcessIdentity {
  /** A UUID for each start of a process. A worker thread has one of its own: pass the main thread's to it. */
  readonly instanceId: string;
  /** The kernel's UUID for this boot: equal in all containers of a machine, new after each restart of it. */
  readonly bootId: string | null;
  /** Where PIDs (and start times: a time namespace other than the first is part of it) mean the same. */
  readonly pidNamespace: string | null;
  readonly pid: number;
  /** Clock ticks since boot when the process started: with the PID, unique within a boot and namespace. */
  readonly startTime: number | null;
  /** For people: machine ids are cloned with images. */
  readonly machineId: string | null;
  /** For people: host names are shared by containers. */
  readonly hostname: string;
}

export type Verdict = "alive" | "dead" | "unknown";

/** On globalThis: two copies of the library in one process are one instance. */
const KEY = Symbol.for("tussock.processIdentity.1");

export function currentProcessIdentity(): ProcessIdentity {
  const global = globalThis as { [KEY]?: ProcessIdentity };
  global[KEY] ??= Object.freeze({
    // The kernel's: loading the runtime's cryptography takes 3 ms of a process's first answer.
    instanceId: readLine("/proc/sys/kernel/random/uuid") ?? crypto.randomUUID(),
    bootId: readLine("/proc/sys/kernel/random/boot_id"),
    pidNamespace: readNamespace(),
    pid: process.pid,
    startTime: readProcess("self")?.startTime ?? null,
    machineId: readLine("/etc/machine-id") ?? readLine("/var/lib/dbus/machine-id"),
    hostname: readHostname(),
  });
  return global[KEY];
}

/**
 * What the PID tells. `dead`: nothing has that PID, or something that started at another time. `unknown`: another
 * kernel or PID namespace, or too little is known of the process (only `hostname` and `pid`, say).
 */
export function verdictByPid(identity: Partial<ProcessIdentity>): Verdict {
  const self = currentProcessIdentity();
  if (identity.instanceId === self.instanceId) return "alive";
  const { pid } = identity;
  if (self.bootId === null || identity.bootId !== self.bootId) return "unknown";
  if (self.pidNamespace === null || identity.pidNamespace !== self.pidNamespace) return "unknown";
  if (pid === undefined || !Number.isSafeInteger(pid) || pid <= 0) return "unknown";
  if (!exists(pid)) return "dead";
  // A /proc of another namespace (no --mount-proc) would show a stranger under this PID.
  if (typeof identity.startTime !== "number" || readLink("/proc/self") !== String(self.pid)) return "unknown";
  const running = readProcess(pid);
  if (running === null) return exists(pid) ? "unknown" : "dead";
  return running.startTime === identity.startTime && !running.ended ? "alive" : "dead";
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}

/** `/proc/{pid}/stat` (proc_pid_stat(5)): the name may hold spaces and parentheses, so count from its end. */
function readProcess(pid: number | "self"): { startTime: number; ended: boolean } | null {
  const stat = readLine(`/proc/${pid}/stat`);
  if (stat === null) return null;
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const startTime = Number(fields[19]);
  return Number.isSafeInteger(startTime) ? { startTime, ended: fields[0] === "Z" || fields[0] === "X" } : null;
}

const FIRST_TIME_NAMESPACE = "time:[4026531834]";

/** The start time that `/proc` shows is shifted in another time namespace (Linux 5.6), so that is part of the place. */
function readNamespace(): string | null {
  const pid = readLink("/proc/self/ns/pid");
  const time = readLink("/proc/self/ns/time");
  return pid === null || time === null || time === FIRST_TIME_NAMESPACE ? pid : `${pid} ${time}`;
}

function readLine(path: string): string | null {
  try {
    return readFileSync(path, "utf8").trim() || null;
  } catch {
    return null;
  }
}

function readLink(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch {
    return null;
  }
}

function readHostname(): string {
  try {
    return hostname();
  } catch {
    return "unknown"; // Deno without --allow-sys
  }
}

/** Whether a process still runs: by the lock that it holds for its whole life, else by its PID, else unknown. */
import { join } from "node:path";
import { checkObject, checkOptions, checkPath } from "../arguments.ts";
import { fileSystemOf } from "../ffi/file-system.ts";
import { probeFileLock } from "../lock/file-lock.ts";
import { currentProcessIdentity, type ProcessIdentity, type Verdict, verdictByPid } from "../process-identity.ts";

export { currentProcessIdentity, type ProcessIdentity, type Verdict } from "../process-identity.ts";

/** What a file of `instances/` is named after; anything else must not become a path. */
export const INSTANCE_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/**
 * Whether the process with this identity runs. With `instancesDir` (where processes call {@link announceInstance}; it may
 * be shared by containers) the lock decides: held is alive, there and free is dead, whatever the PID. Where the process
 * announced nothing there, the PID decides, if boot and PID namespace are ours. Everything else is `unknown`, a record
 * of only a host name and a PID among it: then only a heartbeat can tell.
 *
 * On a network file system a free lock proves something only about processes of this same kernel.
 */
export function livenessOf(identity: Partial<ProcessIdentity>, options: { instancesDir?: string } = {}): Verdict {
  checkObject("identity", identity, "an identity, or what is known of one");
  checkOptions(options);
  if (options.instancesDir !== undefined) checkPath("instancesDir", options.instancesDir);
  const self = currentProcessIdentity();
  const { instanceId } = identity;
  if (instanceId === self.instanceId) return "alive";
  const { instancesDir } = options;
  if (instancesDir !== undefined && instanceId !== undefined && INSTANCE_ID.test(instanceId)) {
    const lock = probe(join(instancesDir, instanceId));
    if (lock === "held") return "alive";
    if (lock === "free" && (identity.bootId === self.bootId || !fileSystemOf(instancesDir).network)) return "dead";
  }
  return verdictByPid(identity);
}

/** A lock that may not be looked at (another user's) says nothing. */
function probe(path: string): "held" | "free" | "absent" {
  try {
    return probeFileLock(path);
  } catch {
    return "absent";
  }
}

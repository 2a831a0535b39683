/** Containers for tests: a process in a PID namespace of its own, where its PID is chosen. */
import { spawnSync } from "node:child_process";
import { type Child, spawnChild } from "./spawn.ts";

/** Why there can be no PID namespaces here; null when there can. */
export function whyNoContainers(): string | null {
  const probe = spawnSync("unshare", ["--pid", "--fork", "--mount-proc", "true"]);
  if (probe.error !== undefined) return "needs unshare(1)";
  return probe.status === 0 ? null : `PID namespaces are not allowed here: ${probe.stderr}`.trim();
}

/** Processes 2 to 6 come and go, so that the program is 7, as in the containers of report 1955. */
const AS_PID_7 = 'for pid in 2 3 4 5 6; do /bin/true; done; "$@"; exit $?';

/**
 * Runs a program as process 7 of a new PID namespace. Killing the child kills everything in it; the child has ended when
 * all of that has.
 */
export function spawnContainer(file: URL, args: readonly string[], script = AS_PID_7): Child {
  const unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL"];
  return spawnChild(file, args, { prefix: [...unshare, "sh", "-c", script, "sh"] });
}

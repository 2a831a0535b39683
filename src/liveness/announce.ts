/** Saying that this process lives, in a way that ends with it: a lock on `instances/{instanceId}`. */
import { readdirSync, realpathSync, renameSync, rmSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { checkPath } from "../arguments.ts";
import { makeDirectory } from "../directories.ts";
import { type FileLock, tryFileLock } from "../lock/file-lock.ts";
import { currentProcessIdentity } from "../process-identity.ts";
import { INSTANCE_ID } from "./identity.ts";

export interface InstanceAnnouncement extends AsyncDisposable {
  /** The lock file, `{instancesDir}/{instanceId}`. */
  readonly path: string;
  /** Takes the announcement back: from then on this process is judged by its PID. Idempotent. */
  close(): Promise<void>;
}

/** Files of processes that crashed stay this long, since they are what says `dead` about the records left behind. */
const KEEP_DEAD_MS = 30 * 24 * 3_600_000;

/** On globalThis: two copies of the library in one process share the one lock. */
const KEY = Symbol.for("tussock.announcements.1");
type Announced = Map<string, { lock: FileLock; path: string; count: number }>;

/**
 * Holds `{instancesDir}/{instanceId}` locked for the life of this process, or until every announcement made for that
 * directory is closed. However the process dies, {@link livenessOf} with the same directory then says `dead` at once, in
 * every PID namespace. Await it before the identity is written into any record. The directory is made; it must be used
 * for nothing else, and must be local for the verdict to hold between machines. Files of crashed processes are removed
 * after 30 days.
 *
 * @throws the system's error where the directory cannot be made or written.
 */
export async function announceInstance(instancesDir: string): Promise<InstanceAnnouncement> {
  checkPath("instancesDir", instancesDir);
  makeDirectory(resolve(instancesDir));
  const dir = realpathSync(instancesDir);
  const announced = registry();
  let entry = announced.get(dir);
  if (entry === undefined) {
    removeLongDead(dir);
    entry = { ...lockOwnFile(dir), count: 0 };
    announced.set(dir, entry);
  }
  entry.count++;
  const { path, lock } = entry;
  let open = true;
  const close = async (): Promise<void> => {
    if (!open) return;
    open = false;
    entry.count--;
    if (entry.count > 0) return;
    announced.delete(dir);
    rmSync(path, { force: true }); // While it is locked: free and there would say that this process is dead.
    lock.release();
  };
  return { path, close, [Symbol.asyncDispose]: close };
}

/** Locked before it has its name: whoever finds the file finds it held. */
function lockOwnFile(dir: string): { lock: FileLock; path: string } {
  const { instanceId } = currentProcessIdentity();
  const path = join(dir, instanceId);
  const draft = join(dir, `.${instanceId}.tmp`);
  const lock = tryFileLock(draft);
  if (lock === null) throw new Error(`${draft} is locked by somebody else. Nothing but this library may use ${dir}.`);
  renameSync(draft, path);
  return { lock, path };
}

function removeLongDead(dir: string): void {
  const now = Date.now();
  for (const name of readdirSync(dir)) {
    if (!INSTANCE_ID.test(name.replace(/^\.|\.tmp$/g, ""))) continue;
    const path = join(dir, name);
    const stat = statSync(path, { throwIfNoEntry: false });
    if (stat === undefined || now - stat.mtimeMs < KEEP_DEAD_MS) continue;
    const lock = tryFileLock(path);
    if (lock === null) continue;
    rmSync(path, { force: true });
    lock.release();
  }
}

function registry(): Announced {
  const global = globalThis as { [KEY]?: Announced };
  global[KEY] ??= new Map();
  return global[KEY];
}

/** Every data item of a type in swamp's data directory, and of those only what is new since a watermark. */
import { type Dir, opendirSync } from "node:fs";
import { join, resolve } from "node:path";
import { type AbortOptions, delay } from "../abort.ts";
import { checkOptions, checkPath } from "../arguments.ts";
import { DefinitionReadError, InvalidArgumentError, UnsafePathError } from "../errors.ts";
import { errnoOf } from "../permissions.ts";
import { readStamp, STAMP_BYTES, unpackStamp } from "../scan/stamp.ts";
import { type Slices, timeSlices } from "../slices.ts";
import { changedAt, type ItemReading, type ItemVersion, readItem, settledAt } from "./artifact-item.ts";
import {
  BUCKETS,
  bucketOf,
  decodeWatermark,
  encodeWatermark,
  horizonFor,
  inodesOf,
  type ModelDirectory,
  modelKey,
  seenUntil,
} from "./artifact-watermark.ts";

export interface Artifact extends ItemVersion {
  /** The item's directory, absolute. */
  path: string;
  type: string;
  modelId: string;
  /** The data name. */
  name: string;
}

export type ArtifactResult =
  | { kind: "artifact"; artifact: Artifact }
  | { kind: "problem"; path: string; reason: string }
  /** Nothing to read by design: deleted, renamed, or without any version. */
  | { kind: "ignored"; path: string; reason: string }
  /** How far the scan has come: give it to the next one as `since`. */
  | { kind: "mark"; watermark: string };

export interface ArtifactScanOptions extends AbortOptions {
  /** The watermark of an earlier scan: only what came or changed after it is read. Default: everything is. */
  since?: string | null | undefined;
  /**
   * Whether to look at the item with this data name. Must answer the same in every scan of one series. Default: all.
   */
  items?: ((name: string) => boolean) | undefined;
  /** At every turn of the event loop, and at the end. */
  onProgress?: ((progress: ArtifactProgress) => void) | undefined;
}

export interface ArtifactProgress {
  /** Items that are there. */
  total: number;
  /** Items that have been looked at so far: their metadata is asked of the file system, nothing is opened. */
  examined: number;
  /** Of those: opened, because they were not known to be unchanged. */
  read: number;
}

/**
 * Reads `{dataDir}/{type}/{modelId}/{dataName}`, in no particular order, in slices of a few milliseconds on this
 * thread. A directory that does not exist is an empty one.
 *
 * With `since`, an item is read when anything of it came or changed after that scan: the item itself, a version, the
 * marker (replaced, or rewritten in place), the newest version's content or metadata, whoever wrote it and whatever
 * mtime it was given; or when the directory of its model is not the one that was there under that id. Each item is
 * asked for its change times (10 to 20 µs), and nothing else is opened. What was written while the last scan ran may be read
 * again. Not seen: an edit in place of a version that is not the newest, and what was written while the clock was set
 * back to before the last scan (after such an accident, scan without `since`).
 *
 * An abort rejects with the signal's reason; nothing is left open, and the last mark holds.
 *
 * @throws UnsafePathError for a type that leads out of the directory
 * @throws DefinitionReadError when the disk refuses (EACCES, EMFILE, EIO …); what is wrong with an item is a problem
 */
export async function* scanArtifacts(
  dataDir: string,
  type: string,
  options: ArtifactScanOptions = {},
): AsyncIterableIterator<ArtifactResult> {
  checkOptions(options, "items", "onProgress");
  const typeDir = typeDirectory(dataDir, type);
  const { signal } = options;
  signal?.throwIfAborted();
  const since = decodeWatermark(options.since);
  const startedAtNs = await passTick(signal);
  const slices = timeSlices(signal);

  const inode = directoryStamp(typeDir)?.inode ?? "";
  const { models, buckets, total } = await listItems(typeDir, options.items, slices);
  const progress: ArtifactProgress = { total, examined: 0, read: 0 };
  // Never ahead of what the file system has stamped: its clock may be another machine's, or ours may be wrong today.
  let newest = models.reduce((latest, model) => Math.max(latest, model.changedAt), 0);
  const inodes = inodesOf(models);
  let marked = 0;

  for (const [bucket, items] of buckets.entries()) {
    const horizon = horizonFor(since, bucket);
    for (const { model, name } of items) {
      if (slices.due()) {
        options.onProgress?.({ ...progress });
        await slices.pause();
      }
      const path = join(typeDir, model.id, name);
      const changed = changedAt(path);
      progress.examined++;
      if (changed === null) continue;
      newest = Math.max(newest, changed);
      if (changed <= seenUntil(horizon, inode, model)) continue;
      progress.read++;
      const result = resultOf(readItem(path), { path, type, modelId: model.id, name });
      if (result === null) continue;
      yield result;
      signal?.throwIfAborted();
    }
    const done = bucket + 1;
    // Before it is further than the scan that it goes on with, it knows less than that one's mark.
    const knowsMore = done > (since?.done ?? 0) % BUCKETS;
    if (done === BUCKETS || (knowsMore && progress.read - marked >= MARK_EVERY)) {
      marked = progress.read;
      const reached = { clockNs: Math.min(startedAtNs, newest), inode, models: inodes };
      const before = done === BUCKETS ? null : horizonFor(since, BUCKETS - 1);
      yield { kind: "mark", watermark: encodeWatermark({ horizon: reached, done, before }) };
      signal?.throwIfAborted();
    }
  }
  options.onProgress?.({ ...progress });
}

/** Artifacts between two marks. */
const MARK_EVERY = 250;

/** The longest tick of a kernel: change times may lag behind the clock by so much. */
const TICK_MS = 10;

/**
 * A moment that whatever changes from now on is later than. It takes the time of a tick to come by, so that what was
 * written just before is seen for good, and not read again by the next scan.
 */
async function passTick(signal: AbortSignal | undefined): Promise<number> {
  const now = Date.now() + 1;
  await delay(TICK_MS + 2, signal);
  return now * 1e6;
}

export function typeDirectory(dataDir: string, type: string): string {
  checkPath("dataDir", dataDir);
  if (typeof type !== "string") throw new InvalidArgumentError("type", type, "a type, such as swamp/step-lease");
  const parts = type.split("/");
  if (parts.some((part) => part === "" || part === "." || part === ".." || /[\0\\]/.test(part))) {
    throw new UnsafePathError(type, "a type is one or more names with / between them");
  }
  return resolve(dataDir, ...parts);
}

interface Item {
  model: ModelDirectory;
  name: string;
}

async function listItems(
  typeDir: string,
  accept: ArtifactScanOptions["items"],
  slices: Slices,
): Promise<{ models: ModelDirectory[]; buckets: Item[][]; total: number }> {
  const models: ModelDirectory[] = [];
  const buckets: Item[][] = Array.from({ length: BUCKETS }, () => []);
  let total = 0;
  for (const id of await listDirectories(typeDir, slices)) {
    const stamp = directoryStamp(join(typeDir, id));
    if (stamp === null) continue;
    const model: ModelDirectory = { id, key: modelKey(id), ...stamp, items: 0 };
    for (const name of await listDirectories(join(typeDir, id), slices)) {
      if (accept?.(name) === false) continue;
      buckets[bucketOf(id, name)]?.push({ model, name });
      model.items++;
    }
    models.push(model);
    total += model.items;
  }
  return { models, buckets, total };
}

/** Names of the directories in `dir`; what is not one (and a symbolic link is not) is no item of swamp's. */
async function listDirectories(dir: string, slices: Slices): Promise<string[]> {
  const names: string[] = [];
  let handle: Dir;
  try {
    handle = opendirSync(dir, { bufferSize: 256 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return names;
    throw new DefinitionReadError(dir, errnoOf(error), { cause: error });
  }
  try {
    for (let entry = handle.readSync(); entry !== null; entry = handle.readSync()) {
      // Some file systems do not say what an entry is; then it is asked as an item would be.
      if (!entry.isFile() && !entry.isSymbolicLink()) names.push(entry.name);
      if (slices.due()) await slices.pause();
    }
  } finally {
    handle.closeSync();
  }
  return names;
}

const stamp = new Uint8Array(STAMP_BYTES);

function directoryStamp(dir: string): { inode: string; changedAt: number } | null {
  if (readStamp(dir, true, stamp, 0) !== "directory") return null;
  const unpacked = unpackStamp(stamp, 0);
  return { inode: String(unpacked.inode), changedAt: settledAt(unpacked) };
}

/** Null for an item that was removed meanwhile. */
function resultOf(
  reading: ItemReading,
  item: Pick<Artifact, "path" | "type" | "modelId" | "name">,
): ArtifactResult | null {
  switch (reading.kind) {
    case "artifact": {
      const { kind, ...version } = reading;
      return { kind, artifact: { ...item, ...version } };
    }
    case "absent":
      return null;
    default:
      return { kind: reading.kind, path: item.path, reason: reading.reason };
  }
}

/**
 * How far a scan of artifacts has come, as a string of bounded size (under 16 kB), so that the next one need not read
 * again what has not changed since.
 *
 * It holds a moment of the file system's own clock: an item that changed later is unseen. The change time decides
 * (ctime), which no call can set back, and which a rename sets (on ext4, XFS, Btrfs, tmpfs): old mtimes, as from a
 * checkout or an archive, hide nothing. When a whole model directory is renamed, nothing changes in the items in it:
 * that shows in the directory's inode. A scan that was cut off is gone on with: items are taken in the order of
 * {@link bucketOf}, and for the buckets not yet done the older moment still counts.
 */
import { isObject } from "../arguments.ts";
import { sha256 } from "../digest.ts";

/** Everything that did not change after `clockNs`, in directories that are still the same, has been seen. */
export interface Horizon {
  /** ns since the epoch. */
  clockNs: number;
  /** Inode of the type's directory. */
  inode: string;
  /** Inodes of the models' directories with the most items, by key. */
  models: Readonly<Record<string, string>>;
}

export interface Watermark {
  /** For items in buckets below `done`. */
  horizon: Horizon;
  /** {@link BUCKETS} when the scan came to its end. */
  done: number;
  /** For the other buckets; null when nothing of them has been seen. */
  before: Horizon | null;
}

/** A directory of the type's, with the number of items in it. */
export interface ModelDirectory {
  id: string;
  /** {@link modelKey} of the id. */
  key: string;
  inode: string;
  /** When it last changed, in ns: an item came or went, or it was itself renamed. */
  changedAt: number;
  items: number;
}

export const BUCKETS = 64;

/**
 * Models beyond this many are told apart by their change time alone: all items of one are taken as unseen when an
 * item came to it or went. They are those with the fewest items.
 */
const MAX_MODELS = 128;

const FORMAT = 1;

/** In which of the {@link BUCKETS} an item is. FNV-1a. */
export function bucketOf(modelId: string, name: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < modelId.length; i++) hash = Math.imul(hash ^ modelId.charCodeAt(i), 0x01000193);
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  return (hash >>> 16) % BUCKETS;
}

/** The horizon that counts for the items in this bucket. */
export function horizonFor(watermark: Watermark | null, bucket: number): Horizon | null {
  if (watermark === null) return null;
  return bucket < watermark.done ? watermark.horizon : watermark.before;
}

/**
 * Until when the model's items have been seen, in ns; nothing of them when its directory is not the one that was there,
 * wherever this one came from.
 */
export function seenUntil(horizon: Horizon | null, typeInode: string, model: ModelDirectory): number {
  if (horizon === null || horizon.inode !== typeInode) return NOTHING;
  const inode = horizon.models[model.key];
  const isSame = inode === undefined ? model.changedAt <= horizon.clockNs : inode === model.inode;
  return isSame ? horizon.clockNs : NOTHING;
}

const NOTHING = -1;

/** What a horizon says of the models: in a scan always the same. */
export function inodesOf(models: readonly ModelDirectory[]): Horizon["models"] {
  const largest = [...models].sort((a, b) => b.items - a.items).slice(0, MAX_MODELS);
  return Object.fromEntries(largest.map((model) => [model.key, model.inode]));
}

export function encodeWatermark({ horizon, done, before }: Watermark): string {
  return JSON.stringify({ format: FORMAT, horizon, done, before });
}

/** Null for what is no watermark of this format: then everything is read again, which an import bears. */
export function decodeWatermark(text: string | null | undefined): Watermark | null {
  if (text == null) return null;
  try {
    const value: unknown = JSON.parse(text);
    if (!isObject(value) || value["format"] !== FORMAT || typeof value["done"] !== "number") return null;
    const { horizon, done, before } = value;
    if (!isHorizon(horizon) || !(before === null || isHorizon(before))) return null;
    return { horizon, done, before };
  } catch {
    return null;
  }
}

function isHorizon(value: unknown): value is Horizon {
  return (
    isObject(value) &&
    typeof value["clockNs"] === "number" &&
    typeof value["inode"] === "string" &&
    isObject(value["models"])
  );
}

/** Stands for a model's id, in 12 characters whatever its length. */
export function modelKey(id: string): string {
  return sha256(id).toString("base64url").slice(0, 12);
}

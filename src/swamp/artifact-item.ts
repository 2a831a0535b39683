/**
 * One data item as swamp keeps it: `{item}/{version}/raw` and `metadata.yaml`, and beside the versions the marker
 * `latest`. What is wrong with an item is a {@link ItemReading} of kind `problem`; what is wrong with the disk is
 * thrown.
 */
import { readdirSync, readFileSync, readlinkSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { DefinitionReadError } from "../errors.ts";
import { errnoOf } from "../permissions.ts";
import { readStamp, STAMP_BYTES, unpackStamp } from "../scan/stamp.ts";
import { type ArtifactMetadata, parseMetadata } from "./artifact-metadata.ts";

export const RAW = "raw";
export const METADATA = "metadata.yaml";
export const MARKER = "latest";

/** The version of an item that counts. */
export interface ItemVersion {
  version: number;
  metadata: ArtifactMetadata;
  content: Uint8Array;
  /** Epoch milliseconds: as the metadata says, else when the content was last modified. */
  writtenAt: number;
}

export type ItemReading =
  | ({ kind: "artifact" } & ItemVersion)
  | { kind: "problem"; reason: string }
  | { kind: "ignored"; reason: string }
  /** Removed while it was read. */
  | { kind: "absent" };

/**
 * Reads the item's latest version: the one that the marker names, or where there is no marker (swamp takes it away
 * for a moment when it replaces it) the highest that is complete.
 *
 * @throws DefinitionReadError when the disk refuses (EACCES, EMFILE, EIO …)
 */
export function readItem(dir: string): ItemReading {
  // A writer, or a collector of old versions, may come between two looks: what is wrong must stay so.
  for (let attempt = 1, before = changedAt(dir); ; attempt++) {
    const reading = readOnce(dir);
    if (reading.kind === "artifact" || attempt === MAX_ATTEMPTS) return reading;
    const after = changedAt(dir);
    if (after === before) return reading;
    before = after;
  }
}

const MAX_ATTEMPTS = 5;

function readOnce(dir: string): ItemReading {
  const names = listNames(dir);
  if (names === null) return { kind: "absent" };
  const versions = versionsIn(names);
  const marker = names.includes(MARKER) ? readMarker(dir) : "";
  if (marker === "") return highestComplete(dir, versions);
  if (!isVersion(marker)) return problem(`latest is not a version number: ${JSON.stringify(marker.slice(0, 40))}`);
  const version = Number(marker);
  if (!versions.includes(version)) return problem(`latest names version ${version}, which is missing`);
  return readVersion(dir, version);
}

function highestComplete(dir: string, versions: readonly number[]): ItemReading {
  for (const version of versions) {
    const reading = readVersion(dir, version);
    if (isComplete(reading)) return reading;
  }
  return { kind: "ignored", reason: "no version" };
}

/** The number of the newest version that is complete, whatever the marker says; 0 when there is none. */
export function newestComplete(dir: string): number {
  return versionsIn(listNames(dir) ?? []).find((version) => isComplete(readVersion(dir, version))) ?? 0;
}

/** Without a marker nothing says that the writer has finished, but the size that it meant to write. */
function isComplete(reading: ItemReading): boolean {
  if (reading.kind !== "artifact") return reading.kind === "ignored";
  return reading.metadata.size === null || reading.metadata.size === reading.content.length;
}

function readVersion(dir: string, version: number): ItemReading {
  const at = join(dir, String(version));
  const text = readIfThere(join(at, METADATA));
  const metadata = text === null ? null : parseMetadata(text, join(at, METADATA));
  if (typeof metadata === "string") return problem(`metadata is not valid: ${metadata}`);
  if (metadata?.renamedTo != null) return renamed(dir, metadata.renamedTo);
  if (metadata?.lifecycle === "deleted") return { kind: "ignored", reason: "deleted" };
  const content = readIfThere(join(at, RAW));
  if (content === null) return problem("content is missing");
  if (metadata === null) return problem("metadata is missing");
  const writtenAt = metadata.createdAt ?? statSync(join(at, RAW), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return { kind: "artifact", version, metadata, content, writtenAt };
}

function renamed(dir: string, to: string): ItemReading {
  if (to === basename(to) && listNames(join(dir, "..", to)) !== null) {
    return { kind: "ignored", reason: "renamed to an item that is read under its own name" };
  }
  return problem(`renamed to ${to}, which is missing`);
}

/**
 * The version that the item's marker names, as text: of a file its content, of a symbolic link the name of its target.
 * Empty when there is none.
 */
export function readMarker(dir: string): string {
  const path = join(dir, MARKER);
  try {
    return readFileSync(path, "latin1").trim();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "EISDIR" && code !== "ENOENT") {
      throw new DefinitionReadError(path, errnoOf(error), { cause: error });
    }
  }
  try {
    return basename(readlinkSync(path));
  } catch {
    return "";
  }
}

// ── what changes when an item changes ───────────────────────────────────────────────────────────────────────────

/**
 * When the item last changed in a way that may change its reading, in ns since the epoch; null when it is gone. It
 * looks at the change times, which no call can set back, of the item's directory (versions that come and go, a marker
 * that is replaced), the marker (rewritten in place), and the newest version's directory, content and metadata.
 */
export function changedAt(dir: string): number | null {
  const names = listNames(dir);
  if (names === null) return null;
  let latest = changeTime(dir, 0);
  if (names.includes(MARKER)) latest = changeTime(join(dir, MARKER), latest);
  const newest = versionsIn(names)[0];
  if (newest !== undefined) {
    const at = join(dir, String(newest));
    latest = changeTime(join(at, METADATA), changeTime(join(at, RAW), changeTime(at, latest)));
  }
  return latest;
}

const stamp = new Uint8Array(STAMP_BYTES);

/** The later of `floor` and the moment from which on a further change of `path` would show in its stamp, in ns. */
function changeTime(path: string, floor: number): number {
  if (readStamp(path, false, stamp, 0) === "absent") return floor;
  return Math.max(floor, settledAt(unpackStamp(stamp, 0)));
}

/**
 * Times that are cut to whole seconds tell nothing of the rest of their second. Finer clocks are waited for by the
 * scan.
 */
export function settledAt({ ctimeNs, granularityNs }: { ctimeNs: bigint; granularityNs: number }): number {
  return Number(ctimeNs) + (granularityNs >= 1e9 ? granularityNs : 0);
}

// ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Version numbers among the names, highest first. */
export function versionsIn(names: readonly string[]): number[] {
  return names
    .filter(isVersion)
    .map(Number)
    .sort((a, b) => b - a);
}

function isVersion(name: string): boolean {
  return /^[1-9][0-9]{0,14}$/.test(name);
}

/** Null when there is no such directory. */
export function listNames(dir: string): string[] | null {
  try {
    return readdirSync(dir);
  } catch (error) {
    return absentOrThrow(dir, error);
  }
}

function readIfThere(path: string): Uint8Array | null {
  try {
    return readFileSync(path);
  } catch (error) {
    return absentOrThrow(path, error);
  }
}

function absentOrThrow(path: string, error: unknown): null {
  const { code } = error as NodeJS.ErrnoException;
  if (code === "ENOENT" || code === "ENOTDIR") return null;
  throw new DefinitionReadError(path, errnoOf(error), { cause: error });
}

function problem(reason: string): ItemReading {
  return { kind: "problem", reason };
}

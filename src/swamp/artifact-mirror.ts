/** The other way: each change of a record in the index becomes the next version of its artifact. */
import { mkdir, rename, rm } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { checkFunction, checkObject, checkOptions, checkPath } from "../arguments.ts";
import { makeDirectoryLater } from "../directories.ts";
import { UnsafePathError } from "../errors.ts";
import { nextTurn } from "../slices.ts";
import { flushDirectories, flushDirectory, writeNewFile } from "../state/files.ts";
import { DANGLING } from "../state/lifecycle.ts";
import type { MirrorReceipt, StateMirror, StateRecord, StateTransition } from "../state/model.ts";
import {
  type ItemReading,
  listNames,
  MARKER,
  METADATA,
  newestComplete,
  RAW,
  readItem,
  readMarker,
  versionsIn,
} from "./artifact-item.ts";
import { describeVersion, stringifyMetadata } from "./artifact-metadata.ts";
import { type ArtifactKind, contentOf, tells } from "./artifact-records.ts";

export interface ArtifactMirrorOptions<D, S extends string> {
  kind: ArtifactKind<D, S>;
  /**
   * The model instance under which a record is written that was made here; an imported one stays where it came from.
   */
  modelId: string | ((record: StateRecord<D, S>) => string);
  /** The tag `modelName` of what is written there. */
  modelName: string | ((record: StateRecord<D, S>) => string);
  /** Awaited before a version is written, with the item's directory: swamp marks it dirty for its sync. */
  onWillWrite?: (paths: string[]) => Promise<void>;
  /**
   * Awaited once the artifact tells the change: swamp keeps a catalog. Again when the process ended in between. Not for what
   * an import has brought in just as its artifact tells it.
   */
  onWritten?: (transition: StateTransition<D, S>, receipt: MirrorReceipt | undefined) => Promise<void>;
  /**
   * `flushed` (default): on disk before it counts as delivered. `written`: a loss of power may lose the newest
   * versions.
   */
  durability?: "flushed" | "written";
}

/**
 * A mirror for `openStateIndex({ mirror })` that writes each change as the next version of the record's artifact, in
 * the form that {@link scanArtifacts} reads. Content and metadata are complete before the marker names the version,
 * and the marker is replaced atomically: a reader finds the old version or the new one. What the artifact tells
 * already, because it was delivered before or has just been imported from there, is not written again. A record whose
 * artifact is gone (`dangling`) has nothing to follow.
 *
 * @throws UnsafePathError from `locate` and `write` for an id or origin that leads out of the type's directory
 */
export function artifactMirror<D, S extends string>(
  dataDir: string,
  options: ArtifactMirrorOptions<D, S>,
): StateMirror<D, S> {
  checkPath("dataDir", dataDir);
  // The current directory may be another one when a change is delivered.
  const base = resolve(dataDir);
  checkObject("options", options);
  checkOptions(options, "onWillWrite", "onWritten");
  checkObject("kind", options.kind, "a kind of artifact, such as stepLeaseArtifacts");
  for (const part of ["modelId", "modelName"] as const)
    if (typeof options[part] !== "string") checkFunction(part, options[part], "a string or a function of a record");
  const { kind } = options;
  const flush = options.durability !== "written";
  const valueFor = (value: ArtifactMirrorOptions<D, S>["modelId"], record: StateRecord<D, S>) =>
    typeof value === "string" ? value : value(record);

  function locate(record: StateRecord<D, S>): string {
    const origin = record.origin ?? `${kind.type}/${valueFor(options.modelId, record)}/${kind.itemName(record.id)}`;
    const parts = origin.slice(kind.type.length + 1).split("/");
    if (!origin.startsWith(`${kind.type}/`) || parts.length !== 2 || !parts.every(isFileName)) {
      throw new UnsafePathError(origin, `an artifact of this kind lies at ${kind.type}/{modelId}/{dataName}`);
    }
    return join(base, origin);
  }

  async function write(transition: StateTransition<D, S>): Promise<MirrorReceipt | undefined> {
    const { record } = transition;
    if (record.state === DANGLING) return undefined;
    const item = locate(record);
    // An import brings thousands of records that their artifacts tell already: other work comes in between.
    await nextTurn();
    const current = readItem(item);
    const isTold = current.kind === "artifact" && tells(kind, current.content, record);
    if (isTold && isImported(record)) return undefined;
    const receipt = isTold
      ? { path: item, version: current.version, metadata: { ...current.metadata.document } }
      : await writeNext(item, current, record);
    await options.onWritten?.(transition, receipt);
    return receipt;
  }

  async function writeNext(item: string, current: ItemReading, record: StateRecord<D, S>): Promise<MirrorReceipt> {
    await options.onWillWrite?.([item]);
    const content = Buffer.from(JSON.stringify(contentOf(kind, record)));
    const version = await makeVersion(item, base, current.kind === "absent" && flush);
    const metadata = describeVersion({
      previous: current.kind === "artifact" ? current.metadata.document : null,
      name: basename(item),
      modelId: valueFor(options.modelId, record),
      modelName: valueFor(options.modelName, record),
      specName: kind.specName,
      version,
      content,
    });
    await publish(item, version, { content, metadata: stringifyMetadata(metadata) }, flush);
    return { path: item, version, metadata };
  }

  return { locate, write };
}

/** As it came from its source: a record that was made here has no origin, and one that has changed another revision. */
function isImported({ origin, revision }: StateRecord<unknown, string>): boolean {
  return origin !== undefined && revision === 1;
}

/** Makes the directory of the next version, whoever else makes one at this moment. */
async function makeVersion(item: string, dataDir: string, flushParents: boolean): Promise<number> {
  await makeDirectoryLater(item);
  if (flushParents) await flushDirectories(dirname(item), dataDir);
  for (let version = (versionsIn(listNames(item) ?? [])[0] ?? 0) + 1; ; version++) {
    try {
      await mkdir(join(item, String(version)));
      return version;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  }
}

/** Fills the version and has the marker name it. What fails before that leaves nothing. */
async function publish(
  item: string,
  version: number,
  { content, metadata }: { content: Uint8Array; metadata: string },
  flush: boolean,
): Promise<void> {
  const dir = join(item, String(version));
  try {
    await writeNewFile(join(dir, RAW), content, flush);
    // Where there is no marker, a version counts once it has metadata: they come whole.
    await writeWhole(dir, METADATA, metadata, flush);
    await mark(item, flush);
  } catch (error) {
    if (readMarker(item) !== String(version)) await rm(dir, { recursive: true, force: true });
    throw error;
  }
}

/**
 * Has the marker name the newest complete version. Somebody else may publish another at the same time: whoever replaces
 * the marker last looks once more, so that it never stays behind.
 */
async function mark(item: string, flush: boolean): Promise<void> {
  for (let named = 0, newest = newestComplete(item); newest > named; newest = newestComplete(item)) {
    await writeWhole(item, MARKER, String(newest), flush);
    named = newest;
  }
}

/** Writes or replaces the file; nobody finds a part of it. */
async function writeWhole(dir: string, name: string, text: string, flush: boolean): Promise<void> {
  const draft = join(dir, `.${crypto.randomUUID()}.tmp`);
  try {
    await writeNewFile(draft, text, flush);
    await rename(draft, join(dir, name));
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
  if (flush) await flushDirectory(dir);
}

function isFileName(name: string): boolean {
  return name !== "" && name !== "." && name !== ".." && !/[\0\\]/.test(name);
}

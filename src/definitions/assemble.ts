/** Opens an index: checks what it is given, takes a slot of the cache, and puts the parts together. Loaded by open.ts. */
import { realpathSync, statSync } from "node:fs";
import { isAbsolute, join, normalize } from "node:path";
import { checkObject, checkOptions } from "../arguments.ts";
import { DefinitionReadError, InvalidArgumentError } from "../errors.ts";
import { fileSystemOf } from "../ffi/file-system.ts";
import { openOwnedEnvironment } from "../lmdb/environment.ts";
import { environmentVariable } from "../permissions.ts";
import { type ExamineOptions, isInside } from "../scan/examine.ts";
import { DEFAULT_KEYS } from "../scan/model.ts";
import { readStamp, STAMP_BYTES } from "../scan/stamp.ts";
import { type ChangeHints, openChangeHints } from "../watch/hints.ts";
import { type KernelQueue, openKernelQueue } from "../watch/kernel-queue.ts";
import { BackgroundSweep } from "./background.ts";
import type { IndexEngine } from "./engine.ts";
import { Freshness } from "./freshness.ts";
import { InlineEngine } from "./inline-engine.ts";
import { LastingEngine } from "./lasting-engine.ts";
import { LiveIndex } from "./live-index.ts";
import { type DefinitionIndex, type DefinitionIndexOptions, type DefinitionRoot, exposeInternals } from "./model.ts";
import { observeIndex } from "./observe.ts";
import { RootState } from "./root-state.ts";
import { DefinitionStore } from "./store.ts";
import { TypeTree } from "./type-tree.ts";
import { WorkerEngine } from "./worker-engine.ts";

/** Rises when the form of what is stored changes; an index of another form is built anew. */
const SCHEMA = 3;
const DEFAULT_MAX_FILE_BYTES = 1024 * 1024;
/** Larger documents are read again when they are wanted: a cache of everything would be a second copy of the disk. */
const MAX_KEPT_DOCUMENT_BYTES = 16 * 1024;
const DEFAULT_SWEEP_INTERVAL_MS = 60_000;
const MOST_ROOTS = 200;

/** What the index takes from the system; tests put failures in its place. */
export interface Platform {
  openQueue(): KernelQueue | null;
  openHints(dirs: readonly string[], onChange: (path: string) => void): Promise<ChangeHints>;
  /** `onLost` is told should the worker end before it is closed. */
  startWorker(path: string, examine: ExamineOptions, onLost: () => void): Promise<IndexEngine | null>;
}

export const THIS_PLATFORM: Platform = {
  openQueue: openKernelQueue,
  openHints: openChangeHints,
  startWorker: WorkerEngine.start,
};

export async function openIndexOn(options: DefinitionIndexOptions, platform: Platform): Promise<DefinitionIndex> {
  const checked = check(options);
  options.signal?.throwIfAborted();
  const environment = await openOwnedEnvironment({
    dir: checked.indexDir,
    identity: checked.identity,
    // What this index knows and has not written is its own: two over one environment would write over each other.
    shared: false,
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  });
  try {
    const index = await assemble(environment, checked, options, platform);
    exposeInternals(index, index);
    return index;
  } catch (error) {
    await environment.close();
    throw error;
  }
}

type Environment = Awaited<ReturnType<typeof openOwnedEnvironment>>;

async function assemble(
  environment: Environment,
  checked: Checked,
  options: DefinitionIndexOptions,
  platform: Platform,
): Promise<LiveIndex> {
  const store = new DefinitionStore(environment.root);
  const known = [...store.knownTypes()];
  const roots = checked.roots.map(({ name, dir }, index) => new RootState(index, name, dir));
  for (const root of roots) {
    const { name, reportsEvents } = fileSystemOf(root.dir);
    if (!reportsEvents) root.unwatchable = `${name} does not report every change`;
  }
  const queue = options.watch === false ? null : platform.openQueue();
  const tree = new TypeTree({
    roots,
    queue,
    reopenQueue: () => platform.openQueue(),
    unwatchable: queue === null ? whyUnwatchable(options) : null,
    known,
    onNewType: (state) => store.putType(state.id, state.type),
    onForgotten: (state) => store.putType(state.id, null),
  });
  try {
    return start(environment, checked, options, platform, { store, tree });
  } catch (error) {
    await tree.close();
    throw error;
  }
}

function start(
  environment: Environment,
  { examine }: Checked,
  options: DefinitionIndexOptions,
  platform: Platform,
  { store, tree }: { store: DefinitionStore; tree: TypeTree },
): LiveIndex {
  const engine = new LastingEngine(() => startEngine(environment, store, examine, platform));
  const freshness = new Freshness({ store, tree, engine, examine });
  freshness.observe();
  const background = new BackgroundSweep(
    freshness,
    tree,
    options.sweepIntervalMs ?? DEFAULT_SWEEP_INTERVAL_MS,
    warnWhenGone(environment),
  );
  const index = new LiveIndex({
    store,
    tree,
    freshness,
    background,
    examine,
    keys: examine.keys,
    slot: environment.slot,
    condemn: (why) => environment.condemn(why),
    fileSize: () => sizeOf(join(environment.path, "data.mdb")),
    release: async () => {
      stopObserving();
      await (await hints)?.close();
      await engine.close();
      await environment.close();
    },
  });
  const stopObserving = observeIndex(index);
  const unseen = options.watch === false ? [] : tree.roots.filter((root) => tree.unwatchable ?? root.unwatchable);
  const dirs = unseen.map(({ dir }) => dir);
  // The answers do not rest on hints: without them, too, the background sweep comes.
  const hints =
    dirs.length === 0 ? null : platform.openHints(dirs, (path) => index.noteWritten([path])).catch(() => null);
  background.start();
  return index;
}

async function startEngine(
  { path, condemn }: Environment,
  store: DefinitionStore,
  examine: ExamineOptions,
  platform: Platform,
): Promise<IndexEngine> {
  // What a thread leaves open may be written when the process ends, over what the next owner has written by then.
  const onLost = (): void => condemn("a worker thread ended without closing it");
  const worker = environmentVariable("TUSSOCK_NO_WORKERS") ? null : await platform.startWorker(path, examine, onLost);
  return worker ?? new InlineEngine(path, store, examine);
}

function whyUnwatchable(options: DefinitionIndexOptions): string {
  if (options.watch === false) return "it was opened with watch: false";
  return "the kernel's queue of changes is not to be had (no FFI, no inotify, or too many of them)";
}

/** Answers stay right without it, but nothing of what is learnt will be there at the next start. */
function warnWhenGone(environment: Environment): () => void {
  let warned = false;
  return () => {
    if (warned || environment.isStillThere()) return;
    warned = true;
    process.emitWarning(
      `the index at ${environment.path} was deleted under a running process: it goes on in memory, and is built anew at the next start`,
      "TussockWarning",
    );
  };
}

function sizeOf(path: string): number {
  try {
    return statSync(path).size;
  } catch {
    return 0;
  }
}

interface Checked {
  roots: DefinitionRoot[];
  indexDir: string;
  examine: ExamineOptions;
  identity: Record<string, string | number | boolean>;
}

function check(options: DefinitionIndexOptions): Checked {
  checkObject("options", options);
  checkOptions(options, "parse");
  const roots = checkRoots(options.roots);
  const { parse, parserId, maxFileBytes = DEFAULT_MAX_FILE_BYTES, keepDocuments = true, keys = DEFAULT_KEYS } = options;
  checkObject("keys", keys);
  if (parse !== undefined && parserId === undefined) {
    throw new InvalidArgumentError("parserId", parserId, "a name for the parser given, as its results are kept");
  }
  if (!(maxFileBytes > 0)) throw new InvalidArgumentError("maxFileBytes", maxFileBytes, "a positive number of bytes");
  if (options.sweepIntervalMs !== undefined && !(options.sweepIntervalMs > 0)) {
    throw new InvalidArgumentError("sweepIntervalMs", options.sweepIntervalMs, "a positive number of milliseconds");
  }
  const boundary = options.boundary === undefined ? null : realOr(checkPath("boundary", options.boundary));
  const examine: ExamineOptions = {
    keys,
    parse,
    maxFileBytes,
    boundary,
    documents: keepDocuments,
    maxDocumentBytes: MAX_KEPT_DOCUMENT_BYTES,
  };
  return {
    roots,
    indexDir: checkIndexDir(options.indexDir, roots),
    examine,
    identity: {
      schema: SCHEMA,
      roots: JSON.stringify(roots),
      boundary: boundary ?? "",
      keys: JSON.stringify([keys.id, keys.name, keys.type]),
      parser: parserId ?? "yaml",
      maxFileBytes,
      keepDocuments,
    },
  };
}

function checkRoots(roots: readonly DefinitionRoot[]): DefinitionRoot[] {
  if (!Array.isArray(roots) || roots.length === 0) throw new InvalidArgumentError("roots", roots, "at least one root");
  if (roots.length > MOST_ROOTS) throw new InvalidArgumentError("roots", roots, `at most ${MOST_ROOTS} roots`);
  for (const root of roots) checkObject("roots[]", root, "{ name, dir }");
  const checked = roots.map(({ name, dir }) => {
    if (typeof name !== "string" || name === "") throw new InvalidArgumentError("roots[].name", name, "a name");
    const path = checkPath(`the root "${name}"`, dir);
    const kind = readStamp(path, true, new Uint8Array(STAMP_BYTES), 0);
    if (kind !== "directory" && kind !== "absent") throw new DefinitionReadError(path, "ENOTDIR");
    return { name, dir: path };
  });
  for (const a of checked) {
    for (const b of checked) {
      if (a === b) continue;
      if (a.name === b.name) throw new InvalidArgumentError("roots[].name", a.name, "a name of its own for each root");
      if (isInside(a.dir, b.dir)) {
        throw new InvalidArgumentError(
          "roots[].dir",
          a.dir,
          `a directory that does not lie in another root (${b.dir})`,
        );
      }
    }
  }
  return checked;
}

/** Its directories would be taken for types, or definitions be deleted with it, which anybody may do at any time. */
function checkIndexDir(path: string, roots: readonly DefinitionRoot[]): string {
  const indexDir = checkPath("indexDir", path);
  for (const { name, dir } of roots) {
    if (isInside(indexDir, dir) || isInside(dir, indexDir))
      throw new InvalidArgumentError("indexDir", indexDir, `a directory apart from the root "${name}" (${dir})`);
  }
  return indexDir;
}

function checkPath(what: string, path: string): string {
  if (typeof path !== "string" || !isAbsolute(path) || path.includes("\0")) {
    throw new InvalidArgumentError(what, path, "an absolute path");
  }
  const plain = normalize(path);
  return plain.length > 1 && plain.endsWith("/") ? plain.slice(0, -1) : plain;
}

function realOr(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

/** The stores that this process has open, so that several indexes on one directory share one writer and one connection. */
import { realpathSync } from "node:fs";
import { resolve } from "node:path";
import { abortable } from "../../abort.ts";
import { makeDirectory } from "../../directories.ts";
import { StateStoreUnavailableError, UnsupportedFileSystemError } from "../../errors.ts";
import { fileSystemOf } from "../../ffi/file-system.ts";
import { VERSION } from "../../version.ts";
import type { OpenOptions } from "./connect.ts";
import { SqliteStore } from "./store.ts";

interface Entry {
  readonly opening: Promise<SqliteStore>;
  /** Ends the opening when nobody waits for it any more. */
  readonly abandon: AbortController;
  users: number;
  flushed: boolean;
  closing: Promise<void> | null;
}

/** Per version: another copy of this library in the process may have another shape of store. */
const REGISTRY = Symbol.for(`tussock.state@${VERSION}`);

function registry(): Map<string, Entry> {
  const global = globalThis as { [REGISTRY]?: Map<string, Entry> };
  global[REGISTRY] ??= new Map();
  return global[REGISTRY];
}

export interface StoreLease {
  readonly store: SqliteStore;
  /** The last one closes the store. */
  release(): Promise<void>;
}

/**
 * The store in `dir`, which is made if need be. Several users share it; where one of them wants each commit on disk, all
 * get that. Aborted before it is open: nothing of it is left.
 */
export async function acquireStore(dir: string, flushed: boolean, options: OpenOptions): Promise<StoreLease> {
  const path = realDirectory(dir);
  let entry = registry().get(path);
  while (entry?.closing != null) {
    await abortable(entry.closing, options.signal);
    entry = registry().get(path);
  }
  options.signal?.throwIfAborted();
  if (entry === undefined) {
    const abandon = new AbortController();
    const opening = SqliteStore.open(path, flushed, { ...options, signal: abandon.signal });
    entry = { opening, abandon, users: 0, flushed, closing: null };
    registry().set(path, entry);
  }
  const shared = entry;
  shared.users++;
  try {
    const store = await abortable(shared.opening, options.signal);
    if (flushed && !shared.flushed) {
      shared.flushed = true;
      store.flush();
    }
    return { store, release: () => leave(path, shared) };
  } catch (error) {
    await leave(path, shared);
    throw error;
  }
}

function leave(path: string, entry: Entry): Promise<void> {
  entry.users--;
  if (entry.users > 0) return Promise.resolve();
  entry.abandon.abort();
  entry.closing = entry.opening
    .then(
      (store) => store.close(),
      () => {},
    )
    .finally(() => {
      if (registry().get(path) === entry) registry().delete(path);
    });
  return entry.closing;
}

/** One directory has many paths; the store must be one. */
function realDirectory(dir: string): string {
  const path = resolve(dir);
  refuseNetwork(path);
  try {
    makeDirectory(path);
    return realpathSync(path);
  } catch (error) {
    throw new StateStoreUnavailableError(path, `the directory cannot be made or read (${(error as Error).message})`, {
      cause: error,
    });
  }
}

function refuseNetwork(dir: string): void {
  const { name, network } = fileSystemOf(dir);
  if (!network) return;
  const next = "Use a directory on a local disk, or openStateIndex({ postgres }) for several machines.";
  throw new UnsupportedFileSystemError(dir, name, next);
}

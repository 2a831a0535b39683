/** Control-plane records as plain files: `link(2)` decides who was first, `rename(2)` replaces whole. */
import { link, readdir, readFile, rename, rm, rmdir, stat, unlink } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import pLimit from "p-limit";
import type { AbortOptions } from "../abort.ts";
import { checkSignal } from "../arguments.ts";
import { Underway } from "../churn.ts";
import { makeDirectoryLater } from "../directories.ts";
import {
  ClosedError,
  StateStoreUnavailableError,
  StorageFullError,
  TussockError,
  UnsupportedFileSystemError,
} from "../errors.ts";
import { fileSystemOf } from "../ffi/file-system.ts";
import { missingPermission } from "../permissions.ts";
import {
  checkControlPlaneKey,
  checkControlPlanePrefix,
  directoryOfPrefix,
  enterDirectory,
  keyOfFile,
  pathOfKey,
} from "./control-plane-keys.ts";
import { flushDirectories, isStorageFull, writeNewFile } from "./files.ts";
import { checkBytes } from "./limits.ts";
import type { ControlPlaneStore } from "./model.ts";

/** Where files are written before they get their names. No key's path begins with a dot. */
const DRAFTS = ".tmp";
/** A draft this old was left by a process that was killed. Should it be in use after all, its writer makes another. */
const ABANDONED_MS = 3_600_000;
/** Calls that touch the disk at once, so that thousands of them do not run out of descriptors. */
const CONCURRENCY = 16;
/** Tries to put a file into a directory that others remove when they find it empty. */
const ATTEMPTS = 100;

export async function openFileControlPlane(dir: string): Promise<ControlPlaneStore> {
  const store = new FileControlPlane(resolve(dir));
  await store.open();
  return store;
}

class FileControlPlane implements ControlPlaneStore {
  readonly #dir: string;
  readonly #drafts: string;
  readonly #limit = pLimit(CONCURRENCY);
  readonly #running = new Underway();
  #closed = false;

  constructor(dir: string) {
    this.#dir = dir;
    this.#drafts = join(dir, DRAFTS);
  }

  async open(): Promise<void> {
    await typed(this.#dir, async () => {
      await makeDirectoryLater(this.#drafts);
      await flushDirectories(this.#drafts, this.#dir);
      await this.#removeAbandoned();
    });
  }

  /** Point of no return: the rename. */
  async put(key: string, data: Uint8Array, o?: AbortOptions): Promise<void> {
    const path = this.#pathOf(key);
    const copy = checkBytes(data);
    await this.#run(path, o?.signal, () => this.#publish(path, copy, o?.signal, (draft) => rename(draft, path)));
  }

  /** Point of no return: the link. */
  async putIfAbsent(key: string, data: Uint8Array, o?: AbortOptions): Promise<boolean> {
    const path = this.#pathOf(key);
    const copy = checkBytes(data);
    return this.#run(path, o?.signal, async () => {
      if (await exists(path)) return false;
      return this.#publish(path, copy, o?.signal, (draft) => linkIfAbsent(draft, path));
    });
  }

  async get(key: string, o?: AbortOptions): Promise<Uint8Array | null> {
    const path = this.#pathOf(key);
    return this.#run(path, o?.signal, async () => {
      const data = await ifThere(async () => new Uint8Array(await readFile(path)), null);
      o?.signal?.throwIfAborted();
      return data;
    });
  }

  /** Point of no return: the unlink. */
  async delete(key: string, o?: AbortOptions): Promise<void> {
    const path = this.#pathOf(key);
    await this.#run(path, o?.signal, async () => {
      if (!(await ifThere(() => unlink(path).then(() => true), false))) return;
      await ifThere(() => flushDirectories(dirname(path), this.#dir), undefined);
      await this.#removeEmpty(dirname(path));
    });
  }

  /** A key that is there throughout the call is listed; one that comes or goes meanwhile may be or not. */
  async list(prefix: string, o?: AbortOptions): Promise<string[]> {
    const above = directoryOfPrefix(checkControlPlanePrefix(prefix));
    const from = prefix.slice(0, prefix.lastIndexOf("/") + 1);
    const dir = join(this.#dir, above);
    return this.#run(dir, o?.signal, async () => {
      const keys: string[] = [];
      await this.#walk(above, from, keys, o?.signal);
      return sortByBytes(keys.filter((key) => key.startsWith(prefix)));
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#running.over();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #pathOf(key: string): string {
    return join(this.#dir, pathOfKey(checkControlPlaneKey(key)));
  }

  /** Writes a draft, flushes it, and has `place` give it its name; the name is on disk when this resolves. */
  async #publish<R>(
    path: string,
    data: Uint8Array,
    signal: AbortSignal | undefined,
    place: (draft: string) => Promise<R>,
  ): Promise<R> {
    for (let attempt = 1; ; attempt++) {
      const draft = join(this.#drafts, crypto.randomUUID());
      try {
        await writeNewFile(draft, data);
        signal?.throwIfAborted();
        await makeDirectoryLater(dirname(path));
        signal?.throwIfAborted();
        const result = await place(draft);
        // Gone: somebody has deleted the record since, and the empty directory with it.
        await ifThere(() => flushDirectories(dirname(path), this.#dir), undefined);
        return result;
      } catch (error) {
        if (!isAbsent(error) || attempt === ATTEMPTS) {
          await this.#removeEmpty(dirname(path)); // What was made for this record.
          throw error;
        }
        await makeDirectoryLater(this.#drafts);
      } finally {
        await rm(draft, { force: true });
      }
    }
  }

  async #walk(above: string, prefix: string, keys: string[], signal: AbortSignal | undefined): Promise<void> {
    const entries = await ifThere(() => readdir(join(this.#dir, above), { withFileTypes: true }), []);
    signal?.throwIfAborted();
    for (const entry of entries) {
      const path = above === "" ? entry.name : `${above}/${entry.name}`;
      if (entry.isDirectory()) {
        const below = path === DRAFTS ? null : enterDirectory(prefix, entry.name);
        if (below !== null) await this.#walk(path, below, keys, signal);
        continue;
      }
      const key = keyOfFile(prefix, entry.name);
      // What is not the path of its key is somebody else's file.
      if (key !== null && pathOfKey(key) === path) keys.push(key);
    }
  }

  async #removeEmpty(dir: string): Promise<void> {
    for (let at = dir; at !== this.#dir; at = dirname(at)) {
      try {
        await rmdir(at);
      } catch {
        return; // Not empty, or not there: somebody else's to keep or remove.
      }
    }
  }

  async #removeAbandoned(): Promise<void> {
    for (const name of await readdir(this.#drafts)) {
      const path = join(this.#drafts, name);
      const written = await ifThere(() => stat(path), null);
      if (written !== null && Date.now() - written.mtimeMs > ABANDONED_MS) await rm(path, { force: true });
    }
  }

  /** Waits for a turn; an abort ends the waiting at once, and work that has begun at its next step. */
  async #run<R>(path: string, signal: AbortSignal | undefined, work: () => Promise<R>): Promise<R> {
    checkSignal(signal);
    if (this.#closed) throw new ClosedError(`the control-plane store ${this.#dir}`);
    signal?.throwIfAborted();
    let onAbort: (() => void) | undefined;
    let begun = false;
    const done = this.#limit(async () => {
      signal?.throwIfAborted();
      begun = true;
      return typed(path, work);
    });
    this.#running.track(done);
    if (signal === undefined) return done;
    try {
      return await new Promise<R>((settle, reject) => {
        onAbort = () => begun || reject(signal.reason);
        signal.addEventListener("abort", onAbort, { once: true });
        done.then(settle, reject);
      });
    } finally {
      if (onAbort !== undefined) signal.removeEventListener("abort", onAbort);
    }
  }
}

/** False when the name is taken. */
async function linkIfAbsent(draft: string, path: string): Promise<boolean> {
  try {
    await link(draft, path);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // A file server may have made the link and lost the answer: a draft with two names won.
    if (code === "EEXIST") return (await stat(draft)).nlink === 2;
    if (code !== undefined && NO_LINKS.has(code)) {
      throw new UnsupportedFileSystemError(
        path,
        fileSystemOf(path).name,
        "Put the records on one that has hard links.",
      );
    }
    throw error;
  }
}

const NO_LINKS = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"]);

/** Runs it; what the system refuses comes as an error of this library. An abort's reason passes as it is. */
async function typed<R>(path: string, work: () => Promise<R>): Promise<R> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof TussockError) throw error;
    if (missingPermission(error) !== null)
      throw new StateStoreUnavailableError(path, (error as Error).message, { cause: error });
    const { code } = error as NodeJS.ErrnoException;
    if (typeof code !== "string" || !/^E[A-Z0-9]+$/.test(code)) throw error;
    if (isStorageFull(error)) throw new StorageFullError(path, { cause: error });
    throw new StateStoreUnavailableError(path, (error as Error).message, { cause: error });
  }
}

async function exists(path: string): Promise<boolean> {
  return (await ifThere(() => stat(path), null)) !== null;
}

async function ifThere<R, A>(work: () => Promise<R>, absent: A): Promise<R | A> {
  try {
    return await work();
  } catch (error) {
    if (isAbsent(error)) return absent;
    throw error;
  }
}

function isAbsent(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === "ENOENT" || code === "ENOTDIR";
}

function sortByBytes(keys: string[]): string[] {
  return keys
    .map((key) => ({ key, bytes: Buffer.from(key) }))
    .sort((a, b) => Buffer.compare(a.bytes, b.bytes))
    .map(({ key }) => key);
}

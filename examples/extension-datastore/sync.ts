/** Brings files from the bucket and to it. Only what was marked dirty is looked at when it pushes. */
import { createHash, randomUUID } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import type { AbortOptions, ControlPlaneStore } from "../../src/index.ts";
import type { Bucket } from "./bucket.ts";
import { BucketControlPlane } from "./control-plane.ts";

export interface SyncOptions extends AbortOptions {
  /** The file about to be written or removed, below the directory, with `/` between its parts. */
  relPath?: string;
}

const PREFIX = "files/";

export class BucketSync {
  readonly #bucket: Bucket;
  readonly #dir: string;
  readonly #dirty = new Set<string>();
  /** Etags of what was pulled or pushed. A real one keeps them in a file beside the directory. */
  readonly #known = new Map<string, string>();

  constructor(bucket: Bucket, dir: string) {
    this.#bucket = bucket;
    this.#dir = dir;
  }

  controlPlaneStore(): ControlPlaneStore {
    return new BucketControlPlane(this.#bucket);
  }

  /** Says that a file is about to change. */
  async markDirty({ relPath }: SyncOptions = {}): Promise<void> {
    if (relPath !== undefined) this.#dirty.add(relPath);
  }

  /** The same for absolute paths, as the hooks of a repository and of a mirror have them. */
  readonly markPaths = async (paths: readonly string[]): Promise<void> => {
    for (const path of paths) await this.markDirty({ relPath: relative(this.#dir, path).split(sep).join("/") });
  };

  /** Brings what has changed in the bucket; files that are dirty here stay. Returns the absolute paths that changed. */
  async pullChanged({ signal }: SyncOptions = {}): Promise<string[]> {
    const changed: string[] = [];
    const gone = new Set(this.#known.keys());
    for (const { key, etag } of await this.#bucket.list(PREFIX, { signal })) {
      const relPath = key.slice(PREFIX.length);
      gone.delete(relPath);
      if (this.#known.get(relPath) === etag || this.#dirty.has(relPath)) continue;
      const object = await this.#bucket.get(key, { signal });
      if (object === null) continue;
      const path = join(this.#dir, relPath);
      if (hashOf(await readIfThere(path)) !== object.etag) {
        await replace(path, object.data);
        changed.push(path);
      }
      this.#known.set(relPath, object.etag);
    }
    for (const relPath of gone) {
      if (this.#dirty.has(relPath)) continue;
      signal?.throwIfAborted();
      await rm(join(this.#dir, relPath), { force: true });
      this.#known.delete(relPath);
      changed.push(join(this.#dir, relPath));
    }
    return changed;
  }

  /** Brings what is dirty to the bucket. What could not be brought stays dirty. Returns how many files were. */
  async pushChanged({ signal }: SyncOptions = {}): Promise<number> {
    let pushed = 0;
    for (const relPath of [...this.#dirty]) {
      // Marked again while it is being read: it is looked at once more the next time.
      this.#dirty.delete(relPath);
      try {
        if (await this.#push(relPath, signal)) pushed++;
      } catch (error) {
        this.#dirty.add(relPath);
        throw error;
      }
    }
    return pushed;
  }

  async #push(relPath: string, signal: AbortSignal | undefined): Promise<boolean> {
    const data = await readIfThere(join(this.#dir, relPath));
    const known = this.#known.get(relPath);
    if (data === null) {
      await this.#bucket.delete(PREFIX + relPath, { signal });
      this.#known.delete(relPath);
      return known !== undefined;
    }
    if (hashOf(data) === known) return false;
    const etag = await this.#bucket.put(PREFIX + relPath, data, { signal });
    if (etag !== null) this.#known.set(relPath, etag);
    return true;
  }
}

async function readIfThere(path: string): Promise<Uint8Array | null> {
  try {
    return await readFile(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

/** Whole or not at all. */
async function replace(path: string, data: Uint8Array): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const draft = join(dirname(path), `.${randomUUID()}.tmp`);
  await writeFile(draft, data);
  await rename(draft, path);
}

function hashOf(data: Uint8Array | null): string | null {
  return data === null ? null : createHash("sha256").update(data).digest("base64url");
}

/**
 * A directory that plays the object store: whole objects under any keys, with the conditional writes that S3 and GCS have.
 * A real extension has its client here.
 */
import { createHash, randomUUID } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type AbortOptions, withNameLock } from "../../src/index.ts";

export interface BucketObject {
  data: Uint8Array;
  /** What tells one content from another. */
  etag: string;
}

export interface PutOptions extends AbortOptions {
  /** Only over the object with this etag; null: only where there is none. */
  ifMatch?: string | null;
}

export class Bucket {
  readonly #dir: string;

  constructor(dir: string) {
    this.#dir = dir;
  }

  async get(key: string, { signal }: AbortOptions = {}): Promise<BucketObject | null> {
    signal?.throwIfAborted();
    const stored = await this.#read(nameOf(key));
    signal?.throwIfAborted();
    return stored;
  }

  /** The new etag; null when the condition does not hold. Point of no return: the rename. */
  put(key: string, data: Uint8Array, { ifMatch, signal }: PutOptions = {}): Promise<string | null> {
    const header = Buffer.from(`${JSON.stringify(key)}\n`);
    const bytes = Buffer.concat([header, data]);
    return this.#exclusively(key, signal, async (name) => {
      if (ifMatch !== undefined && ((await this.#read(name))?.etag ?? null) !== ifMatch) return null;
      const draft = join(this.#dir, `.${randomUUID()}.tmp`);
      try {
        await writeFile(draft, bytes);
        signal?.throwIfAborted();
        await rename(draft, join(this.#dir, name));
      } finally {
        await rm(draft, { force: true });
      }
      return etagOf(bytes.subarray(header.length));
    });
  }

  /** Whether the condition held. */
  async delete(key: string, { ifMatch, signal }: PutOptions = {}): Promise<boolean> {
    return this.#exclusively(key, signal, async (name) => {
      if (ifMatch !== undefined && ((await this.#read(name))?.etag ?? null) !== ifMatch) return false;
      signal?.throwIfAborted();
      await rm(join(this.#dir, name), { force: true });
      return true;
    });
  }

  /** Keys and etags of all objects under the prefix, in byte order. */
  async list(prefix: string, { signal }: AbortOptions = {}): Promise<{ key: string; etag: string }[]> {
    const found: { key: string; etag: string }[] = [];
    for (const name of await readdir(this.#dir).catch(() => [])) {
      signal?.throwIfAborted();
      const stored = name.startsWith(".") ? null : await this.#read(name);
      if (stored?.key.startsWith(prefix)) found.push({ key: stored.key, etag: stored.etag });
    }
    return found.sort((a, b) => Buffer.compare(Buffer.from(a.key), Buffer.from(b.key)));
  }

  async #read(name: string): Promise<(BucketObject & { key: string }) | null> {
    try {
      const bytes = await readFile(join(this.#dir, name));
      const end = bytes.indexOf("\n");
      const data = new Uint8Array(bytes.subarray(end + 1));
      return { key: JSON.parse(bytes.toString("utf8", 0, end)) as string, data, etag: etagOf(data) };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
      throw error;
    }
  }

  /** One writer per object at a time, in all processes: what the service does on its side. */
  async #exclusively<R>(key: string, signal: AbortSignal | undefined, write: (name: string) => Promise<R>): Promise<R> {
    signal?.throwIfAborted();
    await mkdir(this.#dir, { recursive: true });
    return withNameLock(join(this.#dir, ".locks"), nameOf(key), () => write(nameOf(key)), { signal });
  }
}

function nameOf(key: string): string {
  return createHash("sha256").update(key).digest("hex");
}

function etagOf(data: Uint8Array): string {
  return createHash("sha256").update(data).digest("base64url");
}

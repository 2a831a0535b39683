/** One open `state.db`: a writer, a connection to read by, and who wants to hear of commits. */
import { clearInterval, setInterval } from "node:timers";
import { delay } from "../../abort.ts";
import { StateStoreBusyError } from "../../errors.ts";
import { connectWriter, type OpenOptions } from "./connect.ts";
import { openDatabase } from "./database.ts";
import { failureOf, toError } from "./failure.ts";
import { databasePath } from "./open.ts";
import type { Body } from "./protocol.ts";
import { Reader } from "./reader.ts";
import type { SubmitOptions, WriterClient } from "./writer-client.ts";

/** Between two tries to read what another process has locked (while it recovers the WAL, or removes it). */
const READ_PAUSE_MS = 2;

/** How late a change of another process is noticed at most. */
const POLL_MS = 20;

export class SqliteStore {
  readonly path: string;
  /** The epoch as far as this process knows; the writer knows better, and refuses what was made in another. */
  epoch: number;
  readonly #writer: WriterClient;
  readonly #reader: Reader;
  readonly #listeners = new Map<() => void, boolean>();
  #timer: NodeJS.Timeout | undefined;
  #version: number | null = null;

  private constructor(path: string, writer: WriterClient, reader: Reader, epoch: number) {
    this.path = path;
    this.#writer = writer;
    this.#reader = reader;
    this.epoch = epoch;
    writer.onCommit = () => this.#notify();
  }

  static async open(dir: string, flushed: boolean, options: OpenOptions): Promise<SqliteStore> {
    const path = databasePath(dir);
    const writer = await connectWriter(dir, path, flushed, options);
    const scope = { signal: options.signal, until: performance.now() + options.deadlineMs };
    let reader: Reader | undefined;
    try {
      reader = await untilFree(path, scope, () => openReader(path));
      const opened = reader;
      const epoch = await untilFree(path, scope, () => opened.epoch());
      return new SqliteStore(path, writer, reader, epoch);
    } catch (error) {
      reader?.close();
      await writer.close();
      throw error;
    }
  }

  /** What the writer answers, once it is committed. */
  submit<T>(body: Body, options: SubmitOptions): Promise<T> {
    return this.#writer.submit<T>(body, options);
  }

  /** What `read` gives; it sees all that is committed, and runs again when another process had the file locked. */
  read<T>(options: SubmitOptions, read: (reader: Reader) => T): Promise<T> {
    return untilFree(this.path, options, () => read(this.#reader));
  }

  /** As {@link read}, at once. */
  readNow<T>(read: (reader: Reader) => T): T {
    try {
      return read(this.#reader);
    } catch (error) {
      throw toError(failureOf(error, this.path), this.path);
    }
  }

  flush(): void {
    this.#writer.flush();
  }

  /**
   * Calls `listener` after commits: at once after those of this process, within POLL_MS after those of another. Returns
   * the way to stop.
   */
  subscribe(listener: () => void, { keepAlive }: { keepAlive: boolean }): () => void {
    this.#listeners.set(listener, keepAlive);
    this.#poll();
    return () => {
      this.#listeners.delete(listener);
      this.#poll();
    };
  }

  #notify(): void {
    for (const listener of [...this.#listeners.keys()]) listener();
  }

  /** One timer while anybody listens: SQLite tells of other connections' commits only when asked. */
  #poll(): void {
    if (this.#listeners.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
      return;
    }
    if (this.#timer === undefined) {
      this.#version = this.#dataVersion();
      this.#timer = setInterval(() => {
        const version = this.#dataVersion();
        if (version === this.#version) return;
        this.#version = version;
        this.#notify();
      }, POLL_MS);
    }
    if ([...this.#listeners.values()].includes(true)) this.#timer.ref();
    else this.#timer.unref();
  }

  /** Null while it cannot be told: another process has the file for itself just now. */
  #dataVersion(): number | null {
    try {
      return this.#reader.dataVersion();
    } catch {
      return null;
    }
  }

  /** Waits for what is under way. The reader first: the writer's is the connection that removes the WAL. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    try {
      this.#reader.close();
    } finally {
      await this.#writer.close();
    }
  }
}

function openReader(path: string): Reader {
  const database = openDatabase(path);
  try {
    return new Reader(database);
  } catch (error) {
    database.close();
    throw error;
  }
}

async function untilFree<T>(path: string, { signal, until }: SubmitOptions, read: () => T): Promise<T> {
  const start = performance.now();
  for (;;) {
    signal?.throwIfAborted();
    try {
      return read();
    } catch (error) {
      const failure = failureOf(error, path);
      if (failure.kind !== "busy") throw toError(failure, path);
      const now = performance.now();
      if (now >= until) throw new StateStoreBusyError(path, now - start, { cause: error });
      await delay(READ_PAUSE_MS, signal);
    }
  }
}

/** One database that this process has open: who writes to it, who hears of commits, and what time it is there. */
import { clearTimeout, setTimeout } from "node:timers";
import { CHANGES_KEPT } from "../record-store.ts";
import type { Clients } from "./client.ts";
import { Database } from "./database.ts";
import { channelOf } from "./schema.ts";
import { Session } from "./session.ts";

/** A notification in each transaction would make all commits of the database wait for one another. */
const NOTIFY_EVERY_MS = 50;
/** Until what a transaction under way keeps back from watchers is looked for again; doubled each time, for it may take hours. */
const LOOK_AGAIN_MS = 5;
const LONGEST_LOOK_AGAIN_MS = 250;
/** Trimmed by the thousand: it costs a statement, not one per change. */
const TRIM_EVERY = 2_000;
/** Of what need not succeed, and takes milliseconds: closing waits for it. */
const CHORE_DEADLINE_MS = 1_000;

export class PostgresStore {
  readonly database: Database;
  readonly session: Session;
  /** The epoch as far as this process knows; the database knows better, and refuses what was made in another. */
  epoch = 0;
  /** What is asked for from now on is to come behind what these find. */
  readonly barriers = new Set<Promise<unknown>>();
  readonly #listeners = new Set<() => void>();
  readonly #name = crypto.randomUUID();
  #notifiedAt = Number.NEGATIVE_INFINITY;
  #notification: NodeJS.Timeout | undefined;
  #lookAgain: NodeJS.Timeout | undefined;
  #lookAgainMs = LOOK_AGAIN_MS;
  #untrimmed = 0;
  #trimming: Promise<unknown> = Promise.resolve();
  #closed = false;

  constructor(clients: Clients, schema: string) {
    this.database = new Database(clients, schema);
    this.session = new Session(clients, schema, this.#name, () => this.#ring());
  }

  /** Calls `listener` after commits: at once after those of this process, soon after those of another. */
  subscribe(listener: () => void): () => void {
    const own = () => listener();
    this.#listeners.add(own);
    this.session.listen(true);
    return () => {
      this.#listeners.delete(own);
      if (this.#listeners.size > 0) return;
      this.session.listen(false);
      clearTimeout(this.#lookAgain);
      this.#lookAgain = undefined;
    };
  }

  /** So many changes were committed. */
  committed(changes: number): void {
    this.#ring();
    this.#notify();
    this.#untrimmed += changes;
    if (this.#untrimmed >= TRIM_EVERY) this.#trim();
  }

  /** There are changes that only an unfinished transaction keeps from being shown. */
  lookAgain(): void {
    if (this.#listeners.size === 0) return;
    this.#lookAgain ??= setTimeout(() => {
      this.#lookAgain = undefined;
      this.#lookAgainMs = Math.min(this.#lookAgainMs * 2, LONGEST_LOOK_AGAIN_MS);
      this.#ring();
    }, this.#lookAgainMs);
  }

  /** Nothing is kept back. */
  sawAll(): void {
    this.#lookAgainMs = LOOK_AGAIN_MS;
  }

  /** Waits for what is under way; others hear of the last changes. */
  async close(): Promise<void> {
    clearTimeout(this.#lookAgain);
    const isPending = this.#notification !== undefined;
    clearTimeout(this.#notification);
    this.#closed = true;
    if (isPending) await this.#send();
    await this.#trimming;
    await this.session.close();
    await this.database.close();
  }

  /** Of one that could not be opened. */
  async abandon(): Promise<void> {
    this.#closed = true;
    await this.session.close();
    this.database.abandon();
  }

  #ring(): void {
    for (const listener of [...this.#listeners]) listener();
  }

  #notify(): void {
    if (this.#notification !== undefined || this.#closed) return;
    const now = performance.now();
    const afterMs = Math.max(0, this.#notifiedAt + NOTIFY_EVERY_MS - now);
    this.#notification = setTimeout(() => {
      this.#notification = undefined;
      void this.#send();
    }, afterMs);
    this.#notification.unref();
  }

  /** A hint only: who does not get it looks by itself. */
  async #send(): Promise<void> {
    this.#notifiedAt = performance.now();
    const until = this.#notifiedAt + CHORE_DEADLINE_MS;
    const channel = channelOf(this.database.schema);
    await this.database.read("SELECT pg_notify($1, $2)", [channel, this.#name], { until }).catch(() => {});
  }

  #trim(): void {
    this.#untrimmed = 0;
    const { schema } = this.database;
    const until = performance.now() + CHORE_DEADLINE_MS;
    const statement = `SELECT ${schema}.trim_changes($1, $2, $3)`;
    // Should it fail, there is a next time.
    this.#trimming = this.database
      .write(statement, (patience) => [false, patience, CHANGES_KEPT], { until })
      .catch(() => {});
  }
}

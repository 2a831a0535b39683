/**
 * The one connection that outlasts a statement: it listens for the commits of other servers, and holds the locks that are
 * lost when it dies. Made when somebody needs it. A notification may be lost with the connection, so whoever listens is also
 * told when it was made anew, and now and then in between.
 */
import { clearInterval, clearTimeout, setInterval, setTimeout } from "node:timers";
import type { MirrorRight } from "../record-store.ts";
import type { Clients } from "./client.ts";
import { channelOf, lockOf } from "./schema.ts";
import type { PostgresClient } from "./source.ts";

/** How late a change of another server is noticed at most where notifications do not come through. */
const POLL_MS = 1_000;
/** Between two tries to connect. */
const PAUSE_MS = 100;

export class Session {
  readonly #clients: Clients;
  readonly #schema: string;
  /** Leaves out what this process has sent itself. */
  readonly #ownName: string;
  readonly #onChange: () => void;
  #session: PostgresClient | null = null;
  readonly #rights = new Map<string, { held: boolean }>();
  #listening = false;
  #timer: NodeJS.Timeout | undefined;
  #retry: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(clients: Clients, schema: string, ownName: string, onChange: () => void) {
    this.#clients = clients;
    this.#schema = schema;
    this.#ownName = ownName;
    this.#onChange = onChange;
  }

  /** From now on `onChange` is called after commits of other servers, and at times without. */
  listen(on: boolean): void {
    if (on === this.#listening || this.#closed) return;
    this.#listening = on;
    clearInterval(this.#timer);
    clearTimeout(this.#retry);
    if (!on) return;
    this.#timer = setInterval(this.#onChange, POLL_MS);
    this.#listen();
  }

  /** A lock of the database's that this process has until it releases it, or loses its connection. */
  async tryLock(what: string): Promise<MirrorRight | null> {
    // The database would give the same connection the same lock again.
    if (this.#rights.has(what)) return null;
    const session = this.#open();
    const lock = lockOf(this.#schema, what);
    const right = { held: true };
    this.#rights.set(what, right);
    let got = false;
    try {
      const [row] = Array.from(await session.unsafe(`SELECT pg_try_advisory_lock(${lock})`).values()) as [unknown[]];
      got = row[0] === true;
    } finally {
      if (!got && this.#rights.get(what) === right) this.#rights.delete(what);
    }
    if (!got) return null;
    const release = async () => {
      if (!right.held) return;
      this.#rights.delete(what);
      right.held = false;
      await session.unsafe(`SELECT pg_advisory_unlock(${lock})`).values();
    };
    return {
      get held() {
        return right.held;
      },
      release: () => release().catch(() => {}), // Gone with the connection.
    };
  }

  async close(): Promise<void> {
    this.listen(false);
    this.#closed = true;
    await this.#endSession();
  }

  #open(): PostgresClient {
    this.#session ??= this.#clients.another({
      max: 1,
      idle_timeout: null,
      max_lifetime: null,
      onnotify: (_: string, payload: string) => {
        if (payload !== this.#ownName) this.#onChange();
      },
      onclose: () => this.#lost(),
    });
    return this.#session;
  }

  #listen(): void {
    const channel = channelOf(this.#schema);
    Promise.resolve(this.#open().unsafe(`LISTEN ${channel}`).values())
      // What was committed before it listened is told of by nobody else.
      .then(this.#onChange, () => this.#listenAgain());
  }

  #listenAgain(): void {
    clearTimeout(this.#retry);
    if (this.#listening && !this.#closed) this.#retry = setTimeout(() => this.#listen(), PAUSE_MS);
  }

  #lost(): void {
    for (const right of this.#rights.values()) right.held = false;
    this.#rights.clear();
    // The driver's connection may not come up again: see Database.
    void this.#endSession();
    this.#listenAgain();
  }

  async #endSession(): Promise<void> {
    const session = this.#session;
    this.#session = null;
    if (session !== null) await this.#clients.end(session, 1);
  }
}

/**
 * Statements to the database: so many at once, each with a deadline and an abort, tried again where it surely never began. A
 * statement that waits here for its turn can be dropped; one that was sent is waited for.
 */
import { abortable, type Deferred, deferred, delay } from "../../abort.ts";
import { Roll, type Seat, Underway } from "../../churn.ts";
import { ClosedError, StateStoreBusyError, StateStoreUnavailableError, WriteDeadlineError } from "../../errors.ts";
import type { Scope } from "../record-store.ts";
import type { Clients } from "./client.ts";
import { DatabaseClock } from "./clock.ts";
import { causeOf, kindOf, toError } from "./failure.ts";
import { describePlace, type PostgresClient, type PostgresQuery } from "./source.ts";

/** The values of a row, in the order of the columns. */
export type Columns = readonly unknown[];
export type Parameter = string | number | boolean | null | Uint8Array;

/** Between two tries; doubled up to the second. */
const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 250;
/** How much longer than its deadline a statement is waited for that says itself when it is late. */
const GRACE_MS = 1_000;
/** The longest that the database takes as a timeout, and a timer as a delay. */
const LONGEST_TIMER_MS = 2_147_483_647;

const DEFAULT_CONNECTIONS = 10;

/** A client, and its statements. */
interface Pool {
  readonly client: PostgresClient;
  readonly underWay: Underway;
}

/** A statement on its way. */
interface Sending {
  readonly rows: Promise<Columns[]>;
  /** True when it was not sent, and will not be. */
  withdraw(): boolean;
}

function poolOf(client: PostgresClient): Pool {
  return { client, underWay: new Underway() };
}

export class Database {
  readonly schema: string;
  /** As errors name it. */
  readonly place: string;
  readonly clock = new DatabaseClock();
  readonly #clients: Clients;
  #pool: Pool;
  #free: number;
  readonly #waiting = new Roll<Deferred<void>>();
  readonly #underWay = new Underway();
  readonly #closing = new AbortController();

  constructor(clients: Clients, schema: string) {
    const { first: client } = clients;
    this.#clients = clients;
    this.#pool = poolOf(client);
    this.schema = schema;
    this.place = describePlace(client, schema);
    const { max } = client.options as { max?: unknown };
    this.#free = typeof max === "number" && max >= 1 ? max : DEFAULT_CONNECTIONS;
  }

  /** What a statement that changes nothing gives. Tried again until the deadline while the database is not there. */
  async read(statement: string, parameters: readonly Parameter[], scope: Scope): Promise<Columns[]> {
    return this.#repeat(scope, async () => {
      const release = await this.#turn(scope);
      // It ends by itself in milliseconds, and holds nothing that others wait for.
      const sending = this.#send(statement, parameters);
      const rows = sending.rows.finally(release);
      const late = (waitedMs: number) => {
        sending.withdraw();
        return new StateStoreUnavailableError(this.place, `it has not answered for ${Math.round(waitedMs)} ms`);
      };
      return abortable(this.#until(rows, scope.until, late), scope.signal);
    });
  }

  /**
   * What a statement that changes something gives; its parameters, made from how long it may wait for locks. Point of no
   * return: it is sent. It is sent again only when it surely did nothing.
   */
  async write(
    statement: string,
    parameters: (patienceMs: number) => readonly Parameter[],
    scope: Scope,
  ): Promise<Columns[]> {
    return this.#repeat(scope, async () => {
      const release = await this.#turn(scope);
      // The turn may have been free at once, and the abort have come before this was told of it.
      if (scope.signal?.aborted) {
        release();
        throw scope.signal.reason;
      }
      return this.sendWrite(statement, parameters(this.patience(scope)), scope, release);
    });
  }

  /**
   * A statement that changes something, at once. @throws WriteDeadlineError when nobody knows what became of it; else it did
   * nothing, and the error is the driver's
   */
  async sendWrite(
    statement: string,
    parameters: readonly Parameter[],
    scope: Pick<Scope, "until">,
    release: () => void,
  ): Promise<Columns[]> {
    const start = performance.now();
    const sending = this.#send(statement, parameters);
    const rows = sending.rows.finally(release);
    // As long as it waits in the driver for a connection, it can be taken back.
    let withdrawn = false;
    const timer = setTimeout(
      () => {
        withdrawn = sending.withdraw();
      },
      timerMs(start, scope.until),
    );
    try {
      return await this.#until(
        rows,
        scope.until + GRACE_MS,
        (waitedMs) => new WriteDeadlineError(this.place, Math.round(waitedMs)),
      );
    } catch (error) {
      const waitedMs = Math.round(performance.now() - start);
      if (withdrawn) throw notConnected(waitedMs);
      if (kindOf(error) !== "lost") throw error;
      throw new WriteDeadlineError(this.place, waitedMs, { cause: causeOf(error) });
    } finally {
      clearTimeout(timer);
    }
  }

  /** Waits for one of the connections; call what it gives to let go of it. */
  async turn(scope: Scope): Promise<() => void> {
    return this.#turn(scope);
  }

  /** A connection now, or null. */
  tryTurn(): (() => void) | null {
    if (this.#free === 0 || this.#closing.signal.aborted) return null;
    this.#free--;
    return this.#release();
  }

  /** How long a statement may wait for locks: as a parameter, in milliseconds. */
  patience({ until }: Pick<Scope, "until">): number {
    return Math.min(Math.max(1, Math.ceil(until - performance.now())), LONGEST_TIMER_MS);
  }

  /** From now on nothing is begun; resolves when nothing is under way. */
  async close(): Promise<void> {
    this.#closing.abort(new ClosedError("the state store"));
    await this.#underWay.over();
    await this.#clients.end(this.#pool.client, 1);
  }

  /**
   * The same without waiting: what never came to be of use may hang on a server that does not answer. Yet it gets its second:
   * the driver forgets a connection that it ends while it is being made, and leaves it open (postgres 3.4.9, `terminate`).
   */
  abandon(): void {
    this.#closing.abort(new ClosedError("the state store"));
    this.#clients.end(this.#pool.client, 1).catch(() => {});
  }

  /** The error of a statement that did nothing. */
  error(error: unknown, waitedMs: number): Error {
    return toError(error, this.place, waitedMs);
  }

  #send(statement: string, parameters: readonly Parameter[]): Sending {
    const pool = this.#pool;
    const query = pool.client.unsafe(statement, parameters as never[], { prepare: true });
    return {
      rows: this.#underWay.track(pool.underWay.track(this.#rowsOf(query, pool))),
      withdraw: () => {
        if (query.state !== null || query.cancel === undefined) return false;
        query.cancel();
        // A connection that was being made for it would come up to nothing, and never be used (postgres 3.4.9, `initial`).
        this.#renew(pool);
        return true;
      },
    };
  }

  async #rowsOf(query: PostgresQuery, pool: Pool): Promise<Columns[]> {
    try {
      return Array.from(await query.values()) as Columns[];
    } catch (error) {
      if (kindOf(error) === "lost") this.#renew(pool);
      throw error;
    }
  }

  /**
   * A connection that is cut while a statement waits in the driver's buffer never comes up again: what it would send first is
   * not sent, and each use of it ends in a timeout (postgres 3.4.9, `nextWriteTimer` in `closed`). So its client is left.
   */
  #renew(lost: Pool): void {
    if (this.#pool !== lost) return;
    this.#pool = poolOf(this.#clients.another());
    const ended = lost.underWay.over().then(() => this.#clients.end(lost.client, 0));
    this.#underWay.track(ended).catch(() => {});
  }

  async #until<T>(answer: Promise<T>, until: number, error: (waitedMs: number) => Error): Promise<T> {
    const start = performance.now();
    const late = deferred<never>();
    const timer = setTimeout(() => late.reject(error(performance.now() - start)), timerMs(start, until));
    try {
      return await Promise.race([answer, late.promise]);
    } finally {
      clearTimeout(timer);
      answer.catch(() => {});
    }
  }

  async #repeat<T>(scope: Scope, attempt: () => Promise<T>): Promise<T> {
    const start = performance.now();
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
      try {
        return await attempt();
      } catch (error) {
        const kind = kindOf(error);
        const now = performance.now();
        const again = kind === "refused" || kind === "lost" || kind === "conflict";
        if (error === scope.signal?.reason || error === this.#closing.signal.reason) throw error;
        if (!again || now + pauseMs > scope.until) throw this.error(error, now - start);
        await delay(pauseMs, scope.signal);
      }
    }
  }

  async #turn(scope: Scope): Promise<() => void> {
    scope.signal?.throwIfAborted();
    this.#closing.signal.throwIfAborted();
    if (this.#free > 0) {
      this.#free--;
      return this.#release();
    }
    const turn = deferred<void>();
    const seat: Seat<Deferred<void>> = this.#waiting.add(turn);
    const start = performance.now();
    const timer = setTimeout(
      () => turn.reject(new StateStoreBusyError(this.place, performance.now() - start)),
      Math.min(scope.until - start, LONGEST_TIMER_MS),
    );
    try {
      await abortable(turn.promise, scope.signal);
    } catch (error) {
      // It may have come to its turn in the same moment.
      if (!this.#waiting.remove(seat)) this.#release()();
      throw error;
    } finally {
      clearTimeout(timer);
    }
    return this.#release();
  }

  #release(): () => void {
    let released = false;
    return () => {
      if (released) return;
      released = true;
      const next = this.#waiting.shift();
      if (next === undefined) this.#free++;
      else next.resolve();
    };
  }
}

/** The delay of a timer for `until`. */
function timerMs(now: number, until: number): number {
  return Math.min(Math.max(until - now, 0), LONGEST_TIMER_MS);
}

/** As the driver says it of a connection that takes too long. */
function notConnected(waitedMs: number): Error {
  return Object.assign(new Error(`no connection came up for ${waitedMs} ms`), { code: "CONNECT_TIMEOUT" });
}

/** Of one-line arrays as PostgreSQL writes them; the driver's own would need to know each type. */
export function arrayOf(values: readonly (string | number | null)[]): string {
  let text = "{";
  for (let at = 0; at < values.length; at++) {
    const value = values[at] as string | number | null;
    if (at > 0) text += ",";
    if (typeof value === "string") text += `"${value.replace(/["\\]/g, "\\$&")}"`;
    else text += value === null ? "NULL" : value;
  }
  return `${text}}`;
}

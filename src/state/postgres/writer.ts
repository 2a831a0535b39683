/**
 * Group commit: the changes that one turn of the event loop asks for go into one statement, which is one transaction. So
 * many statements at once; what is asked for meanwhile goes into the next. Each request gets an answer of its own.
 */
import { clearTimeout, setImmediate, setTimeout } from "node:timers";
import { Roll, type Seat } from "../../churn.ts";
import { StateStoreBusyError, TussockError } from "../../errors.ts";
import type { RowChange, Scope, WriteOptions } from "../record-store.ts";
import type { Registration } from "../secondary.ts";
import { kindOf } from "./failure.ts";
import type { PostgresStore } from "./store.ts";
import { type Outcome, prepareWrite, statementOf, takeOutcome } from "./write-statement.ts";

/** Statements of one index at once: while the database works on one, the next is made. */
const LANES = 2;
/** Changes in one statement, unless one request alone has more. */
const MOST_CHANGES = 512;
/**
 * How long a statement waits for a lock. Then each of its requests goes alone, with growing pauses, so that who holds the lock
 * of one record holds up that one only.
 */
const PATIENCE_MS = 50;
/** Between two tries. */
const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 250;

/** What a request comes to: as many numbers of records as it has changes, 0 for one that was refused. */
export interface Written {
  readonly recs: readonly (number | null)[];
  readonly epoch: number;
  /** The secondary indexes are others by now; nothing was done. */
  readonly isCurrent: boolean;
}

class Pending {
  readonly changes: readonly RowChange[];
  readonly options: WriteOptions;
  readonly scope: Scope;
  readonly askedAt = performance.now();
  seat: Seat<Pending> | null = null;
  /** It goes in a statement of its own. */
  alone: boolean;
  /** Why it was undone the last time; and when it is tried again, on the clock of `performance.now()`. */
  lastError: unknown = null;
  notBefore = 0;
  pauseMs = FIRST_PAUSE_MS;
  readonly #resolve: (written: Written) => void;
  readonly #reject: (reason: unknown) => void;
  #onAbort: (() => void) | null = null;

  constructor(
    changes: readonly RowChange[],
    options: WriteOptions,
    scope: Scope,
    resolve: (written: Written) => void,
    reject: (reason: unknown) => void,
  ) {
    this.changes = changes;
    this.options = options;
    this.scope = scope;
    this.alone = options.mark !== undefined || changes[0]?.quiet === true;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  /** In one statement, which is for one generation of the indexes. */
  goesWith(other: Pending): boolean {
    if (this.alone || other.alone) return false;
    return this.options.registration.generation === other.options.registration.generation;
  }

  /** Doubled each time. */
  nextPause(): number {
    this.pauseMs = Math.min(this.pauseMs * 2, LONGEST_PAUSE_MS);
    return this.pauseMs;
  }

  listen(onAbort: () => void): void {
    this.#onAbort = onAbort;
    this.scope.signal?.addEventListener("abort", onAbort, { once: true });
  }

  succeed(written: Written): void {
    this.#end();
    this.#resolve(written);
  }

  fail(reason: unknown): void {
    this.#end();
    this.#reject(reason);
  }

  #end(): void {
    if (this.#onAbort !== null) this.scope.signal?.removeEventListener("abort", this.#onAbort);
    this.#onAbort = null;
  }
}

/** Records that are not to be changed now. */
class Held {
  readonly #sets: readonly ReadonlySet<string>[];
  /** Made when it is needed: mostly nothing has to wait. */
  #more: Set<string> | null = null;

  constructor(sets: readonly ReadonlySet<string>[]) {
    this.#sets = sets;
  }

  has(changes: readonly RowChange[]): boolean {
    return changes.some(({ next: { id } }) => this.#more?.has(id) || this.#sets.some((ids) => ids.has(id)));
  }

  add(changes: readonly RowChange[]): void {
    this.#more ??= new Set();
    for (const { next } of changes) this.#more.add(next.id);
  }
}

export class Writer {
  readonly #store: PostgresStore;
  readonly #flushed: boolean;
  readonly #queue = new Roll<Pending>();
  /** The records that each statement under way changes: what else is asked of them waits, lest it be done before. */
  #sent: readonly ReadonlySet<string>[] = [];
  #lanes = 0;
  #scheduled = false;
  #deadline: NodeJS.Timeout | undefined;
  #deadlineAt = Number.POSITIVE_INFINITY;
  #pause: NodeJS.Timeout | undefined;
  #pauseMs = FIRST_PAUSE_MS;
  #nextTry: NodeJS.Timeout | undefined;

  constructor(store: PostgresStore, flushed: boolean) {
    this.#store = store;
    this.#flushed = flushed;
  }

  /**
   * Point of no return: the statement is sent. Aborted before: rejects with `signal.reason`, and nothing was done. Late before:
   * StateStoreBusyError, or what keeps the database away, and nothing was done. When nobody knows: WriteDeadlineError.
   */
  submit(changes: readonly RowChange[], options: WriteOptions, scope: Scope): Promise<Written> {
    if (scope.signal?.aborted) return Promise.reject(scope.signal.reason);
    return new Promise((resolve, reject) => {
      const pending = new Pending(changes, options, scope, resolve, reject);
      pending.listen(() => this.#giveUp(pending, scope.signal?.reason));
      pending.seat = this.#queue.add(pending);
      this.#watchDeadline(scope.until);
      this.#schedule();
    });
  }

  /** At the end of the turn, when there is room. */
  #schedule(): void {
    if (this.#scheduled || this.#lanes >= LANES || this.#queue.size === 0 || this.#pause !== undefined) return;
    if (this.#isNoneReady()) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      void this.#send();
    });
  }

  /** Of all that is there: then it comes back when it is time, or when a statement has ended. */
  #isNoneReady(): boolean {
    const now = performance.now();
    let next = Number.POSITIVE_INFINITY;
    const held = new Held(this.#sent);
    for (const { notBefore, changes } of this.#queue) {
      if (notBefore > now) next = Math.min(next, notBefore);
      else if (held.has(changes)) held.add(changes);
      else return false;
    }
    clearTimeout(this.#nextTry);
    if (next < Number.POSITIVE_INFINITY) this.#nextTry = setTimeout(() => this.#schedule(), Math.ceil(next - now));
    return true;
  }

  async #send(): Promise<void> {
    if (this.#lanes >= LANES || this.#queue.size === 0 || this.#pause !== undefined) return;
    this.#lanes++;
    try {
      const release = await this.#turn();
      const { batch, ids } = this.#take();
      this.#sent = [...this.#sent, ids];
      this.#schedule();
      try {
        const [first] = batch;
        if (first !== undefined) await this.#run(first.options.registration, batch, release);
      } catch (error) {
        // A row that cannot even be made into a statement: nobody is left waiting.
        for (const pending of batch)
          pending.fail(this.#store.database.error(error, performance.now() - pending.askedAt));
      } finally {
        this.#sent = this.#sent.filter((each) => each !== ids);
        release();
      }
    } catch (error) {
      // The store was closed under it.
      for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) next.fail(error);
    } finally {
      this.#lanes--;
      this.#rest();
      this.#schedule();
    }
  }

  /** A connection, once all is found that a watch looks for which was begun before what is sent was asked for. */
  async #turn(): Promise<() => void> {
    const { barriers, database } = this.#store;
    for (;;) {
      if (barriers.size > 0) await Promise.allSettled([...barriers]);
      const release = await database.turn({ until: Number.POSITIVE_INFINITY });
      if (barriers.size === 0) return release;
      // It was begun while this waited for a connection, and needs one itself.
      release();
    }
  }

  /**
   * The oldest requests, as many as go together: of one record there is but one change in a statement, and what is asked of
   * it later stays behind what is asked earlier. Only where that waits for somebody else's lock, others go on.
   */
  #take(): { batch: Pending[]; ids: ReadonlySet<string> } {
    const batch: Pending[] = [];
    const ids = new Set<string>();
    const held = new Held([...this.#sent, ids]);
    let size = 0;
    const now = performance.now();
    for (const pending of [...this.#queue]) {
      const { changes } = pending;
      if (pending.notBefore > now) continue;
      const fits = batch[0] === undefined || (pending.goesWith(batch[0]) && size + changes.length <= MOST_CHANGES);
      if (!fits || held.has(changes)) {
        if (size >= MOST_CHANGES || batch[0]?.alone) break;
        held.add(changes);
        continue;
      }
      if (pending.seat !== null) this.#queue.remove(pending.seat);
      pending.seat = null;
      for (const { next } of changes) ids.add(next.id);
      size += changes.length;
      batch.push(pending);
    }
    return { batch, ids };
  }

  async #run(registration: Registration, batch: Pending[], release: () => void): Promise<void> {
    const { database } = this.#store;
    const until = Math.min(...batch.map(({ scope }) => scope.until));
    const patience = database.patience({ until });
    const { parameters, order } = prepareWrite(registration, batch, {
      flushed: this.#flushed,
      patience: Math.min(patience, PATIENCE_MS),
    });
    const start = performance.now();
    let rows: readonly (readonly unknown[])[];
    try {
      rows = await database.sendWrite(statementOf(database.schema), parameters, { until }, release);
    } catch (error) {
      this.#failed(batch, error);
      return;
    }
    const end = performance.now();
    const outcome = takeOutcome(rows, order);
    this.#pauseMs = FIRST_PAUSE_MS;
    database.clock.observe(start, end, outcome.clock);
    const done = outcome.recs.filter((rec) => rec !== null).length;
    if (done > 0) this.#store.committed(done);
    this.#answer(batch, outcome, { batch: batch.length, flushMs: end - start });
  }

  #answer(batch: Pending[], { recs, epoch, isCurrent }: Outcome, commit: { batch: number; flushMs: number }): void {
    let from = 0;
    for (const pending of batch) {
      const to = from + pending.changes.length;
      pending.scope.onCommit?.(commit, performance.now() - pending.askedAt);
      pending.succeed({ recs: recs.slice(from, to), epoch, isCurrent });
      from = to;
    }
  }

  #failed(batch: Pending[], error: unknown): void {
    const kind = kindOf(error);
    const now = performance.now();
    const inTheWay = kind === "conflict" || kind === "busy";
    if (error instanceof TussockError) for (const pending of batch) pending.fail(error);
    else if (kind === "refused") {
      // The database is away: for all of them.
      this.#again(batch, error, now);
      this.#pauseAll();
    } else if (batch.length > 1) {
      // One of them is the culprit; none was applied.
      for (const pending of batch) pending.alone = true;
      this.#again(batch, error, now);
    } else if (inTheWay) this.#again(batch, error, now, batch[0]?.nextPause());
    else for (const pending of batch) pending.fail(this.#store.database.error(error, now - pending.askedAt));
  }

  /** Before what was asked later; but behind it after a pause, for what is locked is not to hold up all else. */
  #again(batch: readonly Pending[], error: unknown, now: number, pauseMs = 0): void {
    for (const pending of batch.toReversed()) {
      const { scope } = pending;
      pending.lastError = error;
      pending.notBefore = now + pauseMs;
      if (scope.signal?.aborted) pending.fail(scope.signal.reason);
      else if (now >= scope.until) pending.fail(this.#lateError(pending, now));
      else {
        pending.seat = pauseMs > 0 ? this.#queue.add(pending) : this.#queue.addFirst(pending);
        this.#watchDeadline(scope.until);
      }
    }
  }

  #pauseAll(): void {
    clearTimeout(this.#pause);
    this.#pauseMs = Math.min(this.#pauseMs * 2, LONGEST_PAUSE_MS);
    this.#pause = setTimeout(() => {
      this.#pause = undefined;
      this.#schedule();
    }, this.#pauseMs);
  }

  /** Rejects with `reason` unless it has been sent. */
  #giveUp(pending: Pending, reason: unknown): void {
    if (pending.seat === null || !this.#queue.remove(pending.seat)) return;
    pending.seat = null;
    pending.fail(reason);
    this.#rest();
  }

  /** One timer, for the deadline that comes first. */
  #watchDeadline(until: number): void {
    if (until >= this.#deadlineAt) return;
    clearTimeout(this.#deadline);
    this.#deadlineAt = until;
    this.#deadline = setTimeout(() => this.#expire(), Math.min(until - performance.now(), 2_147_483_647));
  }

  #expire(): void {
    this.#deadlineAt = Number.POSITIVE_INFINITY;
    const now = performance.now();
    for (const pending of [...this.#queue]) {
      if (pending.scope.until > now) this.#watchDeadline(pending.scope.until);
      else this.#giveUp(pending, this.#lateError(pending, now));
    }
  }

  #lateError({ lastError, askedAt }: Pending, now: number): Error {
    const { database } = this.#store;
    if (lastError !== null) return database.error(lastError, now - askedAt);
    return new StateStoreBusyError(database.place, now - askedAt);
  }

  /** When nothing is under way: no timer. */
  #rest(): void {
    if (this.#queue.size > 0) return;
    clearTimeout(this.#deadline);
    this.#deadlineAt = Number.POSITIVE_INFINITY;
    clearTimeout(this.#pause);
    this.#pause = undefined;
    clearTimeout(this.#nextTry);
  }
}

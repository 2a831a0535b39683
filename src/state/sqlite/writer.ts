/**
 * The one writer of this process: runs requests, as many as have come, in one transaction each time (group commit).
 * It never waits; whoever drives it decides how to wait where another process has the lock.
 */
import type { CommitTimes } from "../record-store.ts";
import { type DatabaseSync, Statements } from "./database.ts";
import { failureOf, TypedFailure } from "./failure.ts";
import type { Guard } from "./guard.ts";
import { Known } from "./known.ts";
import type { OpenStore } from "./open.ts";
import type { Reply, Request, Result } from "./protocol.ts";
import type { Slots } from "./slots.ts";
import type { StoreFiles } from "./store-files.ts";
import { Transaction } from "./transaction.ts";

/** Requests in one transaction. More wait for the next: a caller must not wait for thousands of others. */
const MOST_REQUESTS = 1_000;

/** Nobody who opens the store later would find what is written. */
const MOVED =
  "the file was removed or replaced while it was open. Nothing was written; close the index in every process, then open it again";

interface Taken {
  readonly request: Request;
  result: Result;
}

export class Writer {
  readonly #database: DatabaseSync;
  readonly #statements: Statements;
  readonly #known: Known;
  readonly #path: string;
  readonly #files: StoreFiles;
  readonly #slots: Slots;
  readonly #guard: Guard;
  #flushed = true;
  /** Of the last transaction; null when it failed. */
  lastCommit: CommitTimes | null = null;

  constructor({ database, guard, files }: OpenStore, path: string, slots: Slots) {
    this.#database = database;
    this.#statements = new Statements(database);
    this.#known = new Known(this.#statements);
    this.#path = path;
    this.#files = files;
    this.#slots = slots;
    this.#guard = guard;
  }

  /** Whether the disk is waited for at each commit. */
  set flushed(on: boolean) {
    if (on === this.#flushed) return;
    this.#database.exec(`PRAGMA synchronous = ${on ? "FULL" : "NORMAL"}`);
    this.#flushed = on;
  }

  /**
   * Commits what is in `queue` and what `pull` brings while it is at it, and takes it off the queue. Null, and nothing
   * taken, when another process has the lock. Never throws: what goes wrong is in the replies.
   */
  commit(queue: Request[], pull: () => void): Reply[] | null {
    const taken: Taken[] = [];
    const skipped: Reply[] = [];
    this.lastCommit = null;
    const takeNext = (): Taken | undefined => {
      for (let request = queue.shift(); request !== undefined; request = queue.shift()) {
        const next: Taken = { request, result: { ok: null } };
        if (this.#slots.take(request.slot)) {
          taken.push(next);
          return next;
        }
        skipped.push({ slot: request.slot, result: next.result });
      }
      return undefined;
    };
    try {
      if (!this.#begin()) return null;
    } catch (error) {
      for (let next = takeNext(); next !== undefined; next = takeNext()) next.result = this.#failed(error);
      return [...skipped, ...taken.map(replyOf)];
    }
    try {
      const transaction = new Transaction(this.#statements, this.#known);
      while (taken.length < MOST_REQUESTS) {
        if (queue.length === 0) pull();
        const next = takeNext();
        if (next === undefined) break;
        this.#execute(transaction, next);
      }
      transaction.finish();
      const start = performance.now();
      this.#statements.run("COMMIT");
      this.lastCommit = { batch: taken.length, flushMs: performance.now() - start };
    } catch (error) {
      this.#rollback();
      this.#runAlone(taken, error);
    } finally {
      this.#guard.unlock();
    }
    return [...skipped, ...taken.map(replyOf)];
  }

  /** Takes the given-up requests off the queue while it has to wait. */
  skip(queue: Request[]): Reply[] {
    const skipped = queue.filter(({ slot }) => this.#slots.isGivenUp(slot));
    if (skipped.length > 0) queue.splice(0, queue.length, ...queue.filter((request) => !skipped.includes(request)));
    return skipped.map(({ slot }) => ({ slot, result: { ok: null } }));
  }

  /** A request that is refused has written nothing yet; anything else that goes wrong undoes the transaction. */
  #execute(transaction: Transaction, taken: Taken): void {
    try {
      taken.result = { ok: true, value: transaction.execute(taken.request.body) };
    } catch (error) {
      if (!(error instanceof TypedFailure)) throw error;
      taken.result = this.#failed(error);
    }
  }

  /** After a transaction that failed: each request in one of its own, so that only the culprit fails. */
  #runAlone(all: Taken[], error: unknown): void {
    for (const taken of all) {
      if (all.length === 1) {
        taken.result = this.#failed(error);
        return;
      }
      try {
        this.#statements.run("BEGIN IMMEDIATE");
        const transaction = new Transaction(this.#statements, this.#known);
        this.#execute(transaction, taken);
        transaction.finish();
        this.#statements.run("COMMIT");
      } catch (failure) {
        this.#rollback();
        taken.result = this.#failed(failure);
      }
    }
  }

  #failed(error: unknown): Result {
    return { ok: false, failure: failureOf(error, this.#path) };
  }

  #begin(): boolean {
    const moved = this.#files.moved();
    if (moved !== null) throw new TypedFailure("StateStoreUnavailableError", moved, MOVED);
    if (!this.#guard.lock()) return false;
    try {
      this.#statements.run("BEGIN IMMEDIATE");
      return true;
    } catch (error) {
      this.#guard.unlock();
      if (failureOf(error, this.#path).kind === "busy") return false;
      throw error;
    }
  }

  /** SQLite has ended the transaction itself after some errors (a full disk, an I/O error). */
  #rollback(): void {
    this.#known.forget();
    if (this.#database.isTransaction === false) return;
    try {
      this.#database.exec("ROLLBACK");
    } catch {
      // Nothing to roll back.
    }
  }
}

function replyOf({ request, result }: Taken): Reply {
  return { slot: request.slot, result };
}

/**
 * What the writer's connection last read of the small tables, or wrote to them: a commit of 36 requests would spend a
 * thirtieth of its time on reading them again. Good until another connection commits, or a transaction is undone.
 */
import { describe } from "./catalog.ts";
import { assertSum, DamageError, storeSum, sumOf } from "./checks.ts";
import type { Statements } from "./database.ts";
import type { Description } from "./protocol.ts";
import * as sql from "./sql.ts";

export class Known {
  readonly #statements: Statements;
  readonly #indexes = new Map<number, Description>();
  readonly #counters = new Map<string, number>();
  #epoch: number | undefined;
  #version: number | undefined;

  constructor(statements: Statements) {
    this.#statements = statements;
  }

  /** Call it first in each transaction. */
  begin(): void {
    const version = Number(this.#statements.one(sql.DATA_VERSION)?.["data_version"]);
    if (version !== this.#version) this.forget();
    this.#version = version;
  }

  /** Call it when a transaction was undone. */
  forget(): void {
    this.#indexes.clear();
    this.#counters.clear();
    this.#epoch = undefined;
  }

  describe(index: number): Description {
    let description = this.#indexes.get(index);
    if (description === undefined) {
      description = describe(this.#statements, index);
      this.#indexes.set(index, description);
    }
    return description;
  }

  /** Indexes are about to become other ones. */
  redescribe(): void {
    this.#indexes.clear();
  }

  get epoch(): number {
    if (this.#epoch === undefined) {
      const row = this.#statements.one(sql.STORE);
      if (row === undefined) throw new DamageError("the store's own row is gone");
      const epoch = Number(row["epoch"]);
      assertSum("the store's epoch", storeSum(epoch), row["sum"]);
      this.#epoch = epoch;
    }
    return this.#epoch;
  }

  beginEpoch(): number {
    const epoch = this.epoch + 1;
    this.#statements.run(sql.SET_STORE, epoch, storeSum(epoch));
    this.#epoch = epoch;
    return epoch;
  }

  count(index: number, state: string, by: number): void {
    const name = `${index} ${state}`;
    const after = (this.#counters.get(name) ?? this.#counter(index, state)) + by;
    if (after < 0) throw new DamageError(`the counter of "${state}" would fall to ${after}`);
    this.#statements.run(sql.SET_COUNTER, index, state, after, sumOf(index, state, after));
    this.#counters.set(name, after);
  }

  #counter(index: number, state: string): number {
    const row = this.#statements.one(sql.COUNTER, index, state);
    if (row === undefined) return 0;
    const n = Number(row["n"]);
    assertSum(`the counter of "${state}"`, sumOf(index, state, n), row["sum"]);
    return n;
  }
}

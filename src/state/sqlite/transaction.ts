/**
 * What one transaction of the writer does to the tables. A record, its entries, the counters, the log of changes and the
 * mirror's outbox change together or not at all.
 *
 * Each request is checked before it writes anything: one that is refused leaves nothing behind, and those beside it in
 * the transaction go on.
 */
import { CHANGES_KEPT } from "../record-store.ts";
import { keysOf, type RowDraft } from "../row.ts";
import { register, setBuilt } from "./catalog.ts";
import { assertRecord, changeSum, DamageError, sumOf } from "./checks.ts";
import type { Statements } from "./database.ts";
import type { Known } from "./known.ts";
import type { Base, Body, Change, Description, PruneBody, WriteBody, WriteResult } from "./protocol.ts";
import { storedRow } from "./reader.ts";
import * as sql from "./sql.ts";

/** Trimmed by the thousand: it costs a statement, not one per change. */
const TRIM_EVERY = 1_000;

/** Where a record is listed. */
type Place = Pick<Base, "rec" | "state" | "since" | "keys">;

export class Transaction {
  readonly #statements: Statements;
  readonly #known: Known;
  readonly #counts = new Map<string, { index: number; state: string; by: number }>();
  /** The last change that fell on a multiple of TRIM_EVERY. */
  #trimAt = 0;

  /** It has begun already. */
  constructor(statements: Statements, known: Known) {
    this.#statements = statements;
    this.#known = known;
    known.begin();
  }

  execute(body: Body): unknown {
    switch (body.kind) {
      case "write":
        return this.#write(body);
      case "prune":
        return this.#prune(body);
      case "epoch":
        return this.#known.beginEpoch();
      case "register":
        this.#known.redescribe();
        return register(this.#statements, body);
      case "describe":
        return this.#known.describe(body.index);
      case "built":
        this.#known.redescribe();
        return setBuilt(this.#statements, body.index, body.secondary);
      case "delivered":
        for (const sequence of body.sequences) this.#statements.run(sql.DELETE_OUTBOX, sequence, body.index);
        return;
    }
  }

  /** What is left to be done before COMMIT. */
  finish(): void {
    for (const { index, state, by } of this.#counts.values()) if (by !== 0) this.#known.count(index, state, by);
    if (this.#trimAt > CHANGES_KEPT) this.#statements.run(sql.TRIM_CHANGES, this.#trimAt - CHANGES_KEPT);
  }

  #write({ index, generation, epoch, changes, mark }: WriteBody): WriteResult {
    const description = this.#known.describe(index);
    const current = this.#known.epoch;
    if (description.generation !== generation) return { outcomes: [], epoch: current, redescribed: description };
    if (epoch !== null && epoch !== current) return { outcomes: changes.map(() => null), epoch: current };
    const outcomes = changes.map((change) => this.#change(description, change));
    if (mark !== undefined && !outcomes.includes(null)) {
      const { name, watermark } = mark;
      this.#statements.run(sql.SET_MARK, index, name, watermark, sumOf(index, name, watermark));
    }
    return { outcomes, epoch: current };
  }

  #change(description: Description, { base, next, quiet, tombstone }: Change): number | null {
    const { index } = description;
    if (tombstone !== undefined && this.#tombstone(index, next.id) !== (tombstone?.sum ?? null)) return null;
    const rec = base === null ? this.#insert(index, next) : this.#update(index, base, next);
    if (rec === null) return null;
    this.#list(description, base, { ...next, rec });
    if (!quiet) this.#log(description, rec, base?.state ?? null, next);
    return rec;
  }

  #insert(index: number, row: RowDraft): number | null {
    const { id, state, since, createdAt, revision, epoch, origin, keys, data, sum } = row;
    const { changes, lastInsertRowid } = this.#statements
      .get(sql.INSERT)
      .run(index, id, state, since, createdAt, revision, epoch, origin, keys, data, sum);
    return Number(changes) === 0 ? null : Number(lastInsertRowid);
  }

  #update(index: number, base: Base, row: RowDraft): number | null {
    const { id, state, since, createdAt, revision, epoch, origin, keys, data, sum } = row;
    const set = [state, since, createdAt, revision, epoch, origin, keys, data, sum];
    const changed = this.#statements.run(sql.UPDATE, ...set, base.rec, index, id, base.revision, base.sum);
    return changed === 0 ? null : base.rec;
  }

  /** Moves a record's entries and counters from where it was to where it is; null for nowhere. */
  #list(description: Description, from: Place | null, to: Place | null): void {
    if (from?.state !== to?.state) {
      if (from !== null) this.#add(description.index, from.state, -1);
      if (to !== null) this.#add(description.index, to.state, 1);
    }
    const moved = from?.state !== to?.state || from?.since !== to?.since;
    if (moved) {
      if (from !== null) this.#unlist(from, description.listing, "");
      if (to !== null) this.#enlist(to, description.listing, "");
    }
    if (!moved && from?.keys === to?.keys) return;
    const before = from === null ? [] : keysOf(from);
    const after = to === null ? [] : from?.keys === to.keys ? before : keysOf(to);
    for (let at = 0; from !== null && at < before.length; at += 2) {
      // An index that was given up has no entries any more.
      if (isStored(description, before[at])) this.#unlist(from, before[at] as number, before[at + 1] as string);
    }
    for (let at = 0; to !== null && at < after.length; at += 2) {
      this.#enlist(to, after[at] as number, after[at + 1] as string);
    }
  }

  #enlist({ state, since, rec }: Place, number: number, key: string): void {
    this.#statements.run(sql.INSERT_ENTRY, number, state, key, since, rec);
  }

  #unlist({ state, since, rec }: Place, number: number, key: string): void {
    if (this.#statements.run(sql.DELETE_ENTRY, number, state, key, since, rec) === 0) {
      throw new DamageError(`record ${rec} is not listed under "${key}" in state "${state}"`);
    }
  }

  #add(index: number, state: string, by: number): void {
    const name = `${index} ${state}`;
    const count = this.#counts.get(name);
    if (count === undefined) this.#counts.set(name, { index, state, by });
    else count.by += by;
  }

  #log({ index, mirrored }: Description, rec: number, previous: string | null, row: RowDraft): void {
    const { id, state, since, createdAt, revision, epoch, origin, keys, data } = row;
    const sum = changeSum(row.sum, previous);
    const columns = [previous, index, rec, id, state, since, createdAt, revision, epoch, origin, keys, data, sum];
    const sequence = Number(this.#statements.get(sql.INSERT_CHANGE).run(...columns).lastInsertRowid);
    if (mirrored) this.#statements.run(sql.INSERT_OUTBOX, sequence, Date.now(), ...columns);
    if (sequence % TRIM_EVERY === 0) this.#trimAt = sequence;
  }

  #prune({ index, state, before, keep, limit }: PruneBody): { pruned: number; more: boolean } {
    const description = this.#known.describe(index);
    const end = this.#statements.one(sql.LAST_ENTRY, description.listing, state, "", keep);
    if (end === undefined) return { pruned: 0, more: false };
    const upTo = [Number(end["since"]), Number(end["rec"])] as const;
    const rows = this.#statements.allColumns(sql.PRUNABLE, description.listing, state, before, ...upTo, limit);
    const buries = description.mirrored || this.#statements.one(sql.HAS_IMPORTS, index) !== undefined;
    for (const columns of rows) {
      const row = storedRow(columns);
      assertRecord(index, row);
      if (buries || row.origin !== null) {
        const { id, since, origin } = row;
        this.#statements.run(
          sql.SET_TOMBSTONE,
          index,
          id,
          state,
          since,
          origin,
          sumOf(index, id, state, since, origin),
        );
      }
      this.#statements.run(sql.DELETE, row.rec, index, row.id);
      this.#list(description, row, null);
    }
    return { pruned: rows.length, more: rows.length === limit };
  }

  #tombstone(index: number, id: string): number | null {
    return (this.#statements.one(sql.TOMBSTONE, index, id)?.["sum"] as number | undefined) ?? null;
  }
}

function isStored(description: Description, number: unknown): boolean {
  return description.secondary.some((each) => each.number === number);
}

/**
 * What becomes of a record, and what is refused: pure functions from the record as it is to the record as it shall be.
 * They know lifecycles, revisions and times, and nothing of how records are stored.
 */
import { isObject } from "../arguments.ts";
import {
  InvalidArgumentError,
  LifecycleMismatchError,
  RecordExistsError,
  RecordNotFoundError,
  TransitionError,
  type TussockError,
} from "../errors.ts";
import { allows, DANGLING, isTerminal, type Lifecycle } from "./lifecycle.ts";
import { checkId, checkInteger, checkText, checkTime, MAX_ORIGIN_BYTES, toJson } from "./limits.ts";
import type { ImportRecord, NewRecord, Patch, TransitionOptions, UpdateOptions } from "./model.ts";
import { type StoredRow, takeData, toRecord } from "./row.ts";

/** A record as it shall be, before it has keys and a checksum. */
export interface Next {
  readonly id: string;
  readonly state: string;
  readonly since: number;
  readonly createdAt: number;
  readonly revision: number;
  readonly epoch: number;
  readonly origin: string | null;
  readonly data: unknown;
  /** The data again, as it is stored. */
  readonly json: string;
}

/** When a change happens: the caller's clock, and the store's epoch. */
export interface Moment {
  readonly now: number;
  readonly epoch: number;
}

/** What an item of an import may be newer than: a record, an item before it, or the little that is known of a pruned one. */
type ImportedBefore = Pick<Next, "state" | "since" | "origin"> & Partial<Pick<Next, "revision" | "json">>;

/** Imported records come from before every boot: whatever sweep looks for leftovers finds them. */
const IMPORTED_EPOCH = 0;

export class Rules<D, S extends string> {
  readonly name: string;
  readonly lifecycle: Lifecycle<S>;

  constructor(name: string, lifecycle: Lifecycle<S>) {
    this.name = name;
    this.lifecycle = lifecycle;
  }

  /** @throws LifecycleMismatchError for a state that the lifecycle does not have. */
  checkState(state: unknown): S {
    if (!this.lifecycle.states.includes(state as S)) throw this.#unknownState(state, this.lifecycle.states);
    return state as S;
  }

  /** As {@link checkState}, and lets `dangling` through: for reading. */
  checkStates<T extends string>(states: T | readonly T[]): T[] {
    if (typeof states !== "string" && !Array.isArray(states))
      throw new InvalidArgumentError("state", states, "a state, or an array of states");
    const list = typeof states === "string" ? [states] : [...new Set(states)];
    for (const state of list) {
      if (state !== DANGLING && !this.lifecycle.states.includes(state as unknown as S)) {
        throw this.#unknownState(state, [...this.lifecycle.states, DANGLING]);
      }
    }
    return list;
  }

  inserted(input: NewRecord<D, S>, { now, epoch }: Moment): Next {
    return {
      id: checkId(input.id),
      state: this.checkState(input.state ?? this.lifecycle.initial),
      since: input.since === undefined ? now : checkTime("since", input.since),
      createdAt: now,
      revision: 1,
      epoch,
      origin: null,
      data: input.data,
      json: toJson(input.data),
    };
  }

  exists(row: StoredRow): RecordExistsError {
    return new RecordExistsError(this.name, row.id, toRecord<D, S>(row));
  }

  /** Insert or replace; replacing follows the lifecycle, as a transition does, and the same state is let through always. */
  replaced(
    current: StoredRow | null,
    input: { id: string; state: S; data: D },
    revision: number | undefined,
    moment: Moment,
  ): Next {
    if (current === null) {
      if (revision !== undefined && revision !== 0) throw new RecordNotFoundError(this.name, input.id);
      return this.inserted(input, moment);
    }
    if (revision === 0) throw this.exists(current);
    const state = this.checkState(input.state);
    this.#checkRevision(current, revision);
    if (state !== current.state) this.#checkMove(current, state);
    return entered(current, state, moment, { data: input.data, json: toJson(input.data) });
  }

  updated(current: StoredRow | null, id: string, patch: Patch<D>, o: UpdateOptions<S>): Next {
    const row = this.#present(current, id);
    this.#checkFrom(row, o.state);
    this.#checkRevision(row, o.revision);
    const { state, since, createdAt, revision, epoch, origin } = row;
    const { data, json } = patched(row, patch);
    return { id, state, since, createdAt, revision: revision + 1, epoch, origin, data, json };
  }

  transitioned(current: StoredRow | null, id: string, to: S, o: TransitionOptions<D, S>, moment: Moment): Next {
    const row = this.#present(current, id);
    this.checkState(to);
    this.#checkFrom(row, o.from);
    this.#checkRevision(row, o.revision);
    this.#checkMove(row, to);
    return entered(row, to, moment, patched(row, o.patch));
  }

  /** An item of an import in the form of a record. @throws InvalidArgumentError, KeyTooLongError, LifecycleMismatchError */
  imported(item: ImportRecord<D, S>): Next {
    const [state] = this.checkStates([item.state]);
    const since = checkTime("since", item.since);
    return {
      id: checkId(item.id),
      state: state as string,
      since,
      createdAt: item.createdAt === undefined ? since : checkTime("createdAt", item.createdAt),
      revision: 1,
      epoch: IMPORTED_EPOCH,
      origin: item.origin === undefined ? null : checkText("origin", item.origin, MAX_ORIGIN_BYTES),
      data: item.data,
      json: toJson(item.data),
    };
  }

  /**
   * Whether an imported record says more than what is there. An ended record over a live one, and among equals the later:
   * never back. A source that is gone (`dangling`) says something only of a live record that came from that very source.
   * Where state and time are the same, other data is an amendment of the source (a lease whose writes were marked), taken as
   * long as the record is as it was first brought in: of a later revision nobody can say whose change it is.
   */
  isNewer(item: Next, there: ImportedBefore): boolean {
    if (item.state === there.state && item.since === there.since) {
      const isUntouched = there.revision === 1 && item.origin !== null && item.origin === there.origin;
      return isUntouched && item.json !== there.json;
    }
    const rank = this.#rank(item.state) - this.#rank(there.state);
    if (item.state === DANGLING) return rank > 0 && item.origin !== null && item.origin === there.origin;
    return rank > 0 || (rank === 0 && item.since > there.since);
  }

  #rank(state: string): number {
    if (state === DANGLING) return 1;
    return isTerminal(this.lifecycle, state) ? 2 : 0;
  }

  #present(row: StoredRow | null, id: string): StoredRow {
    if (row === null) throw new RecordNotFoundError(this.name, id);
    return row;
  }

  #checkFrom(row: StoredRow, from: S | readonly S[] | undefined): void {
    if (from === undefined) return;
    const states: readonly string[] = this.checkStates(from);
    if (!states.includes(row.state)) {
      throw this.#refused(row, `is ${row.state}, not ${states.join(" or ")}`);
    }
  }

  #checkRevision(row: StoredRow, revision: number | undefined): void {
    if (revision === undefined) return;
    if (checkInteger("revision", revision) !== row.revision) {
      throw this.#refused(row, `has revision ${row.revision}, not ${revision}: somebody changed it meanwhile`);
    }
  }

  #checkMove(row: StoredRow, to: S): void {
    if (allows(this.lifecycle, row.state, to)) return;
    const next = row.state === DANGLING ? [] : (this.lifecycle.transitions[row.state as S] ?? []);
    const reason = next.length === 0 ? `${row.state} is final` : `${row.state} goes to ${next.join(", ")}`;
    throw this.#refused(row, `cannot become ${to}: ${reason}`);
  }

  #refused(row: StoredRow, why: string): TransitionError {
    return new TransitionError(
      row.id,
      toRecord<D, S>(row),
      `${this.name}: record "${row.id}" ${why}. Nothing was changed.`,
    );
  }

  #unknownState(state: unknown, known: readonly string[]): TussockError {
    if (typeof state !== "string") return new InvalidArgumentError("state", state, `one of ${known.join(", ")}`);
    return new LifecycleMismatchError(
      `${this.name}: there is no state ${JSON.stringify(state)}; use one of ${known.join(", ")}.`,
    );
  }
}

type Content = Pick<Next, "data" | "json">;

/** The record in `state`; one that is in it already keeps its `since`. */
function entered(row: StoredRow, state: string, { now, epoch }: Moment, { data, json }: Content): Next {
  const { id, createdAt, revision, origin } = row;
  const since = state === row.state ? row.since : now;
  return { id, state, since, createdAt, revision: revision + 1, epoch, origin, data, json };
}

function patched<D>(row: StoredRow, patch: Patch<D> | undefined): Content {
  const data = takeData(row);
  if (patch === undefined) return { data, json: row.data };
  if (typeof patch === "function") {
    const whole = patch(data as D);
    return { data: whole, json: toJson(whole) };
  }
  if (!isObject(patch)) throw new InvalidArgumentError("patch", patch, "an object or a function");
  if (!isObject(data))
    throw new InvalidArgumentError("patch", patch, "a function, since the record's data is no object");
  const merged = { ...data, ...patch };
  return { data: merged, json: toJson(merged, patch) };
}

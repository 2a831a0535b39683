/** What the parts of one open state index work with. */
import { ClosedError } from "../errors.ts";
import { encodeCursor } from "./cursor.ts";
import type { StateRecord } from "./model.ts";
import type { RecordStore, Scope } from "./record-store.ts";
import { parseAhead, type RowDraft, type StoredRow, toRecord, toRecordAt } from "./row.ts";
import type { Moment, Next, Rules } from "./rules.ts";
import type { Keyer, Registration } from "./secondary.ts";

/** What a row is made in, and is refused in another: pass the same on to the store. */
export interface Setting extends Moment {
  readonly registration: Registration;
}

export class Kit<D, S extends string> {
  readonly rules: Rules<D, S>;
  readonly keyer: Keyer<D, S>;
  readonly store: RecordStore;
  readonly #deadlineMs: number;
  readonly #closing = new AbortController();

  constructor(rules: Rules<D, S>, keyer: Keyer<D, S>, store: RecordStore, deadlineMs: number) {
    this.rules = rules;
    this.keyer = keyer;
    this.store = store;
    this.#deadlineMs = deadlineMs;
  }

  /** From now on every call, and every further step of one, is refused. What has been asked of the store goes on. */
  close(): void {
    this.#closing.abort(new ClosedError(`state index "${this.rules.name}"`));
  }

  /** Aborts when the index is closed. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** How long a call that begins now may take. @throws ClosedError; the signal's reason when it has aborted */
  scope(signal?: AbortSignal): Scope {
    this.#closing.signal.throwIfAborted();
    signal?.throwIfAborted();
    return { signal, until: performance.now() + this.#deadlineMs, meanwhile: undefined };
  }

  /** Whether this is how the caller's abort, or the closing of the index, ends a call between two steps. */
  isStop(error: unknown, signal: AbortSignal | undefined): boolean {
    return [signal, this.#closing.signal].some((each) => each?.aborted && each.reason === error);
  }

  /** For what closing waits for, and would otherwise be done again by the next process. */
  lastScope(): Scope {
    return { until: performance.now() + this.#deadlineMs };
  }

  moment(): Setting {
    return { now: this.store.now(), epoch: this.store.epoch, registration: this.store.registration };
  }

  draft(next: Next, { registration }: Pick<Setting, "registration">): RowDraft {
    return this.keyer.draft(next, registration);
  }

  record(row: StoredRow): StateRecord<D, S> {
    return toRecord<D, S>(row);
  }

  /**
   * Compare-and-set on one record until it takes: `decide` gets the record as it is, and gives what shall become of it or
   * throws why not. What it decided holds in the transaction that applies it, or it is asked again.
   */
  async change(
    id: string,
    scope: Scope,
    decide: (current: StoredRow | null, moment: Moment) => Next,
    o: { expectAbsent?: boolean } = {},
  ): Promise<StateRecord<D, S>> {
    // First by what is likely; a refusal counts only when the record has been read.
    let current: StoredRow | null | undefined = o.expectAbsent ? null : this.store.recall(id);
    let isRead = false;
    for (;;) {
      if (current === undefined) {
        current = await this.store.get(id, scope);
        isRead = true;
      }
      const moment = this.moment();
      let next: RowDraft;
      try {
        next = this.draft(decide(current, moment), moment);
      } catch (error) {
        if (isRead) throw error;
        current = undefined;
        continue;
      }
      // All but its cursor, which depends on where the store has put it.
      let record: StateRecord<D, S> | undefined;
      scope.meanwhile = () => {
        record = toRecordAt(next, "");
        parseAhead(next);
      };
      const [row] = await this.store.write([{ base: current, next }], moment, scope);
      if (row) {
        if (record === undefined) return this.record(row);
        record.cursor = encodeCursor(row);
        return record;
      }
      current = undefined;
    }
  }
}

/** Rows that are prepared between two turns of the event loop: about a millisecond's work. */
export const SLICE = 64;

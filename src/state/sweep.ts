/** Ending many records in few commits, each by compare-and-set: what somebody else changes meanwhile is left as it is. */
import { InvalidArgumentError } from "../errors.ts";
import { type Slices, timeSlices } from "../slices.ts";
import { Ahead } from "./ahead.ts";
import { comparePositions, FIRST, LAST, type Position } from "./cursor.ts";
import { completeIndex } from "./keying.ts";
import type { Kit, Setting } from "./kit.ts";
import { allows } from "./lifecycle.ts";
import { checkInteger, checkKey } from "./limits.ts";
import type { Place } from "./listing.ts";
import type { SweepOptions, SweepReport } from "./model.ts";
import type { RowChange, Scope } from "./record-store.ts";
import { hasKey, type StoredRow } from "./row.ts";

/** Large enough that the flush does not count, small enough that other writers wait a few milliseconds. */
const BATCH = 500;
/** What can be handed over within one turn of the event loop. */
const LARGEST_BATCH = 1_000;
const LARGEST_BATCH_CHARACTERS = 1 << 20;
/** What is read within one turn. */
const READ = 64;
/** How often a secondary index is walked at most, where processes without its function go on changing records. */
const WALKS = 5;

/**
 * Aborted before the first commit: rejects with the signal's reason. Later: stops between two batches, and the report
 * says what was done. So does the closing of the index, with ClosedError in place of the reason.
 */
export function sweep<D, S extends string>(kit: Kit<D, S>, o: SweepOptions<D, S>): Promise<SweepReport> {
  return new Sweep(kit, o).run();
}

/** What is written in one transaction. */
interface Batch {
  readonly setting: Setting;
  readonly changes: { readonly base: StoredRow; readonly next: RowChange["next"] }[];
  characters: number;
  /** Records looked at for it, those that were not chosen among them. */
  examined: number;
}

class Sweep<D, S extends string> {
  readonly #kit: Kit<D, S>;
  readonly #o: SweepOptions<D, S>;
  readonly #states: readonly string[];
  readonly #to: S;
  readonly #size: number;
  readonly #startedAt = performance.now();
  /** By the store's clock. */
  readonly #begun: number;
  readonly #report: SweepReport = { examined: 0, transitioned: 0, skipped: 0, elapsedMs: 0 };
  readonly #ahead = new Ahead();
  readonly #slices: Slices;
  #place: Place;
  #batch: Batch;

  constructor(kit: Kit<D, S>, o: SweepOptions<D, S>) {
    const { rules } = kit;
    const states = rules.checkStates(o.from);
    const to = rules.checkState(o.to);
    for (const state of states) {
      if (!allows(rules.lifecycle, state, to))
        throw new InvalidArgumentError("to", to, `a state that ${state} may go to`);
    }
    if (o.beforeEpoch !== undefined) checkInteger("beforeEpoch", o.beforeEpoch);
    this.#kit = kit;
    this.#o = o;
    this.#states = states;
    this.#to = to;
    this.#size = o.batchSize === undefined ? BATCH : Math.min(checkInteger("batchSize", o.batchSize, 1), LARGEST_BATCH);
    this.#begun = kit.store.now();
    this.#slices = timeSlices(o.signal);
    this.#place = { secondary: null, key: "", states };
    this.#batch = this.#begin();
  }

  async run(): Promise<SweepReport> {
    const { signal, by } = this.#o;
    try {
      if (by === undefined) await this.#walk(this.#place);
      else await this.#walkIndex(by.index, checkKey(by.key));
    } catch (error) {
      const failure = await this.#ahead.settled().then(
        () => null,
        (reason: unknown) => reason,
      );
      if (!this.#kit.isStop(error, signal)) throw error;
      // What was under way when the abort came may have failed by itself; then nobody knows how much was done.
      if (failure !== null && !this.#kit.isStop(failure, signal)) throw failure;
      if (this.#report.transitioned === 0) throw error;
      return { ...this.#progress(), aborted: true };
    }
    return this.#progress();
  }

  #progress(): SweepReport {
    return { ...this.#report, elapsedMs: performance.now() - this.#startedAt };
  }

  /** A record that a process without the index's function changes in the midst of it drops out of the index for a while. */
  async #walkIndex(name: string, key: string): Promise<void> {
    const { signal } = this.#o;
    let { number } = await completeIndex(this.#kit, name, signal);
    for (let walks = 1; ; walks++) {
      await this.#walk({ secondary: number, key, states: this.#states });
      const now = await completeIndex(this.#kit, name, signal);
      if ((now.filled === 0 && now.number === number) || walks === WALKS) return;
      number = now.number;
    }
  }

  /** All that is there now, in the order of entering. */
  async #walk(place: Place): Promise<void> {
    this.#place = place;
    let [from, to] = [FIRST, LAST];
    let late: string[] = [];
    for (let more = true; more; ) {
      if (from !== FIRST) await this.#slices.pause();
      const rows = await this.#page(from, to);
      from = rows.at(-1) ?? from;
      more = rows.length === READ;
      if (more && to === LAST) {
        // What enters later is not for this sweep: it might go on for ever.
        to = { since: this.#begun, rec: 0 };
        late = await this.#late(from);
      }
      for (const row of rows) await this.#look(row);
    }
    for (const id of late) await this.#lookAgain(id);
    await this.#handOver();
    await this.#ahead.settled();
    // Of those behind the last that qualified nobody has been told.
    this.#report.examined += this.#batch.examined;
    this.#batch = this.#begin();
  }

  /** Of those behind `from`: the ids of all that are there by now and say that they have entered since the sweep began. A clock may have been put back. */
  async #late(from: Position): Promise<string[]> {
    const ids: string[] = [];
    const begun = { since: this.#begun - 1, rec: LAST.rec };
    let last: Position = comparePositions(from, begun) > 0 ? from : begun;
    for (let more = true; more; ) {
      const rows = await this.#page(last, LAST);
      for (const { id } of rows) ids.push(id);
      last = rows.at(-1) ?? last;
      more = rows.length === READ;
      if (more) await this.#slices.pause();
    }
    return ids;
  }

  #page(from: Position, to: Position): Promise<StoredRow[]> {
    return this.#kit.store.page({ ...this.#place, from, to, reverse: false, limit: READ }, this.#scope());
  }

  async #look(row: StoredRow): Promise<void> {
    if (this.#slices.due()) await this.#slices.pause();
    this.#batch.examined++;
    if (this.#qualifies(row)) this.#add(this.#batch, row);
    const { changes, characters } = this.#batch;
    if (changes.length >= this.#size || characters >= LARGEST_BATCH_CHARACTERS) await this.#handOver();
  }

  async #lookAgain(id: string): Promise<void> {
    const row = await this.#kit.store.get(id, this.#scope());
    if (row !== null && this.#isInPlace(row)) await this.#look(row);
  }

  /** As a walk would find it. */
  #isInPlace(row: StoredRow): boolean {
    const { secondary, key } = this.#place;
    if (secondary === null) return true;
    const { keyer, store } = this.#kit;
    return hasKey(row.keys === null ? keyer.rekeyed(row, store.registration) : row, secondary, key);
  }

  #qualifies(row: StoredRow): boolean {
    const { beforeEpoch, where } = this.#o;
    return (
      this.#states.includes(row.state) &&
      // Where `to` is one of several: not what has entered it since, by this sweep above all. From `to` alone nothing enters.
      (row.state !== this.#to || this.#states.length === 1 || row.since < this.#begun) &&
      (beforeEpoch === undefined || row.epoch < beforeEpoch) &&
      (where === undefined || this.#isChosen(where(this.#kit.record(row))))
    );
  }

  /** A promise would count as true, whatever comes of it. */
  #isChosen(answer: unknown): boolean {
    if (typeof (answer as PromiseLike<unknown> | null)?.then !== "function") return Boolean(answer);
    throw new InvalidArgumentError("where", answer, "a function that says at once whether it is meant");
  }

  // ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────

  #begin(): Batch {
    return { setting: this.#kit.moment(), changes: [], characters: 0, examined: 0 };
  }

  #add(batch: Batch, base: StoredRow): void {
    const { rules, store } = this.#kit;
    const { setting, changes } = batch;
    // Later than all that was read; and never before what the walk ends at, whatever the clock does.
    const moment = { ...setting, now: Math.max(store.now(), this.#begun) };
    const next = rules.transitioned(base, base.id, this.#to, { patch: this.#o.patch }, moment);
    changes.push({ base, next: this.#kit.draft(next, setting) });
    batch.characters += next.json.length;
  }

  /** Goes on before it is written. @throws what became of the batch before */
  async #handOver(): Promise<void> {
    const batch = this.#batch;
    if (batch.changes.length === 0) return;
    // To hand many over takes its time, too.
    if (batch.changes.length > READ) await this.#slices.pause();
    await this.#ahead.run(() => this.#apply(batch));
    this.#batch = this.#begin();
  }

  /** Applies what still holds; what does not is looked at again, and left alone when it qualifies no more. */
  async #apply(first: Batch): Promise<void> {
    this.#report.examined += first.examined;
    for (let batch = first; batch.changes.length > 0; ) {
      const { changes, setting } = batch;
      const done = await this.#kit.store.write(changes, setting, this.#scope());
      batch = this.#begin();
      for (const [at, { base }] of changes.entries()) {
        if (done[at] !== null) {
          this.#report.transitioned++;
          continue;
        }
        if (this.#slices.due()) await this.#slices.pause();
        const now = await this.#kit.store.get(base.id, this.#scope());
        if (now !== null && this.#isInPlace(now) && this.#qualifies(now)) this.#add(batch, now);
        else this.#report.skipped++;
      }
    }
    this.#o.onProgress?.(this.#progress());
  }

  #scope(): Scope {
    return this.#kit.scope(this.#o.signal);
  }
}

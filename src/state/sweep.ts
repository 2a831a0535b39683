/** Ending many records in few commits, each by compare-and-set: what somebody else changes meanwhile is left as it is. */
import { InvalidArgumentError } from "../errors.ts";
import { nextTurn } from "../slices.ts";
import { Ahead } from "./ahead.ts";
import { comparePositions, FIRST, LAST, type Position } from "./cursor.ts";
import { completeIndex } from "./keying.ts";
import type { Kit } from "./kit.ts";
import { allows } from "./lifecycle.ts";
import { checkInteger, checkKey } from "./limits.ts";
import type { SweepOptions, SweepReport } from "./model.ts";
import type { RowChange } from "./record-store.ts";
import type { StoredRow } from "./row.ts";
import type { Moment } from "./rules.ts";

/** Large enough that the flush does not count, small enough that other writers wait a few milliseconds. */
const BATCH = 500;
/** What can be handed over within one turn of the event loop. */
const LARGEST_BATCH = 1_000;
/** What is read and prepared within one turn: about a millisecond's work. */
const READ = 64;

/**
 * Aborted before the first commit: rejects with the signal's reason. Later: stops between two batches, and the report
 * says what was done.
 */
export async function sweep<D, S extends string>(kit: Kit<D, S>, o: SweepOptions<D, S>): Promise<SweepReport> {
  const start = performance.now();
  const { rules, store } = kit;
  const states = rules.checkStates(o.from);
  const to = rules.checkState(o.to);
  for (const state of states) {
    if (!allows(rules.lifecycle, state, to))
      throw new InvalidArgumentError("to", to, `a state that ${state} may go to`);
  }
  if (o.beforeEpoch !== undefined) checkInteger("beforeEpoch", o.beforeEpoch);
  const size = o.batchSize === undefined ? BATCH : Math.min(checkInteger("batchSize", o.batchSize, 1), LARGEST_BATCH);
  const report: SweepReport = { examined: 0, transitioned: 0, skipped: 0, elapsedMs: 0 };
  const progress = (): SweepReport => ({ ...report, elapsedMs: performance.now() - start });

  const qualifies = (row: StoredRow): boolean =>
    (states as string[]).includes(row.state) &&
    (o.beforeEpoch === undefined || row.epoch < o.beforeEpoch) &&
    (o.where === undefined || o.where(kit.record(row)));

  const begin = (): Batch => ({ moment: kit.moment(), rows: [], changes: [] });
  const add = (batch: Batch, base: StoredRow): void => {
    const next = rules.transitioned(base, base.id, to, { patch: o.patch }, batch.moment);
    batch.rows.push(base);
    batch.changes.push({ base, next: kit.draft(next) });
  };

  /** Applies what still holds; what does not is looked at again, and left alone when it qualifies no more. */
  const apply = async (first: Batch): Promise<void> => {
    for (let batch = first; batch.rows.length > 0; ) {
      const { rows, changes, moment } = batch;
      const done = await store.write(changes, { epoch: moment.epoch }, kit.scope(o.signal));
      report.transitioned += done.filter((row) => row !== null).length;
      batch = begin();
      for (const [at, row] of rows.entries()) {
        if (done[at] !== null) continue;
        if (at % READ === READ - 1) await nextTurn();
        const now = await store.get(row.id, kit.scope(o.signal));
        if (now !== null && qualifies(now)) add(batch, now);
        else report.skipped++;
      }
    }
    o.onProgress?.(progress());
  };

  const ahead = new Ahead();
  try {
    const place = {
      secondary: o.by === undefined ? null : await completeIndex(kit, o.by.index, o.signal),
      key: o.by === undefined ? "" : checkKey(o.by.key),
      states,
    };
    let [from, to] = [FIRST, LAST];
    for (let more = true; more; ) {
      const batch = begin();
      for (let examined = 0; more && examined < size; ) {
        if (examined > 0) await nextTurn();
        const limit = Math.min(READ, size - examined);
        const read = await store.page({ ...place, from, to, reverse: false, limit }, kit.scope(o.signal));
        examined += read.length;
        from = read.at(-1) ?? from;
        more = read.length === limit;
        report.examined += read.length;
        for (const row of read) if (qualifies(row)) add(batch, row);
      }
      if (batch.rows.length > 0) await ahead.run(() => apply(batch));
      // What enters later is not for this sweep: it might go on for ever.
      if (more && to === LAST) to = behind(await store.last(states, kit.scope(o.signal)));
    }
    await ahead.settled();
  } catch (error) {
    await ahead.settled().catch(() => {});
    if (o.signal?.aborted && error === o.signal.reason && report.transitioned > 0)
      return { ...progress(), aborted: true };
    throw error;
  }
  return progress();
}

/** What is written in one transaction, or, where it was refused, in the next. */
interface Batch {
  readonly moment: Moment;
  readonly rows: StoredRow[];
  readonly changes: RowChange[];
}

/** Right behind the last of these. */
function behind(positions: Position[]): Position {
  const last = positions.reduce((a, b) => (comparePositions(a, b) > 0 ? a : b), FIRST);
  return { since: last.since, rec: last.rec + 1 };
}

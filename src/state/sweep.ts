/** Ending many records in few commits, each by compare-and-set: what somebody else changes meanwhile is left as it is. */
import { InvalidArgumentError } from "../errors.ts";
import { nextTurn } from "../slices.ts";
import { Ahead } from "./ahead.ts";
import { comparePositions, FIRST, LAST, type Position } from "./cursor.ts";
import { completeIndex } from "./keying.ts";
import { type Kit, SLICE } from "./kit.ts";
import { allows } from "./lifecycle.ts";
import { checkInteger, checkKey } from "./limits.ts";
import type { SweepOptions, SweepReport } from "./model.ts";
import type { RowChange } from "./record-store.ts";
import type { StoredRow } from "./row.ts";

/** Large enough that the flush does not count, small enough that other writers wait a few milliseconds. */
const BATCH = 500;
/** What can be handed over within one turn of the event loop. */
const LARGEST_BATCH = 1_000;
/** What can be read within one: rows that another thread has just written come from the WAL. */
const READ = 100;

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

  const prepare = async (rows: StoredRow[]): Promise<{ changes: RowChange[]; epoch: number }> => {
    const changes: RowChange[] = [];
    const moment = kit.moment();
    for (const [at, base] of rows.entries()) {
      if (at % SLICE === SLICE - 1) await nextTurn();
      changes.push({ base, next: kit.draft(rules.transitioned(base, base.id, to, { patch: o.patch }, moment)) });
    }
    return { changes, epoch: moment.epoch };
  };

  /** Applies what still holds; what does not is looked at again, and left alone when it qualifies no more. */
  const apply = async (chosen: StoredRow[]): Promise<void> => {
    for (let rows = chosen; rows.length > 0; ) {
      const { changes, epoch } = await prepare(rows);
      const done = await store.write(changes, { epoch }, kit.scope(o.signal));
      report.transitioned += done.filter((row) => row !== null).length;
      const again: StoredRow[] = [];
      for (const [at, row] of rows.entries()) {
        if (done[at] !== null) continue;
        const now = await store.get(row.id, kit.scope(o.signal));
        if (now !== null && qualifies(now)) again.push(now);
        else report.skipped++;
      }
      rows = again;
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
      const page: StoredRow[] = [];
      while (more && page.length < size) {
        if (page.length > 0) await nextTurn();
        const limit = Math.min(READ, size - page.length);
        const read = await store.page({ ...place, from, to, reverse: false, limit }, kit.scope(o.signal));
        page.push(...read);
        from = read.at(-1) ?? from;
        more = read.length === limit;
      }
      // What enters later is not for this sweep: it might go on for ever.
      if (more && to === LAST) to = behind(await store.last(states, kit.scope(o.signal)));
      report.examined += page.length;
      const chosen: StoredRow[] = [];
      for (const [at, row] of page.entries()) {
        if (at % SLICE === SLICE - 1) await nextTurn();
        if (qualifies(row)) chosen.push(row);
      }
      if (chosen.length > 0) await ahead.run(() => apply(chosen));
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

/** Right behind the last of these. */
function behind(positions: Position[]): Position {
  const last = positions.reduce((a, b) => (comparePositions(a, b) > 0 ? a : b), FIRST);
  return { since: last.since, rec: last.rec + 1 };
}

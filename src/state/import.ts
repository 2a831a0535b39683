/** Bringing in records from elsewhere: never back, never twice, and from where the last import ended. */
import { abortable } from "../abort.ts";
import { isObject } from "../arguments.ts";
import { TussockError } from "../errors.ts";
import { nextTurn } from "../slices.ts";
import { Ahead } from "./ahead.ts";
import { type Kit, SLICE } from "./kit.ts";
import { DANGLING, isTerminal } from "./lifecycle.ts";
import { checkName, checkText, MAX_WATERMARK_BYTES, nameOf } from "./limits.ts";
import type { ImportItem, ImportOptions, ImportProblem, ImportRecord, ImportReport } from "./model.ts";
import type { RowChange, Standing, Tombstone } from "./record-store.ts";
import type { StoredRow } from "./row.ts";
import type { Next } from "./rules.ts";
import type { Registration } from "./secondary.ts";

const BATCH = 500;
const MOST_PROBLEMS = 1_000;

/** What one commit brings in. */
class Batch {
  /** The one that counts of each id. */
  readonly items = new Map<string, Next>();
  watermark: string | null = null;
  size = 0;
}

/**
 * Aborted before the first commit: rejects with the signal's reason. Later: stops between two batches; the report says
 * what was done, and the next import goes on there. So does the closing of the index, with ClosedError in place of the reason.
 */
export async function importRecords<D, S extends string>(
  kit: Kit<D, S>,
  name: string,
  source: (since: string | null) => AsyncIterable<ImportItem<D, S>>,
  o: ImportOptions,
): Promise<ImportReport> {
  const start = performance.now();
  checkName("name", name);
  const importer = new Importer(kit, name, o.signal);
  const { report } = importer;
  const progress = (): ImportReport => ({
    ...report,
    problems: [...report.problems],
    elapsedMs: performance.now() - start,
  });
  const ahead = new Ahead();
  const commit = (batch: Batch) =>
    ahead.run(async () => {
      await importer.commit(batch);
      o.onProgress?.(progress());
    });
  try {
    report.watermark = await kit.store.watermark(name, kit.scope(o.signal));
    let batch = new Batch();
    // Closing the index ends the waiting for a source that may never go on.
    const stop = AbortSignal.any([kit.closing, ...(o.signal === undefined ? [] : [o.signal])]);
    for await (const item of untilAborted(source(report.watermark), stop)) {
      importer.take(item, batch);
      if (batch.size < BATCH) continue;
      await commit(batch);
      batch = new Batch();
    }
    if (batch.size > 0) await commit(batch);
    await ahead.settled();
  } catch (error) {
    await ahead.settled().catch(() => {});
    if (kit.isStop(error, o.signal) && importer.commits > 0) return { ...progress(), aborted: true };
    throw error;
  }
  return progress();
}

class Importer<D, S extends string> {
  readonly report: ImportReport = {
    examined: 0,
    inserted: 0,
    updated: 0,
    unchanged: 0,
    pruned: 0,
    dangling: 0,
    problems: [],
    problemCount: 0,
    watermark: null,
    elapsedMs: 0,
  };
  commits = 0;
  readonly #kit: Kit<D, S>;
  readonly #name: string;
  readonly #signal: AbortSignal | undefined;

  constructor(kit: Kit<D, S>, name: string, signal: AbortSignal | undefined) {
    this.#kit = kit;
    this.#name = name;
    this.#signal = signal;
  }

  take(item: ImportItem<D, S>, batch: Batch): void {
    batch.size++;
    // A source is somebody else's program: what it gives by mistake must not end the import, nor get lost.
    const { watermark, ...rest }: Partial<ImportRecord<D, S> & ImportProblem> = isObject(item) ? item : {};
    if (watermark !== undefined) batch.watermark = checkText("watermark", watermark, MAX_WATERMARK_BYTES);
    if (isObject(rest.problem)) this.#problem(String(rest.problem.path), String(rest.problem.reason));
    else if (rest.id !== undefined) this.#record(rest as ImportRecord<D, S>, batch);
    else if (isObject(item) && Object.keys(rest).length === 0) return;
    else
      this.#problem(
        String(rest.origin ?? ""),
        `${describe(item)} is neither a record with an id, nor a problem or a mark`,
      );
    this.report.examined++;
  }

  async commit(batch: Batch): Promise<void> {
    const { store } = this.#kit;
    const scope = this.#kit.scope(this.#signal);
    const mark = { name: this.#name, watermark: batch.watermark };
    let items = [...batch.items.values()];
    do {
      const { registration } = store;
      const changes: RowChange[] = [];
      for (let from = 0; from < items.length; from += SLICE) {
        if (from > 0) await nextTurn();
        const slice = items.slice(from, from + SLICE);
        const found = await store.standing(
          slice.map(({ id }) => id),
          scope,
        );
        for (const [at, item] of slice.entries()) {
          const change = this.#decide(item, found[at] as Standing, registration);
          if (change !== null) changes.push(change);
        }
      }
      const done = await store.write(changes, { epoch: null, registration, mark }, scope);
      items = [];
      for (const [at, change] of changes.entries()) {
        if (done[at]) this.#count(change);
        else items.push(batch.items.get(change.next.id) as Next);
      }
    } while (items.length > 0);
    this.commits++;
    this.report.watermark = batch.watermark ?? this.report.watermark;
  }

  #problem(path: string, reason: string): void {
    this.report.problemCount++;
    if (this.report.problems.length < MOST_PROBLEMS) this.report.problems.push({ path, reason });
  }

  #record(item: ImportRecord<D, S>, batch: Batch): void {
    const next = this.#tolerate(item, () => this.#kit.rules.imported(item));
    if (next === null) return;
    const other = batch.items.get(next.id);
    if (other !== undefined) this.report.unchanged++;
    if (other === undefined || this.#kit.rules.isNewer(next, other)) batch.items.set(next.id, next);
  }

  /** What the store would refuse is a problem of the source, not the end of the import. */
  #tolerate<T>(item: { id: string; origin?: string | null }, make: () => T): T | null {
    try {
      return make();
    } catch (error) {
      if (!(error instanceof TussockError)) throw error;
      this.#problem(String(item.origin ?? item.id), error.message);
      return null;
    }
  }

  #decide(item: Next, { row, tombstone }: Standing, registration: Registration): RowChange | null {
    if (row !== null) {
      if (this.#kit.rules.isNewer(item, { ...row, json: row.data }))
        return this.#change(row, forward(row, item), registration);
      this.report.unchanged++;
      return null;
    }
    if (tombstone === null || this.#outlives(item, tombstone)) return this.#change(null, item, registration, tombstone);
    this.report.pruned++;
    return null;
  }

  #change(
    base: StoredRow | null,
    item: Next,
    registration: Registration,
    tombstone?: Tombstone | null,
  ): RowChange | null {
    const next = this.#tolerate(item, () => this.#kit.draft(item, { registration }));
    return next === null ? null : { base, next, ...(tombstone === undefined ? {} : { tombstone }) };
  }

  /** What had ended when it was pruned does not come back; what had not comes back in a later form. */
  #outlives(item: Next, tombstone: Tombstone): boolean {
    const { rules } = this.#kit;
    return !isTerminal(rules.lifecycle, tombstone.state) && rules.isNewer(item, tombstone);
  }

  #count({ base, next }: RowChange): void {
    if (base === null) this.report.inserted++;
    else this.report.updated++;
    if (next.state === DANGLING) this.report.dangling++;
  }
}

/** What is there, moved on to what the item says. */
function forward(base: StoredRow, item: Next): Next {
  return { ...item, createdAt: Math.min(base.createdAt, item.createdAt), revision: base.revision + 1 };
}

/** The source's items; an abort ends the waiting for the next one at once, and tells the source to stop. */
export async function* untilAborted<T>(
  source: AsyncIterable<T>,
  signal: AbortSignal | undefined,
): AsyncGenerator<T, undefined> {
  const iterator = source[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await abortable(iterator.next(), signal);
      if (next.done) return;
      yield next.value;
    }
  } finally {
    const stopped = iterator.return?.();
    if (signal?.aborted) stopped?.then(undefined, () => {});
    else await stopped;
  }
}

function describe(item: unknown): string {
  return isObject(item) ? `an object of ${Object.keys(item).join(", ")}` : nameOf(item);
}

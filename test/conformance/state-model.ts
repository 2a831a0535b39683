/**
 * A state index as plain as it can be: a list in memory, searched from end to end. And random operations, with what must
 * come of each, which are run against an index and the model side by side.
 */
import { deepStrictEqual as equal, fail, ok } from "node:assert/strict";
import type { Lifecycle } from "../../src/state/lifecycle.ts";
import type { ImportRecord, StateIndex, StateRecord } from "../../src/state/model.ts";
import { allOf } from "./case.ts";
import { START, type StoreTime } from "./state-clock.ts";

export interface Data {
  worker: string;
  tags: string[];
  n: number;
  note?: string;
}

export type Index = StateIndex<Data, string>;

/** Index functions of every kind: of data, with several keys, with none, of the state. */
export const INDEXES = {
  worker: (r: StateRecord<Data, string>) => r.data.worker,
  tag: (r: StateRecord<Data, string>) => r.data.tags,
  even: (r: StateRecord<Data, string>) => (r.data.n % 2 === 0 ? "yes" : undefined),
  place: (r: StateRecord<Data, string>) => `${r.state}:${r.data.worker}`,
};

export const WORKERS = ["w0", "w1", "w2"];
export const TAGS = ["red", "green", "blue"];

/**
 * What the model keeps of a record: everything but the cursor, and in `order` the place among equals. Records that were
 * made at one time share it: which came first is for the index to say, once, when both have the same `since`.
 */
type ModelRecord = Omit<StateRecord<Data, string>, "cursor"> & { order: number };

export type Operation =
  | { kind: "insert"; id: string; state?: string; since?: number; data: Data }
  | { kind: "put"; id: string; state: string; data: Data; revision?: number }
  | { kind: "update"; id: string; n: number; whole: boolean; state?: string; revision?: number }
  | { kind: "transition"; id: string; to: string; from?: string[]; revision?: number; n?: number }
  | { kind: "sweep"; from: string; to: string; beforeEpoch?: number; below?: number; batchSize?: number }
  | { kind: "prune"; states: string[]; endedBefore?: number; keep?: number }
  | { kind: "import"; items: ImportRecord<Data, string>[] }
  | { kind: "epoch" }
  /** Before the call; or so many turns of the event loop after it, when it may have been done. */
  | { kind: "aborted"; operation: Operation; turns?: number }
  | { kind: "together"; operations: Operation[] }
  | { kind: "list"; states: string[]; limit?: number; reverse: boolean; skip: number; after?: number; before?: number }
  | { kind: "by"; index: keyof typeof INDEXES; key: string; states?: string[] }
  | { kind: "clock"; by: number }
  | { kind: "reopen" };

/** What an operation comes to: a value, or the code of an error and the record that it carries. */
type Outcome = { value: unknown } | { code: string; record?: unknown };

export class Model {
  readonly lifecycle: Lifecycle<string>;
  /** Of the next operation. With a fraction: only the store knows it, and says so afterwards. */
  now = START;
  epoch = 0;
  records: ModelRecord[] = [];
  readonly #pruned = new Map<string, ModelRecord>();
  #hasImported = false;
  #order = 0;
  /** Of records that were made at one time: those that the index has shown to come after each. */
  readonly #after = new WeakMap<ModelRecord, Set<ModelRecord>>();

  constructor(lifecycle: Lifecycle<string>) {
    this.lifecycle = lifecycle;
  }

  get(id: string): ModelRecord | undefined {
    return this.records.find((record) => record.id === id);
  }

  apply(operation: Operation): Outcome {
    switch (operation.kind) {
      case "insert":
        return this.#insert(operation.id, operation.state, operation.since, operation.data);
      case "put":
        return this.#put(operation);
      case "update":
        return this.#update(operation);
      case "transition":
        return this.#transition(operation);
      case "sweep":
        return this.#sweep(operation);
      case "prune":
        return this.#prune(operation);
      case "import":
        return this.#import(operation.items);
      case "epoch":
        return { value: ++this.epoch };
      default:
        return fail(`the model does not apply ${operation.kind}`);
    }
  }

  list(states: readonly string[]): ModelRecord[] {
    return this.records
      .filter((record) => states.includes(record.state))
      .sort((a, b) => a.since - b.since || a.order - b.order || (this.#after.get(a)?.has(b) ? -1 : 1));
  }

  /** Applies what is called in one turn: the calls on one id keep their order, and no two new ids have one. */
  applyTogether(operations: readonly Operation[]): Outcome[] {
    const known = new Set(this.records);
    const outcomes = operations.map((operation) => this.apply(operation));
    for (const record of this.records) if (!known.has(record)) record.order = this.#order;
    return outcomes;
  }

  /** Pairs of which the order is not known, and can be seen now. */
  undecided(): [ModelRecord, ModelRecord][] {
    const isOpen = (a: ModelRecord, b: ModelRecord) =>
      a.order === b.order && a.since === b.since && !this.#after.get(a)?.has(b) && !this.#after.get(b)?.has(a);
    return this.records.flatMap((a, at) =>
      this.records.slice(at + 1).flatMap((b): [ModelRecord, ModelRecord][] => (isOpen(a, b) ? [[a, b]] : [])),
    );
  }

  decide(first: ModelRecord, second: ModelRecord): void {
    const after = this.#after.get(first) ?? new Set();
    this.#after.set(first, after.add(second));
  }

  isTerminal(state: string): boolean {
    return state === "dangling" || this.lifecycle.transitions[state]?.length === 0;
  }

  #insert(id: string, state: string | undefined, since: number | undefined, data: Data): Outcome {
    const there = this.get(id);
    if (there !== undefined) return refused("RECORD_EXISTS", there);
    const record = {
      id,
      state: state ?? this.lifecycle.initial,
      since: since ?? this.now,
      createdAt: this.now,
      revision: 1,
      epoch: this.epoch,
      data,
      order: ++this.#order,
    };
    this.records.push(record);
    return { value: seen(record) };
  }

  #put({ id, state, data, revision }: Operation & { kind: "put" }): Outcome {
    const there = this.get(id);
    if (there === undefined) {
      if (revision !== undefined && revision !== 0) return { code: "RECORD_NOT_FOUND" };
      return this.#insert(id, state, undefined, data);
    }
    if (revision === 0) return refused("RECORD_EXISTS", there);
    if (revision !== undefined && revision !== there.revision) return refused("TRANSITION", there);
    if (state !== there.state && !this.#allows(there.state, state)) return refused("TRANSITION", there);
    return this.#enter(there, state, data);
  }

  #update({ id, n, whole, state, revision }: Operation & { kind: "update" }): Outcome {
    const there = this.get(id);
    if (there === undefined) return { code: "RECORD_NOT_FOUND" };
    if (state !== undefined && state !== there.state) return refused("TRANSITION", there);
    if (revision !== undefined && revision !== there.revision) return refused("TRANSITION", there);
    there.data = whole ? patchWhole(there.data, n) : { ...there.data, n };
    there.revision++;
    return { value: seen(there) };
  }

  #transition({ id, to, from, revision, n }: Operation & { kind: "transition" }): Outcome {
    const there = this.get(id);
    if (there === undefined) return { code: "RECORD_NOT_FOUND" };
    if (from !== undefined && !from.includes(there.state)) return refused("TRANSITION", there);
    if (revision !== undefined && revision !== there.revision) return refused("TRANSITION", there);
    if (!this.#allows(there.state, to)) return refused("TRANSITION", there);
    return this.#enter(there, to, n === undefined ? there.data : { ...there.data, n });
  }

  #sweep({ from, to, beforeEpoch, below }: Operation & { kind: "sweep" }): Outcome {
    if (!this.#allows(from, to)) return { code: "INVALID_ARGUMENT" };
    const examined = this.list([from]);
    const chosen = examined.filter(
      (record) =>
        (beforeEpoch === undefined || record.epoch < beforeEpoch) && (below === undefined || record.data.n < below),
    );
    for (const record of chosen) this.#enter(record, to, { ...record.data, note: "swept" });
    return { value: { examined: examined.length, transitioned: chosen.length, skipped: 0 } };
  }

  #prune({ states, endedBefore, keep }: Operation & { kind: "prune" }): Outcome {
    let pruned = 0;
    for (const state of states) {
      const all = this.list([state]);
      const old = all.slice(0, Math.max(0, all.length - (keep ?? 0)));
      for (const record of old) {
        if (endedBefore !== undefined && record.since >= endedBefore) continue;
        this.records.splice(this.records.indexOf(record), 1);
        if (record.origin !== undefined || this.#hasImported) this.#pruned.set(record.id, record);
        pruned++;
      }
    }
    return { value: pruned };
  }

  #import(items: ImportRecord<Data, string>[]): Outcome {
    const report = { inserted: 0, updated: 0, unchanged: 0, pruned: 0, dangling: 0 };
    for (const item of newestOfEach(items, (a, b) => this.#isNewer(a, b))) {
      if (item === null) {
        report.unchanged++;
        continue;
      }
      const there = this.get(item.id);
      const pruned = this.#pruned.get(item.id);
      if (
        there === undefined &&
        pruned !== undefined &&
        (this.isTerminal(pruned.state) || !this.#isNewer(item, pruned))
      ) {
        report.pruned++;
      } else if (there === undefined) {
        this.records.push({
          ...imported(item),
          createdAt: item.createdAt ?? item.since,
          revision: 1,
          order: ++this.#order,
        });
        report.inserted++;
        if (item.state === "dangling") report.dangling++;
      } else if (this.#isNewer(item, there)) {
        const createdAt = Math.min(there.createdAt, item.createdAt ?? item.since);
        delete there.origin;
        Object.assign(there, imported(item), { createdAt, revision: there.revision + 1 });
        report.updated++;
        if (item.state === "dangling") report.dangling++;
      } else report.unchanged++;
    }
    this.#hasImported = true;
    return { value: report };
  }

  #enter(record: ModelRecord, state: string, data: Data): Outcome {
    if (state !== record.state) record.since = this.now;
    record.state = state;
    record.epoch = this.epoch;
    record.revision++;
    record.data = data;
    return { value: seen(record) };
  }

  #allows(from: string, to: string): boolean {
    return this.lifecycle.transitions[from]?.includes(to) ?? false;
  }

  /** An ended record over a live one, the later of two, and what is gone only over what lived there. */
  #isNewer(item: Imported, there: Imported & { revision?: number }): boolean {
    if (item.state === there.state && item.since === there.since) {
      const isUntouched = (there.revision ?? 1) === 1 && item.origin !== undefined && item.origin === there.origin;
      return isUntouched && JSON.stringify(item.data) !== JSON.stringify(there.data);
    }
    const live = !this.isTerminal(there.state);
    if (item.state === "dangling") return live && item.origin !== undefined && item.origin === there.origin;
    if (this.isTerminal(item.state) && (live || there.state === "dangling")) return true;
    if (live !== !this.isTerminal(item.state)) return false;
    return item.since > there.since;
  }
}

type Imported = Pick<ModelRecord, "state" | "since" | "data"> & { origin?: string };

/** The items in order of their ids' first coming; null for each that another of its id has beaten. */
function newestOfEach<T extends { id: string }>(items: T[], isNewer: (a: T, b: T) => boolean): (T | null)[] {
  const best = new Map<string, T>();
  let beaten = 0;
  for (const item of items) {
    const other = best.get(item.id);
    if (other !== undefined) beaten++;
    if (other === undefined || isNewer(item, other)) best.set(item.id, item);
  }
  return [...best.values(), ...Array<null>(beaten).fill(null)];
}

function imported({ id, state, since, data, origin }: ImportRecord<Data, string>) {
  return { id, state, since, data, epoch: 0, ...(origin === undefined ? {} : { origin }) };
}

function refused(code: string, record: ModelRecord): Outcome {
  return { code, record: seen(record) };
}

function patchWhole(data: Data, n: number): Data {
  return { worker: WORKERS[n % WORKERS.length] as string, tags: data.tags.slice(1), n };
}

function seen({ order: _, ...record }: ModelRecord): unknown {
  return structuredClone(record);
}

function withoutCursor(record: unknown): unknown {
  const { cursor, ...rest } = record as StateRecord<Data, string>;
  ok(typeof cursor === "string" && cursor !== "");
  return rest;
}

// ── running an index beside the model ───────────────────────────────────────────────────────────────

export interface Run {
  readonly model: Model;
  readonly time: StoreTime;
  index: Index;
  reopen(): Promise<Index>;
}

/** Runs one operation on both, and compares what comes of it and everything that can be seen afterwards. */
export async function step(run: Run, anyTime: Operation): Promise<void> {
  const { model, time } = run;
  const operation = moved(anyTime, time.shift);
  model.now = time.isExact ? time.now() : time.now() + 0.5;
  switch (operation.kind) {
    case "clock":
      return time.move(operation.by);
    case "reopen":
      run.index = await run.reopen();
      break;
    case "list":
      await compareListing(run, operation);
      break;
    case "by":
      await compareKey(run, operation);
      break;
    case "aborted":
      await abortBeside(run, operation);
      break;
    case "together": {
      const outcomes = allOf(operation.operations.map((each) => () => outcomeOf(call(run.index, each))));
      const expected = model.applyTogether(operation.operations);
      for (const [at, outcome] of (await outcomes).entries()) compareOutcome(run, outcome, expected[at] as Outcome);
      break;
    }
    default: {
      const outcome = await outcomeOf(call(run.index, operation));
      compareOutcome(run, outcome, model.apply(operation));
    }
  }
  await learnTimes(run);
  await decideOrder(run);
  if (time.isExact) await time.move(1);
}

/** What rejects with the reason has done nothing: then the model is not told of it. */
async function abortBeside(run: Run, { operation, turns }: Operation & { kind: "aborted" }): Promise<void> {
  const reason = new Error("given up");
  const abort = new AbortController();
  if (turns === undefined) abort.abort(reason);
  const settled = outcomeOf(call(run.index, operation, abort.signal)).catch((error) => error);
  for (let turn = 0; turn < (turns ?? 0); turn++) await new Promise((resolve) => setImmediate(resolve));
  abort.abort(reason);
  const outcome = await settled;
  if (turns === undefined) equal(outcome, reason, "an aborted call rejects with the signal's reason");
  else if (outcome !== reason) compareOutcome(run, outcome, run.model.apply(operation));
}

/** The operation with the times that it gives so much later. */
function moved(operation: Operation, by: number): Operation {
  const later = <T extends object>(given: T, ...names: (keyof T)[]): T => {
    const times = names.flatMap((name) => (given[name] === undefined ? [] : [[name, Number(given[name]) + by]]));
    return { ...given, ...Object.fromEntries(times) };
  };
  switch (operation.kind) {
    case "insert":
      return later(operation, "since");
    case "prune":
      return later(operation, "endedBefore");
    case "list":
      return later(operation, "after", "before");
    case "import":
      return { ...operation, items: operation.items.map((item) => later(item, "since", "createdAt")) };
    case "aborted":
      return { ...operation, operation: moved(operation.operation, by) };
    case "together":
      return { ...operation, operations: operation.operations.map((each) => moved(each, by)) };
    default:
      return operation;
  }
}

function compareOutcome(run: Run, outcome: Outcome, expected: Outcome): void {
  const recordOf = (of: Outcome) => ("value" in of ? of.value : of.record) as ModelRecord | undefined;
  const [there, wanted] = [recordOf(outcome), recordOf(expected)];
  if (isRecord(there) && isRecord(wanted)) learn(run, wanted, there);
  equal(outcome, expected);
}

function isRecord(value: unknown): value is ModelRecord {
  return typeof value === "object" && value !== null && "createdAt" in value;
}

/** Takes over the times that only the store knows, if they can be right: for what is expected, and for the model. */
function learn({ model, time }: Run, wanted: Omit<ModelRecord, "order">, there: Omit<ModelRecord, "order">): void {
  for (const name of ["since", "createdAt"] as const) {
    if (Number.isInteger(wanted[name])) continue;
    time.check(there[name], Math.floor(wanted[name]));
    wanted[name] = there[name];
    const known = model.get(wanted.id);
    if (known?.revision === wanted.revision) known[name] = there[name];
  }
}

async function learnTimes(run: Run): Promise<void> {
  for (const record of run.model.records) {
    if (Number.isInteger(record.since) && Number.isInteger(record.createdAt)) continue;
    learn(run, record, (await run.index.get(record.id)) ?? fail(`${record.id} is gone`));
  }
}

/** Lets the index say, once of each two, which of the records came first that were made at one time. */
async function decideOrder({ model, index }: Run): Promise<void> {
  const undecided = model.undecided();
  if (undecided.length === 0) return;
  const listed = await readRaw(index.byState([...model.lifecycle.states, "dangling"]));
  const place = new Map(listed.map(({ id }, at) => [id, at] as const));
  for (const [a, b] of undecided) {
    if (Number(place.get(a.id)) < Number(place.get(b.id))) model.decide(a, b);
    else model.decide(b, a);
  }
}

/** Everything that can be read, compared from end to end, and the index's own view of itself. */
export async function compareAll({ model, index }: Run): Promise<void> {
  const states = [...model.lifecycle.states, "dangling"];
  for (const state of states) {
    equal(await index.count(state), model.list([state]).length, `count of ${state}`);
    equal(await read(index.byState(state)), model.list([state]).map(seen), `listing of ${state}`);
  }
  equal(await index.count(), model.records.length);
  equal(await read(index.byState(states, { reverse: true })), model.list(states).reverse().map(seen));
  for (const name of Object.keys(INDEXES) as (keyof typeof INDEXES)[]) {
    const keys = new Set(model.records.flatMap((record) => keysOf(name, record)));
    for (const key of keys) await compareKey({ model, index }, { kind: "by", index: name, key });
    await compareKey({ model, index }, { kind: "by", index: name, key: "no such key" });
  }
  for (const record of model.records) equal(withoutCursor(await index.get(record.id)), seen(record));
  equal(await index.get("no such id"), null);
  equal((await index.stats()).epoch, model.epoch);
  const report = await index.verify();
  equal(report.problems, []);
  equal({ ok: report.ok, records: report.records }, { ok: true, records: model.records.length });
}

function call(index: Index, operation: Operation, signal?: AbortSignal): Promise<unknown> {
  const o = signal === undefined ? {} : { signal };
  switch (operation.kind) {
    case "insert": {
      const { kind: _, ...record } = operation;
      return index.insert(record, o);
    }
    case "put": {
      const { id, state, data, revision } = operation;
      return index.put({ id, state, data }, { revision, ...o });
    }
    case "update": {
      const { id, n, whole, state, revision } = operation;
      return index.update(id, whole ? (data) => patchWhole(data, n) : { n }, { state, revision, ...o });
    }
    case "transition": {
      const { id, to, from, revision, n } = operation;
      return index.transition(id, to, { from, revision, ...(n === undefined ? {} : { patch: { n } }), ...o });
    }
    case "sweep": {
      const { from, to, beforeEpoch, below, batchSize } = operation;
      const where = below === undefined ? undefined : (r: StateRecord<Data, string>) => r.data.n < below;
      return index.sweep({ from, to, beforeEpoch, where, batchSize, patch: { note: "swept" }, ...o });
    }
    case "prune": {
      const { kind: _, ...rest } = operation;
      return index.prune({ ...rest, ...o });
    }
    case "import":
      return index.import("model", () => itemsOf(operation.items), o);
    case "epoch":
      return index.beginEpoch(o);
    default:
      return fail(`no call for ${operation.kind}`);
  }
}

async function* itemsOf(items: ImportRecord<Data, string>[]): AsyncGenerator<ImportRecord<Data, string>> {
  for (const [at, item] of items.entries()) yield { ...item, watermark: String(at) };
}

async function outcomeOf(result: Promise<unknown>): Promise<Outcome> {
  try {
    const value = await result;
    if (value !== null && typeof value === "object" && "cursor" in value) return { value: withoutCursor(value) };
    return { value: isReport(value) ? figures(value) : value };
  } catch (error) {
    const { code, record } = error as { code?: string; record?: unknown };
    if (typeof code !== "string") throw error;
    return record === undefined ? { code } : { code, record: withoutCursor(record) };
  }
}

function isReport(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && "examined" in value;
}

/** Of a sweep or an import: what the model knows too. */
function figures(report: Record<string, unknown>): Record<string, unknown> {
  const { elapsedMs, problems, problemCount, watermark, ...rest } = report;
  ok(Number(elapsedMs) >= 0);
  if (!("inserted" in rest)) return rest;
  equal({ problems, problemCount }, { problems: [], problemCount: 0 });
  const { examined, ...counts } = rest;
  const { inserted, updated, unchanged, pruned } = counts as Record<string, number>;
  equal(examined, Number(inserted) + Number(updated) + Number(unchanged) + Number(pruned));
  return counts;
}

async function compareListing(
  { model, index }: Pick<Run, "model" | "index">,
  o: Operation & { kind: "list" },
): Promise<void> {
  const { states, limit, reverse, skip, after, before } = o;
  const inRange = model
    .list(states)
    .filter((r) => (after === undefined || r.since > after) && (before === undefined || r.since < before));
  const all = reverse ? inRange.reverse() : inRange;
  const range = { enteredAfter: after, enteredBefore: before, reverse };
  const first = await readRaw(index.byState(states, { ...range, limit: skip }));
  const cursor = first.at(-1)?.cursor;
  const rest = await readRaw(index.byState(states, { ...range, limit, after: cursor }));
  const expected = all.slice(0, skip).concat(all.slice(Math.min(skip, all.length)).slice(0, limit));
  equal([...first, ...rest].map(withoutCursor), expected.map(seen));
}

async function compareKey(
  { model, index }: Pick<Run, "model" | "index">,
  o: Operation & { kind: "by" },
): Promise<void> {
  const states = o.states ?? [...model.lifecycle.states, "dangling"];
  const expected = model.list(states).filter((record) => keysOf(o.index, record).includes(o.key));
  equal(await read(index.by(o.index, o.key, { state: o.states })), expected.map(seen), `${o.index} = ${o.key}`);
}

function keysOf(name: keyof typeof INDEXES, record: ModelRecord): string[] {
  const keys = INDEXES[name]({ ...record, cursor: "" });
  return keys === undefined ? [] : typeof keys === "string" ? [keys] : keys;
}

async function readRaw(listing: AsyncIterable<StateRecord<Data, string>>): Promise<StateRecord<Data, string>[]> {
  const records: StateRecord<Data, string>[] = [];
  for await (const record of listing) records.push(record);
  return records;
}

async function read(listing: AsyncIterable<StateRecord<Data, string>>): Promise<unknown[]> {
  return (await readRaw(listing)).map(withoutCursor);
}

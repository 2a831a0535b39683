/** The state index as its users see it: each call checked at the door and handed to the part that does it. */
import type { AbortOptions } from "../abort.ts";
import { checkFunction, checkObject, checkOptions } from "../arguments.ts";
import { Underway } from "../churn.ts";
import { InvalidArgumentError } from "../errors.ts";
import type { MirrorDelivery } from "./delivery.ts";
import { importRecords } from "./import.ts";
import { completeIndex } from "./keying.ts";
import type { Kit } from "./kit.ts";
import { DANGLING, type Lifecycle } from "./lifecycle.ts";
import { checkId, checkKey } from "./limits.ts";
import { list } from "./listing.ts";
import type {
  ByKeyOptions,
  ByStateOptions,
  Dangling,
  ImportItem,
  ImportOptions,
  ImportReport,
  NewRecord,
  Patch,
  PruneOptions,
  StateIndex,
  StateRecord,
  StateStats,
  StateTransition,
  SweepOptions,
  SweepReport,
  TransitionOptions,
  UpdateOptions,
  VerifyReport,
  WatchOptions,
} from "./model.ts";
import { type ChangeKind, observeChange, observeIndex, observeWork } from "./observe.ts";
import type { Scope } from "./record-store.ts";
import { prune, type RetentionKeeper } from "./retention.ts";
import type { StoredRow } from "./row.ts";
import type { Moment, Next } from "./rules.ts";
import { Serial } from "./serial.ts";
import { sweep } from "./sweep.ts";
import { verify } from "./verify.ts";
import { watch } from "./watch.ts";

export interface Services<D, S extends string> {
  readonly retention: RetentionKeeper<D, S> | null;
  readonly delivery: MirrorDelivery<D, S> | null;
}

export class OpenStateIndex<D, S extends string> implements StateIndex<D, S> {
  readonly #kit: Kit<D, S>;
  readonly #services: Services<D, S>;
  readonly #serial = new Serial();
  readonly #stop = new AbortController();
  /** Calls under way: closing waits for them. */
  readonly #calls = new Underway();
  readonly #stopObserving: () => void;
  #closing: Promise<void> | null = null;

  constructor(kit: Kit<D, S>, services: Services<D, S>) {
    this.#kit = kit;
    this.#services = services;
    this.#stopObserving = observeIndex(this, this.name);
  }

  get name(): string {
    return this.#kit.rules.name;
  }

  get lifecycle(): Lifecycle<S> {
    return this.#kit.rules.lifecycle;
  }

  beginEpoch(o: AbortOptions = {}): Promise<number> {
    return this.#call(o, () => this.#kit.store.beginEpoch(this.#kit.scope(o.signal)));
  }

  insert(record: NewRecord<D, S>, o: AbortOptions = {}): Promise<StateRecord<D, S>> {
    const { rules } = this.#kit;
    return this.#change(
      "insert",
      () => idOf(record),
      o,
      (current, moment) => {
        if (current !== null) throw rules.exists(current);
        return rules.inserted(record, moment);
      },
      { expectAbsent: true },
    );
  }

  put(
    record: { id: string; state: S; data: D },
    o: AbortOptions & { revision?: number | undefined } = {},
  ): Promise<StateRecord<D, S>> {
    const { rules } = this.#kit;
    return this.#change(
      "put",
      () => idOf(record),
      o,
      (current, moment) => rules.replaced(current, record, o.revision, moment),
    );
  }

  get(id: string, o: AbortOptions = {}): Promise<StateRecord<D, S> | null> {
    return this.#call(o, async () => {
      const row = await this.#kit.store.get(checkId(id), this.#kit.scope(o.signal));
      return row === null ? null : this.#kit.record(row);
    });
  }

  update(id: string, patch: Patch<D>, o: UpdateOptions<S> = {}): Promise<StateRecord<D, S>> {
    return this.#change(
      "update",
      () => id,
      o,
      (current) => this.#kit.rules.updated(current, id, patch, o),
    );
  }

  transition(id: string, to: S, o: TransitionOptions<D, S> = {}): Promise<StateRecord<D, S>> {
    return this.#change(
      "transition",
      () => id,
      o,
      (current, moment) => this.#kit.rules.transitioned(current, id, to, o, moment),
    );
  }

  async *byState(
    state: S | Dangling | readonly (S | Dangling)[],
    o: ByStateOptions = {},
  ): AsyncGenerator<StateRecord<D, S>, undefined> {
    checkOptions(o);
    const states = this.#kit.rules.checkStates(state);
    yield* list(this.#kit, { secondary: null, key: "", states }, o);
  }

  async *by(index: string, key: string, o: ByKeyOptions<S> = {}): AsyncGenerator<StateRecord<D, S>, undefined> {
    checkOptions(o);
    const states = this.#kit.rules.checkStates<string>(o.state ?? [...this.lifecycle.states, DANGLING]);
    checkKey(key);
    const { number } = await completeIndex(this.#kit, index, o.signal);
    yield* list(this.#kit, { secondary: number, key, states }, o);
  }

  count(state?: S | Dangling, o: AbortOptions = {}): Promise<number> {
    return this.#call(o, async () => {
      const [only] = state === undefined ? [] : this.#kit.rules.checkStates([state]);
      const counts = await this.#kit.store.counts(this.#kit.scope(o.signal));
      if (only !== undefined) return counts.get(only) ?? 0;
      return [...counts.values()].reduce((sum, n) => sum + n, 0);
    });
  }

  sweep(o: SweepOptions<D, S>): Promise<SweepReport> {
    return this.#call(o, () => {
      checkObject("options", o);
      checkOptions(o, "where", "onProgress");
      if (o.by !== undefined) checkObject("by", o.by);
      return observeWork("sweep", this.name, { from: String(o.from), to: o.to }, () => sweep(this.#kit, o));
    });
  }

  import(
    name: string,
    source: (since: string | null) => AsyncIterable<ImportItem<D, S>>,
    o: ImportOptions = {},
  ): Promise<ImportReport> {
    return this.#call(o, () => {
      checkOptions(o, "onProgress");
      checkFunction("source", source, SOURCE);
      const opened = (since: string | null) => checkSource(source(since));
      return observeWork("import", this.name, { source: name }, () => importRecords(this.#kit, name, opened, o));
    });
  }

  prune(o: PruneOptions<S>): Promise<number> {
    return this.#call(o, () => {
      checkObject("options", o);
      return prune(this.#kit, o);
    });
  }

  watch(o: WatchOptions<S> = {}): AsyncIterableIterator<StateTransition<D, S>> {
    checkOptions(o);
    this.#kit.scope(o.signal);
    return watch(this.#kit, o, this.#stop.signal);
  }

  verify(o: AbortOptions = {}): Promise<VerifyReport> {
    return this.#call(o, () => verify(this.#kit, o.signal));
  }

  stats(o: AbortOptions = {}): Promise<StateStats> {
    return this.#call(o, async () => {
      const { store } = this.#kit;
      const scope = this.#kit.scope(o.signal);
      const mirror = await store.outboxStats(scope);
      const records = Object.fromEntries(await store.counts(scope));
      const lastError = this.#services.delivery?.lastError ?? null;
      return { mirror: { ...mirror, lastError }, epoch: await store.currentEpoch(scope), records };
    });
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    this.#stop.abort();
    this.#stopObserving();
    this.#kit.close();
    await this.#calls.over();
    await this.#services.retention?.close();
    await this.#services.delivery?.close();
    await this.#kit.store.close();
  }

  #change(
    kind: ChangeKind,
    givenId: () => unknown,
    options: AbortOptions,
    decide: (current: StoredRow | null, moment: Moment) => Next,
    o?: { expectAbsent: boolean },
  ): Promise<StateRecord<D, S>> {
    return this.#call(options, () => {
      const id = checkId(givenId());
      const scope = this.#kit.scope(options.signal);
      const telemetry = observeChange(this.name, kind);
      if (telemetry === null) return this.#inTurn(id, scope, decide, o);
      const observed = { ...scope, onCommit: telemetry.onCommit };
      return telemetry.during(() => this.#inTurn(id, observed, telemetry.decided(decide), o));
    });
  }

  #inTurn(
    id: string,
    scope: Scope,
    decide: (current: StoredRow | null, moment: Moment) => Next,
    o?: { expectAbsent: boolean },
  ): Promise<StateRecord<D, S>> {
    return this.#serial.run(id, scope.signal, () => this.#kit.change(id, scope, decide, o));
  }

  #call<T>(o: unknown, run: () => Promise<T>): Promise<T> {
    try {
      checkOptions(o);
      return this.#calls.track(run());
    } catch (error) {
      return Promise.reject(error);
    }
  }
}

function idOf(record: { id: string }): unknown {
  checkObject("record", record);
  return record.id;
}

const SOURCE = "a function that gives an async iterable";

function checkSource<T>(source: AsyncIterable<T>): AsyncIterable<T> {
  const { [Symbol.asyncIterator]: iterate } = (source ?? {}) as Partial<AsyncIterable<T>>;
  if (typeof iterate !== "function") throw new InvalidArgumentError("source", source, SOURCE);
  return source;
}

/** The records of one state index in `state.db`. */
import { dirname, join } from "node:path";
import { tryFileLock } from "../../lock/index.ts";
import type { VerifyProblem } from "../model.ts";
import { RecentRows } from "../recent.ts";
import type {
  ChangeMark,
  MirrorRight,
  PageQuery,
  RecordStore,
  RowChange,
  Scope,
  Standing,
  StoredChange,
  WriteOptions,
} from "../record-store.ts";
import type { StoredRow } from "../row.ts";
import type { Registration } from "../secondary.ts";
import { toError } from "./failure.ts";
import { type Answer, inspectStore } from "./inspect.ts";
import type { Description, RegisterBody, WriteResult } from "./protocol.ts";
import type { StoreLease } from "./shared.ts";
import type { SqliteStore } from "./store.ts";
import { runTask, workersAllowed } from "./thread.ts";

export class SqliteRecords implements RecordStore {
  readonly #lease: StoreLease;
  readonly #store: SqliteStore;
  readonly #recent = new RecentRows();
  #description: Description;
  #registration: Registration;

  private constructor(lease: StoreLease, description: Description) {
    this.#lease = lease;
    this.#store = lease.store;
    this.#description = description;
    this.#registration = registrationOf(description);
  }

  /** Writes only where something is to be changed: a store that others write to all the time can be opened. */
  static async register(lease: StoreLease, wanted: RegisterBody, scope: Scope): Promise<SqliteRecords> {
    const { store } = lease;
    const found = await store.read(scope, (reader) => reader.find(wanted));
    return new SqliteRecords(lease, found ?? (await store.submit<Description>(wanted, scope)));
  }

  get registration(): Registration {
    return this.#registration;
  }

  get epoch(): number {
    return this.#store.epoch;
  }

  async refresh(scope: Scope): Promise<void> {
    const { index } = this.#description;
    this.#redescribe(await this.#store.read(scope, (reader) => reader.describe(index)));
  }

  get unbuilt(): readonly number[] {
    return this.#description.unbuilt;
  }

  now(): number {
    return Date.now();
  }

  get(id: string, scope: Scope): Promise<StoredRow | null> {
    return this.#store.read(scope, (reader) => reader.get(this.#description.index, id));
  }

  recall(id: string): StoredRow | undefined {
    return this.#recent.get(id);
  }

  page(query: PageQuery, scope: Scope): Promise<StoredRow[]> {
    const { index, listing } = this.#description;
    const page = { ...query, index, secondary: query.secondary ?? listing, isListing: query.secondary === null };
    return this.#store.read(scope, (reader) => reader.page(page));
  }

  counts(scope: Scope): Promise<ReadonlyMap<string, number>> {
    return this.#store.read(scope, (reader) => reader.counts(this.#description.index));
  }

  async write(changes: readonly RowChange[], options: WriteOptions, scope: Scope): Promise<(StoredRow | null)[]> {
    const { epoch: madeIn, registration, mark } = options;
    const { index, generation } = registration;
    const body = { kind: "write", index, generation, epoch: madeIn, changes, mark } as const;
    const { outcomes, epoch, redescribed } = await this.#store.submit<WriteResult>(body, scope);
    this.#store.epoch = epoch;
    if (redescribed !== undefined) {
      this.#redescribe(redescribed);
      // A mark alone does not depend on what the indexes are; without a change no null would say that it was not stored.
      if (changes.length === 0) return this.write(changes, { ...options, registration: this.#registration }, scope);
    }
    return this.#recent.written(changes, outcomes);
  }

  prune(
    o: { state: string; before: number; keep: number; limit: number },
    scope: Scope,
  ): Promise<{ pruned: number; more: boolean }> {
    return this.#store.submit({ kind: "prune", index: this.#description.index, ...o }, scope);
  }

  async beginEpoch(scope: Scope): Promise<number> {
    const epoch = await this.#store.submit<number>({ kind: "epoch" }, scope);
    this.#store.epoch = epoch;
    return epoch;
  }

  currentEpoch(scope: Scope): Promise<number> {
    return this.#store.read(scope, (reader) => reader.epoch());
  }

  standing(ids: readonly string[], scope: Scope): Promise<Standing[]> {
    const { index } = this.#description;
    return this.#store.read(scope, (reader) => ids.map((id) => reader.standing(index, id)));
  }

  watermark(name: string, scope: Scope): Promise<string | null> {
    return this.#store.read(scope, (reader) => reader.watermark(this.#description.index, name));
  }

  unkeyed(limit: number, scope: Scope): Promise<StoredRow[]> {
    return this.#store.read(scope, (reader) => reader.unkeyed(this.#description.index, limit));
  }

  async setBuilt(secondary: readonly number[], scope: Scope): Promise<void> {
    const { index } = this.#description;
    await this.#store.submit({ kind: "built", index, secondary }, scope);
    this.#redescribe(await this.#store.submit<Description>({ kind: "describe", index }, scope));
  }

  /** Read before it returns. */
  async lastChange(): Promise<ChangeMark> {
    return { seq: this.#store.readNow((reader) => reader.changeRange().last) };
  }

  async changes(
    { seq }: ChangeMark,
    limit: number,
    scope: Scope,
  ): Promise<{ changes: StoredChange[]; upTo: ChangeMark } | null> {
    const found = await this.#store.read(scope, (reader) => reader.changes(this.#description.index, seq, limit));
    return found === null ? null : { changes: found.changes, upTo: { seq: found.upTo } };
  }

  subscribe(listener: () => void, o: { keepAlive: boolean }): () => void {
    return this.#store.subscribe(listener, o);
  }

  outbox(after: number, limit: number, scope: Scope): Promise<StoredChange[]> {
    return this.#store.read(scope, (reader) => reader.outbox(this.#description.index, after, limit));
  }

  outboxStats(scope: Scope): Promise<{ pending: number; oldestAt: number | null }> {
    return this.#store.read(scope, (reader) => reader.outboxStats(this.#description.index));
  }

  async delivered(sequences: readonly number[], scope: Scope): Promise<void> {
    await this.#store.submit({ kind: "delivered", index: this.#description.index, sequences }, scope);
  }

  /** The kernel takes the lock away when the process dies, and never before. */
  async lockMirror(): Promise<MirrorRight | null> {
    const lock = tryFileLock(join(dirname(this.#store.path), `mirror-${this.#description.index}.lock`));
    return lock === null ? null : { held: true, release: async () => lock.release() };
  }

  /** On a thread of its own, for it takes a second per million records. */
  async inspect(signal: AbortSignal | undefined): Promise<{ records: number; problems: VerifyProblem[] }> {
    const { path } = this.#store;
    const { index } = this.#description;
    const task = { role: "inspect", path, index } as const;
    const answer = workersAllowed() ? await runTask<Answer>(task, signal) : inspectStore(path, index);
    if (answer.ok) return answer.value;
    throw toError(answer.failure, path);
  }

  close(): Promise<void> {
    return this.#lease.release();
  }

  #redescribe(description: Description): void {
    // What is read and what is answered may come in another order.
    if (description.generation < this.#description.generation) return;
    this.#description = description;
    this.#registration = registrationOf(description);
  }
}

function registrationOf({ index, generation, secondary }: Description): Registration {
  return { index, generation, secondary: new Map(secondary.map(({ name, number }) => [name, number])) };
}

/**
 * When an answer is true: drains the kernel's queue, has changed files looked at again and types swept, and says whether
 * a type can be answered for at this moment. One pass serves all who wait for it.
 */
import { type AbortOptions, abortable } from "../abort.ts";
import { DefinitionReadError } from "../errors.ts";
import type { ExamineOptions } from "../scan/examine.ts";
import { readStamp, STAMP_BYTES, sameStamp } from "../scan/stamp.ts";
import { applyOne, emptyApplyResult } from "./apply.ts";
import type { AppliedPlace, ApplyResult, IndexEngine } from "./engine.ts";
import { fileKey, relativePath } from "./keys.ts";
import { observeSweep, sweepEnded } from "./observe.ts";
import { FILE_STAMP_AT } from "./records.ts";
import type { DefinitionStore } from "./store.ts";
import type { SweepResult } from "./sweep.ts";
import { isTypePath, type TypeState } from "./type-state.ts";
import type { TypeTree } from "./type-tree.ts";

/** So many changed files are read where the lookup stands; more go to the worker. */
const INLINE_FILES = 24;
const FLUSH_AFTER_MS = 20;
/** Files that only the caller's parser can judge: so many between two yields. */
const DEFERRED_SLICE_MS = 4;

export interface SweepListener {
  /** Of the sweep under way. */
  progress(files: number, read: number): void;
  swept(result: SweepResult): void;
}

export class Freshness {
  readonly #store: DefinitionStore;
  readonly #tree: TypeTree;
  readonly #engine: () => Promise<IndexEngine>;
  readonly #examine: ExamineOptions;
  readonly #closing = new AbortController();
  readonly #scratch = new Uint8Array(STAMP_BYTES);
  readonly #passes = new Set<Promise<unknown>>();
  #flushing: Promise<void> | null = null;
  #flushTimer: ReturnType<typeof setTimeout> | null = null;
  /** How often somebody has asked. */
  observations = 0;
  filesRead = 0;
  directoriesListed = 0;
  eventsDrained = 0;
  lastSweep: { at: number; files: number; elapsedMs: number } | null = null;
  /** Types have to be swept; whoever asks for them waits for it, the others can be swept meanwhile. */
  onSweepNeeded: (() => void) | null = null;
  readonly #listeners = new Set<SweepListener>();

  constructor(o: {
    store: DefinitionStore;
    tree: TypeTree;
    engine: () => Promise<IndexEngine>;
    examine: ExamineOptions;
  }) {
    this.#store = o.store;
    this.#tree = o.tree;
    this.#engine = o.engine;
    this.#examine = o.examine;
  }

  /** Tells of the sweeps to come, until the function returned is called. */
  listen(listener: SweepListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Takes note of everything that has happened up to now. Synchronous: what follows in the same turn is as of now. */
  observe(): void {
    this.observations++;
    this.eventsDrained += Math.max(0, this.#tree.drain());
    for (const root of this.#tree.roots) if (root.mustBeLookedAt) this.#lookAt(root.index);
    if (this.#tree.hasChanged) {
      this.#tree.hasChanged = false;
      this.onSweepNeeded?.();
    }
  }

  #lookAt(index: number): void {
    const root = this.#tree.roots[index];
    // Another directory may be put there between the look and the watches: look again once they stand.
    for (let tries = 0; root?.lookAgain() && tries < 3; tries++) {
      this.#tree.loseRoot(index);
      root.adopt();
      if (root.present && root.unwatchable === null) this.#tree.watchAncestors(root);
    }
  }

  /**
   * Whether the type can be answered for as of the last `observe`: its state, null when there is no such type, undefined
   * when it must be waited for. Few changed files are looked at here and now. `name`: the one asked for, which is
   * looked at directly where the kernel does not tell.
   */
  now(type: string, name?: string): TypeState | null | undefined {
    const state = this.#tree.types.get(type);
    if (state === undefined) return this.#knownAbsent(type) ? null : undefined;
    if (!state.swept || state.busy !== null) return undefined;
    if (isBounded(state) && !this.#stampsHold(state, name)) return undefined;
    if (state.hasSymlinks) this.#lookAtSymlinks(state);
    // The disk may have come to its senses (EMFILE), and no event tells of that.
    for (const { root, filename } of state.unreadable.values()) this.mark(state, root, filename);
    const pending = state.pendingFiles;
    if (pending > 0) {
      if (pending > INLINE_FILES) return undefined;
      this.#applyHere(state);
    }
    return state;
  }

  /** A type of which nobody has ever seen a directory: its nearest ancestor's listing says so. */
  #knownAbsent(type: string): boolean {
    if (!isTypePath(type)) return true;
    let state = this.#tree.top;
    for (const part of type.split("/")) {
      if (!state.swept || state.busy !== null) return false;
      if (isBounded(state) && !this.#stampsHold(state)) return false;
      const child = state.children.get(part);
      if (child === undefined) return !state.dirs.some((dir) => dir?.directories.has(part));
      state = child;
    }
    return false;
  }

  /** Every type is ready; whole-tree questions need it. */
  allNow(): boolean {
    return this.#firstUnready() === null;
  }

  #firstUnready(): TypeState | null {
    for (const state of this.#tree.types.values()) if (this.now(state.type) === undefined) return state;
    return null;
  }

  /**
   * Brings a type (null: all) nearer to an answer: one sweep or pass at least, shared by all who wait. An abort ends
   * the waiting; the shared work goes on for the others.
   */
  async wait(type: string | null, o: AbortOptions): Promise<void> {
    o.signal?.throwIfAborted();
    if (type === null) {
      for (;;) {
        this.observe();
        const state = this.#firstUnready();
        if (state === null) return;
        await abortable(this.#bring(state), o.signal);
        this.#closing.signal.throwIfAborted();
      }
    }
    for (;;) {
      const state = this.#firstUnreadyTo(type);
      if (state === null) return;
      await abortable(this.#bring(state), o.signal);
      this.#closing.signal.throwIfAborted();
      this.observe();
    }
  }

  /** On the way from the root down to the type: whoever is not ready must become so before those below it. */
  #firstUnreadyTo(type: string): TypeState | null {
    let state = this.#tree.top;
    for (const part of type === "" ? [] : type.split("/")) {
      if (this.now(state.type) === undefined) return state;
      const child = state.children.get(part);
      if (child === undefined) return null;
      state = child;
    }
    return this.now(state.type) === undefined ? state : null;
  }

  /** The next pass that this type needs. */
  #bring(state: TypeState): Promise<void> {
    if (state.busy !== null) return state.busy;
    const pass = state.swept && state.pendingFiles > 0 ? this.#applyElsewhere(state) : this.#sweep(state);
    const busy = pass.finally(() => {
      state.busy = null;
      this.#passes.delete(busy);
    });
    busy.catch(() => {});
    state.busy = busy;
    this.#passes.add(busy);
    return busy;
  }

  // ── sweeps ──────────────────────────────────────────────────────────────────────────────────────

  async #sweep(state: TypeState): Promise<void> {
    const telemetry = observeSweep(state.type, () => this.#isKnown(state));
    try {
      const result = await this.#sweepOnce(state);
      if (telemetry !== null) sweepEnded(telemetry, result);
    } catch (error) {
      telemetry?.fail(error);
      throw error;
    }
  }

  #isKnown({ type }: TypeState): boolean {
    const prefix = type === "" ? "" : `${type}/`;
    return this.#tree.roots.some(
      (root) => this.#store.filesUnder(root.index, prefix, { limit: 1, nested: false }).length > 0,
    );
  }

  async #sweepOnce(state: TypeState): Promise<SweepResult> {
    const started = performance.now();
    const engine = await this.#engine();
    await this.flush();
    this.observe();
    const { generation } = state;
    const target = this.#tree.prepareSweep(state);
    const result = await engine.sweep(target, {
      signal: this.#closing.signal,
      onFiles: (files, read) => {
        for (const listener of this.#listeners) listener.progress(files, read);
      },
    });
    this.#store.readAnew();
    this.filesRead += result.read;
    this.directoriesListed += result.dirs.filter((dir) => dir !== null).length;
    if (this.#tree.finishSweep(state, generation, result)) {
      for (const { root, filename, path, errno } of result.unreadable) {
        state.unreadable.set(path, { root, filename, error: new DefinitionReadError(path, errno) });
      }
      await this.#judgeDeferred(state);
      this.#confirmRoots(state);
      this.#forgetIfGone(state);
    }
    const elapsedMs = performance.now() - started;
    this.lastSweep = { at: Date.now(), files: result.files, elapsedMs };
    for (const listener of this.#listeners) listener.swept(result);
    return result;
  }

  /** A root may have become a link, or another directory, while it was first looked at. */
  #confirmRoots(state: TypeState): void {
    if (state.parent !== null) return;
    for (const root of this.#tree.roots) {
      const { realDir } = root;
      if (!root.present) continue;
      root.adopt();
      if (root.realDir !== realDir || !root.present) this.#tree.loseRoot(root.index);
    }
  }

  #forgetIfGone(state: TypeState): void {
    if (state.swept && state.dirs.every((dir) => dir === null)) this.#tree.forget(state);
  }

  /** Only this thread has the caller's parser. */
  async #judgeDeferred(state: TypeState): Promise<void> {
    let since = performance.now();
    const result = emptyApplyResult();
    for (const [root, names] of state.deferred.entries()) {
      for (const filename of names) {
        applyOne(this.#store, this.#placeOf(state, root, filename), this.#examine, result);
        if (performance.now() - since > DEFERRED_SLICE_MS) {
          await new Promise<void>((resolve) => setImmediate(resolve));
          this.#closing.signal.throwIfAborted();
          since = performance.now();
        }
      }
      names.clear();
    }
    this.#takeResult(state, result);
    if (this.#store.waiting > 0) this.#flushSoon();
  }

  // ── changed files ───────────────────────────────────────────────────────────────────────────────

  #placeOf(state: TypeState, root: number, filename: string): AppliedPlace {
    return { place: { root, type: state.type, typeId: state.id, filename }, dir: this.#tree.dirOf(state, root) };
  }

  #takePending(state: TypeState): AppliedPlace[] {
    const places: AppliedPlace[] = [];
    for (const [root, names] of state.pending.entries()) {
      if (state.dirs[root] !== null) for (const name of names) places.push(this.#placeOf(state, root, name));
      names.clear();
    }
    return places;
  }

  #applyHere(state: TypeState): void {
    const result = emptyApplyResult();
    for (const at of this.#takePending(state)) this.#applyAt(state, at, result);
    this.#takeResult(state, result);
    if (this.#store.waiting > 0) this.#flushSoon();
  }

  #applyAt(state: TypeState, at: AppliedPlace, result: ApplyResult): void {
    state.symlinks[at.place.root]?.delete(at.place.filename);
    state.unreadable.delete(`${at.dir}/${at.place.filename}`);
    applyOne(this.#store, at, this.#examine, result);
  }

  async #applyElsewhere(state: TypeState): Promise<void> {
    const engine = await this.#engine();
    await this.flush();
    const { generation } = state;
    const places = this.#takePending(state);
    for (const { place, dir } of places) {
      state.symlinks[place.root]?.delete(place.filename);
      state.unreadable.delete(`${dir}/${place.filename}`);
    }
    try {
      const result = await engine.apply(places, { signal: this.#closing.signal });
      this.#store.readAnew();
      if (state.generation === generation) this.#takeResult(state, result);
      await this.#judgeDeferred(state);
    } catch (error) {
      state.invalidate();
      throw error;
    }
  }

  #takeResult(state: TypeState, result: ApplyResult): void {
    this.filesRead += result.read;
    for (const { place } of result.symlinks) state.symlinks[place.root]?.add(place.filename);
    for (const { place } of result.deferred) state.deferred[place.root]?.add(place.filename);
    for (const { at, path, errno } of result.unreadable) {
      const { root, filename } = at.place;
      state.unreadable.set(path, { root, filename, error: new DefinitionReadError(path, errno) });
    }
    result.counts.forEach((change, root) => {
      state.counts[root] = (state.counts[root] ?? 0) + change;
    });
  }

  /** This file is not what the index says: look at it again before the next answer. */
  mark(state: TypeState, root: number, filename: string): void {
    state.pending[root]?.add(filename);
  }

  #lookAtSymlinks(state: TypeState): void {
    for (const [root, names] of state.symlinks.entries()) {
      for (const filename of names) {
        if (!this.#isAsStored(state, root, filename, true)) this.mark(state, root, filename);
      }
    }
  }

  /** Whether the file's stamp is the one that it was read with. */
  #isAsStored(state: TypeState, root: number, filename: string, follow: boolean): boolean {
    const path = `${this.#tree.dirOf(state, root)}/${filename}`;
    let kind = readStamp(path, follow, this.#scratch, 0);
    // A link that leads nowhere is kept by its own stamp.
    if (kind === "absent" && follow) kind = readStamp(path, false, this.#scratch, 0);
    const stored = this.#store.files.peek(fileKey(root, relativePath(state.type, filename)));
    if (stored === undefined) return kind === "absent";
    return kind !== "absent" && sameStamp(stored, FILE_STAMP_AT, this.#scratch, 0);
  }

  // ── without the kernel: stamps ──────────────────────────────────────────────────────────────────

  /** An unchanged directory stamp proves that no file came, went or was renamed; `{name}.yaml` is looked at itself. */
  #stampsHold(leaf: TypeState, name?: string): boolean {
    for (let state: TypeState | null = leaf; state !== null; state = state.parent) {
      if (state.boundedBecause === null) continue;
      for (const root of this.#tree.roots) {
        const dir = state.dirs[root.index] ?? null;
        if (!root.present) continue;
        const kind = readStamp(this.#tree.dirOf(state, root.index), state.parent === null, this.#scratch, 0);
        const holds =
          dir === null
            ? kind !== "directory"
            : kind === "directory" && !dir.racy && sameStamp(dir.stamp, 0, this.#scratch, 0);
        if (holds) continue;
        // A directory that came or went stands in its parent's listing.
        if ((dir === null) !== (kind !== "directory")) state.parent?.invalidate();
        state.invalidate();
        return false;
      }
    }
    if (name !== undefined && leaf.boundedBecause !== null && isFilename(name)) {
      for (const root of this.#tree.roots) {
        if (leaf.dirs[root.index] === null) continue;
        if (!this.#isAsStored(leaf, root.index, `${name}.yaml`, false)) this.mark(leaf, root.index, `${name}.yaml`);
      }
    }
    return true;
  }

  // ── commits ─────────────────────────────────────────────────────────────────────────────────────

  #flushSoon(): void {
    if (this.#flushTimer !== null || this.#closing.signal.aborted) return;
    this.#flushTimer = setTimeout(() => {
      this.#flushTimer = null;
      this.flush().catch(() => this.#flushSoon());
    }, FLUSH_AFTER_MS);
    this.#flushTimer.unref();
  }

  /** Everything known so far is committed when it resolves. */
  async flush(): Promise<void> {
    while (this.#flushing !== null) await this.#flushing;
    if (this.#store.waiting === 0) return;
    this.#flushing = this.#commit().finally(() => {
      this.#flushing = null;
    });
    return this.#flushing;
  }

  async #commit(): Promise<void> {
    const engine = await this.#engine();
    const puts = this.#store.takeWaiting();
    await engine.commit(puts);
    this.#store.dropCommitted(puts);
  }

  get closed(): boolean {
    return this.#closing.signal.aborted;
  }

  /** Ends what runs, and commits what is known. */
  async close(reason: unknown): Promise<void> {
    this.#closing.abort(reason);
    if (this.#flushTimer !== null) clearTimeout(this.#flushTimer);
    await Promise.allSettled(this.#passes);
    await this.flush();
  }
}

export function isBounded(leaf: TypeState): boolean {
  for (let state: TypeState | null = leaf; state !== null; state = state.parent) {
    if (state.boundedBecause !== null) return true;
  }
  return false;
}

/** Whether `{name}.yaml` can be a file at all. */
export function isFilename(name: string): boolean {
  return !name.includes("/") && !name.includes("\0") && name.length <= 250;
}

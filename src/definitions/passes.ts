/** The work that makes a type's answers true again: a sweep, or a look at the files that have changed. */
import { Underway } from "../churn.ts";
import { DefinitionReadError, StorageFullError } from "../errors.ts";
import type { ExamineOptions } from "../scan/examine.ts";
import { nextTurn, timeSlices } from "../slices.ts";
import { applyFiles, applyOne, emptyApplyResult } from "./apply.ts";
import type { Commits } from "./commits.ts";
import type { AppliedPlace, ApplyResult, IndexEngine } from "./engine.ts";
import { observeSweep, sweepEnded } from "./observe.ts";
import type { DefinitionStore } from "./store.ts";
import type { SweepResult } from "./sweep.ts";
import { type SweepListener, SweepListeners, type SweepProgress } from "./sweep-progress.ts";
import type { TypeState } from "./type-state.ts";
import type { TypeTree } from "./type-tree.ts";

/** To hand over more at once would hold the event loop; whoever waits has the rest brought by the next pass. */
const FILES_PER_PASS = 5_000;
/** Records that wait in memory for a disk that is full, three a file and about 250 bytes each. */
const MOST_WAITING = 60_000;

export class Passes {
  readonly #store: DefinitionStore;
  readonly #tree: TypeTree;
  readonly #commits: Commits;
  readonly #engine: IndexEngine;
  readonly #examine: ExamineOptions;
  readonly #running = new Underway();
  readonly #foreseen = new Set<string>();
  readonly #listeners = new SweepListeners();
  /** Aborts when the index closes. */
  readonly #signal: AbortSignal;
  /** Takes note of everything that has happened up to now; the number of this observation. */
  readonly #observe: () => number;
  /** In sweeps. */
  filesSeen = 0;
  filesRead = 0;
  directoriesListed = 0;
  lastSweep: { at: number; files: number; elapsedMs: number } | null = null;

  constructor(o: {
    store: DefinitionStore;
    tree: TypeTree;
    commits: Commits;
    engine: IndexEngine;
    examine: ExamineOptions;
    signal: AbortSignal;
    observe: () => number;
  }) {
    this.#store = o.store;
    this.#tree = o.tree;
    this.#commits = o.commits;
    this.#engine = o.engine;
    this.#examine = o.examine;
    this.#signal = o.signal;
    this.#observe = o.observe;
  }

  /** Tells of the sweeps to come, until the function returned is called. */
  listen(listener: SweepListener): () => void {
    return this.#listeners.add(listener);
  }

  /** The next pass that this type needs; the one under way, if there is one. */
  bring(state: TypeState): Promise<void> {
    if (state.busy !== null) return state.busy;
    const hasChanges = state.pendingFiles > 0 || state.deferredFiles > 0;
    const pass = state.swept && hasChanges ? this.#applyElsewhere(state) : this.#sweep(state);
    const busy = pass.finally(() => {
      state.busy = null;
      state.meanwhile = null;
    });
    state.busy = busy;
    return this.#running.track(busy);
  }

  /** All that runs has ended, one way or the other. */
  async settled(): Promise<void> {
    await this.#running.over();
  }

  // ── sweeps ──────────────────────────────────────────────────────────────────────────────────────

  async #sweep(state: TypeState): Promise<void> {
    const telemetry = observeSweep(state.type, () => this.#isKnown(state));
    const progress = this.#listeners.begin(state.type);
    try {
      const result = await this.#sweepOnce(state, progress);
      progress.end(result);
      if (telemetry !== null && result !== null) sweepEnded(telemetry, result);
      else telemetry?.end();
    } catch (error) {
      progress.end(null);
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

  /** Null when what lies above has to be looked through first, to know where the type lies. */
  async #sweepOnce(state: TypeState, progress: SweepProgress): Promise<SweepResult | null> {
    const started = performance.now();
    this.#engine.prepare?.();
    await this.#commits.flush();
    const begun = await this.#begin(state);
    if (begun === null) return null;
    const { sweep, target } = begun;
    const result = await this.#engine.sweep(target, { signal: this.#signal, onFiles: progress.onFiles });
    this.#store.readAnew();
    this.filesSeen += result.files;
    this.filesRead += result.read;
    this.directoriesListed += result.dirs.filter((dir) => dir !== null).length;
    if (this.#tree.finishSweep(state, sweep, result)) {
      for (const { root, filename, path, errno } of result.unreadable) {
        state.unreadable.set(path, { root, filename, error: new DefinitionReadError(path, errno) });
      }
      await this.#judgeDeferred(state);
      this.#confirmRoots(state);
      this.#forgetIfGone(state);
    }
    const elapsedMs = performance.now() - started;
    this.lastSweep = { at: Date.now(), files: result.files, elapsedMs };
    return result;
  }

  /**
   * Somebody will ask for this type, and what lies above has to be looked through first: meanwhile the kernel prepares to watch
   * it, where that takes its time. Call what it returns when the type is there.
   */
  foresee(type: string): () => void {
    // Deno starts a thread on the one that asks for it, and both would wait for each other: the event loop for 20 ms longer.
    if ("Deno" in globalThis) return () => {};
    const state = this.#tree.types.get(type);
    if (type === "" || this.#foreseen.has(type) || state?.parent?.swept === true) return () => {};
    this.#foreseen.add(type);
    this.#engine.prepare?.();
    // What cannot be looked at now is named when its turn comes.
    const prepared = this.#tree.foreseeWatches(type).catch(() => async () => {});
    return () => {
      this.#foreseen.delete(type);
      void this.#running.track(prepared.then((release) => release()));
    };
  }

  /** What is to be looked through is watched from now on, and what comes after this observation must be seen. */
  async #begin(state: TypeState) {
    const release = await this.#tree.prepareWatches(state);
    try {
      const sweep = { at: this.#observe(), generation: state.generation };
      return isReached(state) ? { sweep, target: this.#tree.prepareSweep(state) } : null;
    } finally {
      void this.#running.track(release()); // Nobody waits for it but the close of the index.
    }
  }

  /** A root may have become a link, or another directory, while it was looked at, or have been away just then. */
  #confirmRoots(state: TypeState): void {
    if (state.parent !== null) return;
    for (const root of this.#tree.roots) {
      const { realDir } = root;
      if (!root.present) continue;
      root.adopt();
      const listed = state.dirs[root.index] !== null;
      if (root.realDir !== realDir || root.present !== listed) this.#tree.loseRoot(root.index);
    }
  }

  #forgetIfGone(state: TypeState): void {
    if (state.swept && state.dirs.every((dir) => dir === null)) this.#tree.forget(state);
  }

  // ── changed files ───────────────────────────────────────────────────────────────────────────────

  /** Looks at the changed files at once; what takes a parser is left to a pass. */
  applyHere(state: TypeState): void {
    const result = emptyApplyResult();
    const options = { ...this.#examine, deferParsing: true };
    for (const at of this.#take(state, state.pending)) applyOne(this.#store, at, options, result);
    this.#takeResult(state, result);
    this.#commits.soon();
  }

  async #applyElsewhere(state: TypeState): Promise<void> {
    // The worker sees what is committed, and must not write what would be written over by what still waits here.
    const isCommitted = !this.#commits.isFull && (await this.#commits.flush().then(() => true, unlessFull));
    // The turn in which so many events were drained has been long enough.
    await nextTurn();
    const { generation } = state;
    const places = this.#take(state, state.pending, FILES_PER_PASS);
    if (this.#examine.parse === undefined) places.push(...this.#take(state, state.deferred, FILES_PER_PASS));
    try {
      const result = await (isCommitted ? this.#applyThere(places) : this.#applyInMemory(places));
      this.#store.readAnew();
      if (state.generation === generation) this.#takeResult(state, result);
      await this.#judgeDeferred(state);
    } catch (error) {
      for (const { place, written } of places) if (written) state.written[place.root]?.add(place.filename);
      state.invalidate();
      throw error;
    }
  }

  /** On the worker; where there is no room to commit it, here. */
  async #applyThere(places: readonly AppliedPlace[]): Promise<ApplyResult> {
    try {
      return await this.#engine.apply(places, { signal: this.#signal });
    } catch (error) {
      unlessFull(error);
      this.#commits.noteFull();
      this.#store.readAnew();
      return this.#applyInMemory(places);
    }
  }

  async #applyInMemory(places: readonly AppliedPlace[]): Promise<ApplyResult> {
    if (this.#store.waiting > MOST_WAITING) await this.#commits.flush();
    const options = { ...this.#examine, deferParsing: this.#examine.parse !== undefined };
    return applyFiles(this.#store, places, options, timeSlices(undefined), { signal: this.#signal });
  }

  async #judgeDeferred(state: TypeState): Promise<void> {
    // The caller's parser has this thread only.
    const slices = timeSlices(this.#signal);
    const result = emptyApplyResult();
    for (const at of this.#take(state, state.deferred)) {
      applyOne(this.#store, at, this.#examine, result);
      if (slices.due()) await slices.pause();
    }
    this.#takeResult(state, result);
    this.#commits.soon();
  }

  /** What is known of these files is no longer known. */
  #take(state: TypeState, files: readonly Set<string>[], most = Number.POSITIVE_INFINITY): AppliedPlace[] {
    const places: AppliedPlace[] = [];
    for (const [root, names] of files.entries()) {
      if (state.dirs[root] === null) names.clear();
      const dir = this.#tree.dirOf(state, root);
      for (const filename of names) {
        if (places.length >= most) return places;
        names.delete(filename);
        state.symlinks[root]?.delete(filename);
        state.unreadable.delete(`${dir}/${filename}`);
        const written = state.written[root]?.delete(filename) ?? false;
        places.push({ place: { root, type: state.type, typeId: state.id, filename }, dir, written });
      }
    }
    return places;
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
}

function unlessFull(error: unknown): false {
  if (!(error instanceof StorageFullError)) throw error;
  return false;
}

/** Whether the listings of all directories above are known to hold: else the type would be taken for gone. */
function isReached(state: TypeState): boolean {
  for (let above = state.parent; above !== null; above = above.parent) if (!above.swept) return false;
  return true;
}

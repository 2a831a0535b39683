/**
 * When an answer is true: drains the kernel's queue, has changed files looked at again and types swept, and says whether
 * a type can be answered for at this moment. One pass serves all who wait for it.
 */
import { type AbortOptions, abortable } from "../abort.ts";
import { DefinitionReadError } from "../errors.ts";
import type { ExamineOptions } from "../scan/examine.ts";
import { timeSlices } from "../slices.ts";
import { Commits } from "./commits.ts";
import type { IndexEngine } from "./engine.ts";
import { Passes } from "./passes.ts";
import { StampChecks } from "./stamp-checks.ts";
import type { DefinitionStore } from "./store.ts";
import { isTypePath, type TypeState } from "./type-state.ts";
import type { TypeTree } from "./type-tree.ts";

/** So many changed files are read where the lookup stands; more go to the worker. */
const INLINE_FILES = 24;
/** So many types are brought at once: they share commits. */
const MOST_AT_ONCE = 64;
/** As long as they hold no more files than this together, or who asks for another type would wait for all of them. */
const FILES_AT_ONCE = 2_000;

export class Freshness {
  readonly passes: Passes;
  readonly #commits: Commits;
  readonly #stamps: StampChecks;
  readonly #tree: TypeTree;
  readonly #closing = new AbortController();
  /** How often somebody has asked. */
  observations = 0;
  eventsDrained = 0;
  /** Files that were opened for one answer alone. */
  filesRead = 0;
  /** Types have to be swept; whoever asks for them waits for it, the others can be swept meanwhile. */
  onSweepNeeded: (() => void) | null = null;

  constructor(o: {
    store: DefinitionStore;
    tree: TypeTree;
    engine: IndexEngine;
    examine: ExamineOptions;
  }) {
    this.#tree = o.tree;
    this.#commits = new Commits(o.store, o.engine);
    this.#stamps = new StampChecks(o.store, o.tree);
    const { signal } = this.#closing;
    this.passes = new Passes({ ...o, commits: this.#commits, signal, observe: () => this.observe() });
  }

  /**
   * Takes note of everything that has happened up to now, and returns the number of this observation. Synchronous: what
   * follows in the same turn is as of now.
   */
  observe(): number {
    this.observations++;
    this.eventsDrained += Math.max(0, this.#tree.drain());
    for (const root of this.#tree.roots) if (root.mustBeLookedAt) this.#lookAt(root.index);
    if (this.#tree.hasChanged) {
      this.#tree.hasChanged = false;
      this.onSweepNeeded?.();
    }
    return this.observations;
  }

  #lookAt(index: number): void {
    const root = this.#tree.roots[index];
    // Another directory may be put there between the look and the watches: look again once they stand.
    for (let tries = 0; root?.lookAgain() && tries < 3; tries++) {
      this.#tree.loseRoot(index);
      root.adopt();
      if (root.present && root.unwatchable === null) this.#tree.watchAncestors(root);
    }
    if (root?.absence === "untried" && !root.present && root.unwatchable === null) this.#tree.watchAbsence(root);
  }

  /**
   * Whether the type can be answered for as of the last `observe`: its state, null when there is no such type, undefined
   * when it must be waited for. Few changed files are looked at here and now. `since`: the observation with which whoever
   * asks began. What no event tells of is looked at once for him and not again, or he might wait for ever for what changes
   * all the time. `name`: the one asked for, which is looked at directly where the kernel does not tell.
   */
  now(type: string, since: number, name?: string): TypeState | null | undefined {
    const state = this.#tree.types.get(type);
    if (state === undefined) return this.#knownAbsent(type, since) ? null : undefined;
    return this.#isReady(state, since, name) ? state : undefined;
  }

  #isReady(state: TypeState, since: number, name?: string): boolean {
    if (!state.swept || state.busy !== null) return false;
    if (isBounded(state)) {
      if (!this.#stamps.checkDirectories(state, since)) return false;
      if (name !== undefined && isFilename(name)) this.#stamps.checkFiles(state, `${name}.yaml`);
    }
    if (state.checkedAt < since) {
      state.checkedAt = this.observations;
      if (state.hasSymlinks) this.#stamps.checkLinks(state);
      // The disk may have come to its senses (EMFILE), and no event tells of that.
      if (state.unreadable.size > 0)
        for (const { root, filename } of state.unreadable.values()) this.mark(state, root, filename);
    }
    const pending = state.pendingFiles;
    if (pending > INLINE_FILES) return false;
    if (pending > 0) this.passes.applyHere(state);
    return state.deferredFiles === 0;
  }

  /** A type of which nobody has ever seen a directory: its nearest ancestor's listing says so. */
  #knownAbsent(type: string, since: number): boolean {
    if (!isTypePath(type)) return true;
    let state = this.#tree.top;
    for (const part of type.split("/")) {
      if (!state.swept || state.busy !== null) return false;
      if (isBounded(state) && !this.#stamps.checkDirectories(state, since)) return false;
      const child = state.children.get(part);
      if (child === undefined) return !state.dirs.some((dir) => dir?.directories.has(part));
      state = child;
    }
    return false;
  }

  /** Every type is ready; whole-tree questions need it. */
  allNow(since: number): boolean {
    let pending = 0;
    for (const state of this.#tree.types.values()) pending += state.pendingFiles;
    // Few in each of many types are many.
    return pending <= INLINE_FILES && this.#areAllReady(since);
  }

  #areAllReady(since: number): boolean {
    for (const state of this.#tree.types.values()) if (!this.#isReady(state, since)) return false;
    return true;
  }

  /**
   * Brings a type (null: all) to where it can be answered for to whoever began with the observation `since`. An abort
   * ends the waiting; the passes under way are shared, and go on for the others.
   */
  async wait(type: string | null, since: number, o: AbortOptions): Promise<void> {
    o.signal?.throwIfAborted();
    if (type !== null) return this.#waitFor(type, since, o);
    do {
      await this.#forEachType((known) => this.#waitFor(known, since, o));
      o.signal?.throwIfAborted();
      this.observe();
    } while (!this.#areAllReady(since));
  }

  /**
   * Brings every type as far as it can be brought: one that cannot be read keeps no other from its turn.
   * @throws what ends it for all: the index is closed, or its cache is unavailable
   */
  async bringAll(): Promise<void> {
    const since = this.observe();
    await this.#forEachType(async (type) => {
      try {
        await this.#waitFor(type, since, {});
      } catch (error) {
        if (!(error instanceof DefinitionReadError)) throw error;
      }
    });
  }

  /** Those that a sweep discovers come up as well. More and more at once, as long as there is little in them. */
  async #forEachType(bring: (type: string) => Promise<void>): Promise<void> {
    const begun = new Set<string>();
    // Types that are ready, or nearly so, have nothing to wait for.
    const slices = timeSlices(undefined);
    let atOnce = 1;
    let wave: Promise<void>[] = [];
    const finish = async (): Promise<void> => {
      const before = this.passes.filesSeen;
      const { length } = wave;
      await Promise.all(wave);
      wave = [];
      const filesEach = (this.passes.filesSeen - before) / Math.max(1, length);
      atOnce = Math.max(1, Math.min(MOST_AT_ONCE, 2 * atOnce, Math.floor(FILES_AT_ONCE / Math.max(1, filesEach))));
      if (slices.due()) await slices.pause();
    };
    for (let known = -1; known < begun.size; ) {
      known = begun.size;
      for (const type of this.#tree.types.keys()) {
        if (begun.has(type)) continue;
        begun.add(type);
        wave.push(bring(type));
        if (wave.length >= atOnce) await finish();
      }
      await finish();
    }
  }

  async #waitFor(type: string, since: number, o: AbortOptions): Promise<void> {
    const release = this.passes.foresee(type);
    try {
      for (;;) {
        this.#closing.signal.throwIfAborted();
        this.observe();
        const state = this.#firstUnreadyTo(type, since);
        if (state === null) return;
        await abortable(this.passes.bring(state), o.signal);
      }
    } finally {
      release();
    }
  }

  /** On the way from the root down to the type: whoever is not ready must become so before those below it. */
  #firstUnreadyTo(type: string, since: number): TypeState | null {
    let state = this.#tree.top;
    for (const part of type === "" ? [] : type.split("/")) {
      if (!this.#isReady(state, since)) return state;
      const child = state.children.get(part);
      if (child === undefined) return null;
      state = child;
    }
    return this.#isReady(state, since) ? null : state;
  }

  /** This file is not what the index says: look at it again before the next answer. */
  mark(state: TypeState, root: number, filename: string): void {
    state.pending[root]?.add(filename);
  }

  /** Everything known so far is committed when it resolves. */
  flush(): Promise<void> {
    return this.#commits.flush();
  }

  /** Ends what runs, and commits what is known. */
  async close(reason: unknown): Promise<void> {
    this.#closing.abort(reason);
    await this.passes.settled();
    await this.#commits.close();
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

/** The engine without a worker: the same work in slices of a few milliseconds on the calling thread. */
import { Underway } from "../churn.ts";
import type { ExamineOptions } from "../scan/examine.ts";
import { applyFiles } from "./apply.ts";
import {
  type AppliedPlace,
  type ApplyResult,
  asStorageError,
  type IndexEngine,
  type SweepCallbacks,
} from "./engine.ts";
import { SharedCommits } from "./shared-commits.ts";
import type { DefinitionStore, PendingPut } from "./store.ts";
import { type SweepBreather, type SweepResult, type SweepTarget, sweepType } from "./sweep.ts";

/** How much is done at a time. */
export interface Pacing extends Pick<SweepBreather, "hasThread" | "isAwaited" | "filesPerCommit"> {
  sliceMs: number;
  /** A commit flushes; so many changes are worth one. */
  changesPerCommit: number;
}

/** Longer than 4 ms at a time and a server's timers are late; ten thousand files are put in 30 ms. */
const ON_THE_EVENT_LOOP: Pacing = {
  hasThread: false,
  isAwaited: () => true,
  sliceMs: 4,
  changesPerCommit: 1_500,
  filesPerCommit: 10_000,
};
/** Asking the clock at each file would cost as much as the file. */
const FILES_PER_LOOK = 16;

export class InlineEngine implements IndexEngine {
  readonly hasEnded = false;
  readonly #path: string;
  readonly #store: DefinitionStore;
  readonly #commits: SharedCommits;
  readonly #options: ExamineOptions;
  readonly #closing = new AbortController();
  readonly #running = new Underway();

  /** `path`: where the store lies. */
  constructor(path: string, store: DefinitionStore, options: ExamineOptions) {
    this.#path = path;
    this.#store = store;
    this.#commits = new SharedCommits(store, "keep");
    this.#options = options;
  }

  async commit(puts: PendingPut[]): Promise<void> {
    try {
      this.#store.commit(puts);
    } catch (error) {
      throw asStorageError(this.#path, error);
    }
  }

  sweep(target: SweepTarget, callbacks: SweepCallbacks): Promise<SweepResult> {
    return this.#run((breather) => sweepType(this.#store, target, this.#options, breather, this.#stoppable(callbacks)));
  }

  apply(places: readonly AppliedPlace[], callbacks: SweepCallbacks): Promise<ApplyResult> {
    return this.#run((breather) =>
      applyFiles(this.#store, places, this.#options, breather, this.#stoppable(callbacks)),
    );
  }

  #stoppable(callbacks: SweepCallbacks): SweepCallbacks {
    const { signal } = callbacks;
    return {
      ...callbacks,
      signal: signal === undefined ? this.#closing.signal : AbortSignal.any([signal, this.#closing.signal]),
    };
  }

  async #run<T>(work: (breather: SweepBreather) => Promise<T>): Promise<T> {
    try {
      return await this.#running.track(work(new SliceBreather(this.#store, this.#commits)));
    } catch (error) {
      throw asStorageError(this.#path, error);
    }
  }

  async close(): Promise<void> {
    this.#closing.abort(new Error("the index is closing"));
    await this.#running.over();
  }
}

/** Commits what has gathered and yields after each slice. */
export class SliceBreather implements SweepBreather {
  readonly hasThread: boolean;
  readonly isAwaited: () => boolean;
  readonly filesPerCommit: number;
  readonly #store: DefinitionStore;
  readonly #commits: SharedCommits;
  readonly #sliceMs: number;
  readonly #changesPerCommit: number;
  #since = performance.now();
  #files = 0;

  constructor(store: DefinitionStore, commits: SharedCommits, o: Pacing = ON_THE_EVENT_LOOP) {
    this.#store = store;
    this.#commits = commits;
    this.#sliceMs = o.sliceMs;
    this.#changesPerCommit = o.changesPerCommit;
    this.hasThread = o.hasThread;
    this.isAwaited = o.isAwaited;
    this.filesPerCommit = o.filesPerCommit;
  }

  due(): boolean {
    if (++this.#files % FILES_PER_LOOK !== 0) return false;
    return performance.now() - this.#since > this.#sliceMs || this.#store.waiting >= this.#changesPerCommit;
  }

  async pause(): Promise<void> {
    await this.#commits.commit();
    this.#since = performance.now();
  }
}

/** A long list of files worked through in its order, share by share, by this thread and a second one where there is one. */
import type { ReaderTask, ResultOf } from "./reader-work.ts";
import type { SecondReader } from "./second-reader.ts";

/** A millisecond or two of work. */
export const FILES_PER_SHARE = 256;
/** So many shares are given to the other thread ahead: what it does while this one is at one of its own, and more. */
const SHARES_AHEAD = 8;
/** The same before a commit of a hundred thousand files, in which this thread can give out nothing. */
const SHARES_AHEAD_OF_COMMIT = 128;
/** The other thread takes this long for a share only when something is wrong with it. */
const PATIENCE_MS = 50;

interface Share<Task, Result> {
  task: Task;
  result: Result | null;
}

export class Shares<Task extends ReaderTask> {
  readonly #names: readonly string[];
  readonly #second: SecondReader | null;
  readonly #taskOf: (names: readonly string[]) => Task;
  readonly #work: (task: Task) => ResultOf<Task>;
  /** Where the next share begins. */
  #at = 0;
  /** In order. */
  readonly #claimed: Share<Task, ResultOf<Task>>[] = [];
  /** Those that the other thread has, in order. */
  readonly #given: Share<Task, ResultOf<Task>>[] = [];

  /** `work`: how this thread does what {@link taskOf} gives. */
  constructor(
    names: readonly string[],
    o: {
      second: SecondReader | null;
      taskOf: (names: readonly string[]) => Task;
      work: (task: Task) => ResultOf<Task>;
    },
  ) {
    this.#names = names;
    this.#second = o.second;
    this.#taskOf = o.taskOf;
    this.#work = o.work;
  }

  get areDone(): boolean {
    return this.#claimed.length === 0 && this.#at === this.#names.length;
  }

  /**
   * What has come of the next share; nothing comes out of order. This thread does what there is to do until then. Null when
   * all are done, and when the other thread seems to have ended: then let the event loop turn, and ask again.
   */
  next(): ResultOf<Task> | null {
    for (;;) {
      this.#give(SHARES_AHEAD);
      this.#takeFromOther();
      const result = this.nextDone();
      if (result !== null) return result;
      if (!this.doOne() && !this.#waitForOther()) return null;
    }
  }

  /** The same, where it is done already. */
  nextDone(): ResultOf<Task> | null {
    const result = this.#claimed[0]?.result ?? null;
    if (result !== null) this.#claimed.shift();
    return result;
  }

  /** Does a share on this thread; false when none is left. */
  doOne(): boolean {
    const share = this.#lost() ?? this.#claim();
    if (share === null) return false;
    share.result = this.#work(share.task);
    return true;
  }

  /** The other thread has ended before its time: what it has left is done here. */
  #lost(): Share<Task, ResultOf<Task>> | undefined {
    if (this.#second?.hasEnded !== true) return undefined;
    this.#takeFromOther();
    return this.#given.shift();
  }

  #claim(): Share<Task, ResultOf<Task>> | null {
    const names = this.#names.slice(this.#at, this.#at + FILES_PER_SHARE);
    if (names.length === 0) return null;
    this.#at += names.length;
    const share = { task: this.#taskOf(names), result: null };
    this.#claimed.push(share);
    return share;
  }

  /** This thread is going to be busy with something else for some tenths of a second. */
  giveAhead(): void {
    this.#give(SHARES_AHEAD_OF_COMMIT);
  }

  #give(most: number): void {
    const second = this.#second;
    if (second === null || !second.isReady || second.hasEnded) return;
    while (this.#given.length < most) {
      const share = this.#claim();
      if (share === null) return;
      second.give(share.task);
      this.#given.push(share);
    }
  }

  #takeFromOther(): void {
    for (;;) {
      const result = this.#given.length === 0 ? null : (this.#second?.take() ?? null);
      const share = result === null ? undefined : this.#given.shift();
      if (share === undefined) return;
      share.result = result as ResultOf<Task>;
    }
  }

  /** False when there is nothing to wait for, or nothing has come. */
  #waitForOther(): boolean {
    return this.#given.length > 0 && this.#second?.wait(PATIENCE_MS) === true;
  }
}

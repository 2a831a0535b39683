/**
 * Keeps many calls that are made at once from holding the event loop: each takes some microseconds, or a fraction of a
 * millisecond of calls to the file system, and a thousand of them would be one long turn.
 */
import { abortable, type Deferred, deferred } from "../abort.ts";

/** So many that wait are a burst: whoever is in it waits in any case, and what else there is to do must go on meanwhile. */
const BURST = 64;

class Turns {
  readonly #perTurn: number;
  readonly #perTurnOfBurst: number;
  /** Until the last of it has begun. */
  #isBurst = false;
  #begun = 0;
  #scheduled = false;
  readonly #waiting: Deferred<void>[] = [];

  constructor(perTurn: number, perTurnOfBurst = perTurn) {
    this.#perTurn = perTurn;
    this.#perTurnOfBurst = perTurnOfBurst;
  }

  /** Resolves at once for the first few of a turn of the event loop, in order of arrival in later turns for the others. */
  async take(signal: AbortSignal | undefined): Promise<void> {
    this.#scheduleNext();
    if (this.#begun < this.#perTurn) {
      this.#begun++;
      return;
    }
    const turn = deferred<void>();
    this.#waiting.push(turn);
    try {
      await abortable(turn.promise, signal);
    } catch (error) {
      const place = this.#waiting.indexOf(turn);
      if (place >= 0) this.#waiting.splice(place, 1);
      throw error;
    }
  }

  #scheduleNext(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#begun = 0;
      if (this.#waiting.length === 0) {
        this.#isBurst = false;
        return;
      }
      this.#scheduleNext();
      if (this.#waiting.length > BURST) this.#isBurst = true;
      for (const turn of this.#waiting.splice(0, this.#isBurst ? this.#perTurnOfBurst : this.#perTurn)) {
        this.#begun++;
        turn.resolve();
      }
    });
  }
}

/** Before a first look-up that many callers may make at once. Of all repositories of the process, as the next one. */
export const lookupTurns = new Turns(32);
/** Before whatever writes files, which takes half a millisecond and more: those that go together share flushes of the disk. */
export const writeTurns = new Turns(8, 2);

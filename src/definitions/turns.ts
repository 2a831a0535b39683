/**
 * Keeps many calls that are made at once from holding the event loop: each takes some microseconds, or a fraction of a
 * millisecond of calls to the file system, and a thousand of them would be one long turn.
 */
import { abortable, type Deferred, deferred } from "../abort.ts";

class Turns {
  readonly #perTurn: number;
  #begun = 0;
  #scheduled = false;
  readonly #waiting: Deferred<void>[] = [];

  constructor(perTurn: number) {
    this.#perTurn = perTurn;
  }

  /** Null for the first few of a turn of the event loop; for the others, in order of arrival, what they have to wait for. */
  take(signal: AbortSignal | undefined): Promise<void> | null {
    this.#scheduleNext();
    if (this.#begun < this.#perTurn) {
      this.#begun++;
      return null;
    }
    return this.#wait(signal);
  }

  async #wait(signal: AbortSignal | undefined): Promise<void> {
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
      if (this.#waiting.length === 0) return;
      this.#scheduleNext();
      for (const turn of this.#waiting.splice(0, this.#perTurn)) {
        this.#begun++;
        turn.resolve();
      }
    });
  }
}

/** Of all repositories of the process. */
const lookups = new Turns(100);
const writes = new Turns(8);

/** Before a first look-up that many callers may make at once. */
export async function takeLookupTurn(signal: AbortSignal | undefined): Promise<void> {
  const turn = lookups.take(signal);
  if (turn !== null) await turn;
}

/** Before whatever writes files. */
export async function takeWriteTurn(signal: AbortSignal | undefined): Promise<void> {
  const turn = writes.take(signal);
  if (turn !== null) await turn;
}

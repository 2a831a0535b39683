/**
 * Who has a request: one integer per request in flight, in memory that both threads see. The caller may give a request up
 * until the writer takes it, inside the transaction; that exchange is a write's point of no return.
 *
 * One more says whether the caller is in the middle of a turn in which more requests may come: the writer, which begins
 * with the first while the caller still prepares the rest, then waits a moment for them before it commits.
 */
const WAITING = 0;
const TAKEN = 1;
const GIVEN_UP = 2;

const OVER = 0;
const GOES_ON = 1;

export class Slots {
  readonly #states: Int32Array;
  /** Where the turn's integer lies: behind the slots. */
  readonly #turn: number;

  constructor(memory: ArrayBufferLike) {
    this.#states = new Int32Array(memory);
    this.#turn = this.#states.length - 1;
  }

  static memory(slots: number): SharedArrayBuffer {
    return new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT * (slots + 1));
  }

  get size(): number {
    return this.#turn;
  }

  /** The caller's: from now on more may come in this turn. */
  turnBegins(): void {
    Atomics.store(this.#states, this.#turn, GOES_ON);
  }

  /** Something has been sent. */
  turnGoesOn(): void {
    Atomics.notify(this.#states, this.#turn);
  }

  turnIsOver(): void {
    Atomics.store(this.#states, this.#turn, OVER);
    Atomics.notify(this.#states, this.#turn);
  }

  /** The writer's: true when something may have come, false when the turn is over or takes longer than `ms`. */
  waitForMore(ms: number): boolean {
    return Atomics.wait(this.#states, this.#turn, GOES_ON, ms) === "ok";
  }

  reset(slot: number): void {
    Atomics.store(this.#states, slot, WAITING);
  }

  /** The writer's: false when it was given up. */
  take(slot: number): boolean {
    return Atomics.compareExchange(this.#states, slot, WAITING, TAKEN) === WAITING;
  }

  /** The caller's: false when it was taken. */
  giveUp(slot: number): boolean {
    return Atomics.compareExchange(this.#states, slot, WAITING, GIVEN_UP) === WAITING;
  }

  isGivenUp(slot: number): boolean {
    return Atomics.load(this.#states, slot) === GIVEN_UP;
  }
}

/**
 * Who has a request: one integer per request in flight, in memory that both threads see. The caller may give a request up
 * until the writer takes it, inside the transaction; that exchange is a write's point of no return.
 */
const WAITING = 0;
const TAKEN = 1;
const GIVEN_UP = 2;

export class Slots {
  readonly #states: Int32Array;

  constructor(memory: ArrayBufferLike) {
    this.#states = new Int32Array(memory);
  }

  get size(): number {
    return this.#states.length;
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

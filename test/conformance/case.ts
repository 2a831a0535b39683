/** One promise of an interface, in a form that any test runner can be given. */
export interface ConformanceCase {
  /** The promise. */
  readonly name: string;
  /** Rejects when it is not kept. */
  run(): Promise<void>;
}

/** Numbers from 0 to below `limit`, the same in every run: what fails once fails again. */
export function numbers(seed: number): (limit: number) => number {
  let state = seed >>> 0;
  return (limit) => {
    // Mulberry32.
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
  };
}

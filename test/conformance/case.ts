/** One promise of an interface, in a form that any test runner can be given. */
export interface ConformanceCase {
  /** The promise. */
  readonly name: string;
  /** Rejects when it is not kept. */
  run(): Promise<void>;
}

/**
 * Sees whether a promise is kept on a place of its own, then closes what was opened there and lets the place go, come what
 * may. @throws whatever failed first
 */
export async function keptOn(
  subject: { remove?(): Promise<void> },
  keep: (opened: <H extends AsyncDisposable>(opening: Promise<H>) => Promise<H>) => Promise<void>,
): Promise<void> {
  const openings: Promise<AsyncDisposable>[] = [];
  const steps = [
    () =>
      keep((opening) => {
        openings.push(later(opening));
        return opening;
      }),
    async () => {
      const handles = (await Promise.allSettled(openings)).flatMap((each) =>
        each.status === "fulfilled" ? [each.value] : [],
      );
      await allOf(handles.map((handle) => async () => handle[Symbol.asyncDispose]()));
    },
    async () => subject.remove?.(),
  ];
  const failures: unknown[] = [];
  for (const step of steps) await step().catch((error: unknown) => failures.push(error));
  if (failures.length > 0) throw failures[0];
}

/** Of what is waited for later: until then its failure is nobody's, and would end the process. */
export function later<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}

/** Begins all at once, and waits for all, also when one fails. @throws what the first that failed did */
export async function allOf<T>(calls: readonly (() => Promise<T>)[]): Promise<T[]> {
  const outcomes = await outcomesOf(calls);
  return outcomes.map((outcome) => {
    if (outcome.status === "rejected") throw outcome.reason;
    return outcome.value;
  });
}

/** How each ends that is begun at once; one that throws instead of rejecting keeps no other from being begun. */
export function outcomesOf<T>(calls: readonly (() => Promise<T>)[]): Promise<PromiseSettledResult<T>[]> {
  return Promise.allSettled(calls.map(async (call) => call()));
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

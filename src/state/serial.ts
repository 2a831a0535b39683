/**
 * Calls on one id run one after another, in the order in which they were made; calls on different ids side by side.
 * Not for safety (compare-and-set gives that), but so that calls of one process do not make each other start over.
 */
import { abortable } from "../abort.ts";
import { KeyTable } from "../churn.ts";

export class Serial {
  readonly #last = new KeyTable<Promise<unknown>>();

  /** Aborted before its turn: rejects with `signal.reason`, and `fn` never runs. */
  run<T>(id: string, signal: AbortSignal | undefined, fn: () => Promise<T>): Promise<T> {
    const before = this.#last.get(id);
    const turn = before === undefined ? fn() : waitThen(before, signal, fn);
    // Who comes next waits for this call and, should it be aborted while it waits, for those before it.
    const done = before === undefined ? turn : Promise.allSettled([before, turn]);
    this.#last.set(id, done);
    const leave = (): void => {
      if (this.#last.get(id) === done) this.#last.delete(id);
    };
    done.then(leave, leave);
    return turn;
  }
}

async function waitThen<T>(
  before: Promise<unknown>,
  signal: AbortSignal | undefined,
  fn: () => Promise<T>,
): Promise<T> {
  await abortable(
    before.then(
      () => {},
      () => {},
    ),
    signal,
  );
  return fn();
}

/** Synchronous work on the main thread, cut into slices so that nothing else waits long and an abort is heard at once. */
import { setImmediate } from "node:timers";

/** The next turn of the event loop: between two pieces of work that would otherwise hold it. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** The longest that a slice holds the event loop, in milliseconds, but for the step that it is in. */
const SLICE_MS = 4;

export interface Slices {
  /** Whether the slice is used up: then await {@link Slices.pause}. Cheap enough to ask at every step. */
  due(): boolean;
  /** Lets the event loop turn once, then begins a new slice. Rejects with the signal's reason when it has aborted. */
  pause(): Promise<void>;
}

export function timeSlices(signal: AbortSignal | undefined): Slices {
  let endsAt = performance.now() + SLICE_MS;
  return {
    due: () => performance.now() >= endsAt,
    async pause() {
      await nextTurn();
      signal?.throwIfAborted();
      endsAt = performance.now() + SLICE_MS;
    },
  };
}

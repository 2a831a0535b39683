/**
 * Keeps many writes that begin at once from holding the event loop: each takes a fraction of a millisecond of calls to the
 * file system, and a thousand of them would be one long turn.
 */
import { abortable, type Deferred, deferred } from "../abort.ts";

const PER_TURN = 8;

let begun = 0;
let scheduled = false;
const waiting: Deferred<void>[] = [];

/** Resolves at once for the first few of a turn of the event loop, in order of arrival in later turns for the others. */
export async function takeTurn(signal: AbortSignal | undefined): Promise<void> {
  scheduleNext();
  if (begun < PER_TURN) {
    begun++;
    return;
  }
  const turn = deferred<void>();
  waiting.push(turn);
  try {
    await abortable(turn.promise, signal);
  } catch (error) {
    const place = waiting.indexOf(turn);
    if (place >= 0) waiting.splice(place, 1);
    throw error;
  }
}

function scheduleNext(): void {
  if (scheduled) return;
  scheduled = true;
  setImmediate(() => {
    scheduled = false;
    begun = 0;
    if (waiting.length === 0) return;
    scheduleNext();
    for (const turn of waiting.splice(0, PER_TURN)) {
      begun++;
      turn.resolve();
    }
  });
}

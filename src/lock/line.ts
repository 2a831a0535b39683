/** Lines within a process: one at a time inside each, the others in order of arrival. */
import { abortable, type Deferred, deferred } from "../abort.ts";
import { KeyTable } from "../churn.ts";

const lines = new KeyTable<Deferred<void>[]>();

/** Waits for its turn; returns how to leave. Aborted before: rejects with `signal.reason`, and is out of the line. */
export async function enterLine(key: string, signal?: AbortSignal): Promise<() => void> {
  const line = lines.get(key);
  if (line === undefined) {
    signal?.throwIfAborted();
    lines.set(key, []);
    return () => callNext(key);
  }
  const turn = deferred<void>();
  line.push(turn);
  try {
    await abortable(turn.promise, signal);
  } catch (error) {
    const place = line.indexOf(turn);
    if (place >= 0) line.splice(place, 1);
    else callNext(key); // Its turn came in the instant of the abort.
    throw error;
  }
  return () => callNext(key);
}

function callNext(key: string): void {
  const next = lines.get(key)?.shift();
  if (next === undefined) lines.delete(key);
  else next.resolve();
}

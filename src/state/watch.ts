/** Transitions from now on, of every process, none left out. */
import { abortable, deferred } from "../abort.ts";
import { WatchLaggedError } from "../errors.ts";
import type { Kit } from "./kit.ts";
import type { StateTransition, WatchOptions } from "./model.ts";
import { CHANGES_KEPT, type ChangeMark, type StoredChange } from "./record-store.ts";

/** Read at a time; what is not consumed yet stays in the store. */
const PAGE = 256;

export function toTransition<D, S extends string>(kit: Kit<D, S>, change: StoredChange): StateTransition<D, S> {
  const record = kit.record(change.row);
  return { sequence: change.seq, id: record.id, from: change.previous as S | null, to: record.state, record };
}

/**
 * "Now" is the call, not the first `next()`. Changes of this process come at once, those of another soon. Ends
 * when `stop` aborts, and with the signal's reason when that does; a `break` leaves nothing behind.
 */
export function watch<D, S extends string>(
  kit: Kit<D, S>,
  o: WatchOptions<S>,
  stop: AbortSignal,
): AsyncIterableIterator<StateTransition<D, S>> {
  const states = o.states === undefined ? null : kit.rules.checkStates(o.states);
  const left = new AbortController();
  const now = kit.store.lastChange(kit.scope(o.signal));
  now.catch(() => {}); // Thrown by the first next().
  const changes = follow(kit, now, o.signal, AbortSignal.any([stop, left.signal]));
  const transitions = select(kit, changes, states);
  return {
    next: () => transitions.next(),
    // A generator would first wait for the change that its pending next() waits for.
    return: () => {
      left.abort();
      return transitions.return(undefined);
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

async function* select<D, S extends string>(
  kit: Kit<D, S>,
  changes: AsyncIterable<StoredChange>,
  states: readonly string[] | null,
): AsyncGenerator<StateTransition<D, S>, undefined> {
  for await (const change of changes) {
    if (states === null || states.includes(change.row.state)) yield toTransition(kit, change);
  }
}

async function* follow<D, S extends string>(
  kit: Kit<D, S>,
  from: Promise<ChangeMark>,
  signal: AbortSignal | undefined,
  stop: AbortSignal,
): AsyncGenerator<StoredChange, undefined> {
  try {
    for (let after = await abortable(from, signal); ; ) {
      const found = await look(kit, after, signal, stop);
      if (found === null) return;
      after = found.upTo;
      for (const change of found.changes) {
        if (stop.aborted) return;
        signal?.throwIfAborted();
        yield change;
      }
    }
  } catch (error) {
    // What it was waiting for was ended with the index.
    if (!stop.aborted) throw error;
  }
}

/** Waits until there is something behind `from`; null when told to stop. */
async function look<D, S extends string>(
  kit: Kit<D, S>,
  from: ChangeMark,
  signal: AbortSignal | undefined,
  stop: AbortSignal,
): Promise<{ changes: StoredChange[]; upTo: ChangeMark } | null> {
  let bell: Bell | null = null;
  try {
    for (let after = from; ; ) {
      if (stop.aborted) return null;
      const found = await kit.store.changes(after, PAGE, kit.scope(signal));
      if (found === null) throw new WatchLaggedError(kit.rules.name, CHANGES_KEPT);
      if (found.changes.length > 0) return found;
      // What changes in other indexes does not make it lag.
      after = found.upTo;
      // Once the bell hangs, look again: what was committed in between is not slept over.
      if (bell === null) bell = new Bell(kit, [signal, stop]);
      else await bell.rings();
    }
  } finally {
    bell?.close();
  }
}

/** Rings at each commit, and when one of the signals aborts. */
class Bell {
  readonly #unsubscribe: () => void;
  readonly #signals: readonly (AbortSignal | undefined)[];
  readonly #ring = (): void => {
    this.#rung.resolve();
  };
  #rung = deferred<void>();

  constructor(kit: Pick<Kit<never, never>, "store">, signals: readonly (AbortSignal | undefined)[]) {
    this.#unsubscribe = kit.store.subscribe(this.#ring, { keepAlive: true });
    this.#signals = signals;
    for (const signal of signals) signal?.addEventListener("abort", this.#ring);
  }

  async rings(): Promise<void> {
    await this.#rung.promise;
    this.#rung = deferred<void>();
  }

  close(): void {
    this.#unsubscribe();
    for (const signal of this.#signals) signal?.removeEventListener("abort", this.#ring);
  }
}

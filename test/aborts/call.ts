/** A public asynchronous call as the test of all of them sees it. */

/**
 * Says that the call has come to a moment of its own: a callback of the caller's, an item handed out; and, where that is
 * sure, on which side of the point of no return it is.
 */
export type Reached = (side?: "before" | "after") => void;

/** One use of a call, on data of its own. `Seen` is what a bystander sees of all that the call may change. */
export interface Attempt<Value = unknown, Seen = unknown> {
  call(signal: AbortSignal | undefined, reached: Reached): Promise<Value>;
  look(): Seen | Promise<Seen>;
  /** Throws unless the answer is right, and says what has become of `before`. */
  check(value: Value, seen: Seen, before: Seen): void;
  /** Whether all that was asked for is there. Default: it is, as for a call that only reads. */
  done?(seen: Seen, before: Seen): boolean;
  /** For a call that an abort cuts short instead of undoing it: throws unless what it leaves is right. */
  cutShort?(seen: Seen): void;
  /** Takes away what would disturb the next. */
  end?(): void | Promise<void>;
}

export interface Call<World> {
  prepare(world: World, n: number): Attempt | Promise<Attempt>;
  /** It has settled before the event loop turns: only before the call is there anything to abort. */
  atOnce?: true;
  /** Aborted after its point of no return, it stops between two parts and says what it has done. */
  inParts?: true;
  /** It takes so long that fewer points must do. */
  sparse?: true;
  /** How many of the calls with one signal are of this one. Default: 20. */
  repeats?: number;
}

/** The calls on one kind of object, by `Interface.method` or the function's name; behind a comma: in which case. */
export interface Room<World> {
  name: string;
  open(dir: string): World | Promise<World>;
  close(world: World): void | Promise<void>;
  /** What a call may leave behind that does not show in this process. */
  left?(world: World): Promise<string[]>;
  calls: Record<string, Call<World>>;
}

/** Keeps what an attempt looks at typed, and forgets the types. */
export function attempt<Value, Seen>(of: Attempt<Value, Seen>): Attempt {
  return of as unknown as Attempt;
}

/** A call that only reads: there is nothing to be seen of it but its answer. */
export function reading<Value>(
  call: (signal: AbortSignal | undefined, reached: Reached) => Promise<Value>,
  check: (value: Value) => void,
  end?: () => void,
): Attempt {
  return attempt({ call, look: () => null, check, ...(end === undefined ? {} : { end }) });
}

/** All that an iteration yields; each item is a moment. */
export async function iterate<T>(items: AsyncIterable<T>, reached: Reached): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) {
    all.push(item);
    reached();
  }
  return all;
}

export async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
}

/** The options that a call gets. */
export function having(signal: AbortSignal | undefined): { signal?: AbortSignal } {
  return signal === undefined ? {} : { signal };
}

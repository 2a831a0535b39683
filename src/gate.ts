/**
 * Keeps a thread from being ended where that would harm the process. Inside a call of the FFI it takes the whole process with it
 * on Node (koffi throws into an environment that is going down: "FATAL ERROR: Error::ThrowAsJavaScriptException
 * napi_throw"); inside a transaction of LMDB it leaves a lock that its own end then waits for, and the process with it. One integer
 * that both threads see: the worker goes through the gate each time, and whoever ends it shuts the gate first. Two more count
 * what the worker was asked for and what it has heard of: while they differ, somebody waits for it to come out.
 */
const OPEN = 0;
const INSIDE = 1;
const SHUT = 2;

const STATE = 0;
const ASKED = 1;
const HEARD = 2;
const NUMBERS = 3;

export class Gate {
  readonly #shared: Int32Array;

  constructor(memory: ArrayBufferLike) {
    this.#shared = new Int32Array(memory);
  }

  /** The worker's. @throws when the gate is shut: then the thread is being ended */
  through<T>(call: () => T): T {
    this.enter();
    try {
      return call();
    } finally {
      this.leave();
    }
  }

  /** The worker's: {@link leave} follows, whatever happens between. @throws as {@link through} */
  enter(): void {
    if (Atomics.compareExchange(this.#shared, STATE, OPEN, INSIDE) !== OPEN)
      throw new Error("the thread is being ended");
  }

  leave(): void {
    Atomics.store(this.#shared, STATE, OPEN);
  }

  /** The caller's, before it sends a message: the worker will be asked for something. */
  asks(): void {
    Atomics.add(this.#shared, ASKED, 1);
  }

  /** The worker's, at each message. */
  heard(): void {
    Atomics.add(this.#shared, HEARD, 1);
  }

  /** The worker's, inside: whether it had better come out soon. */
  get isAwaited(): boolean {
    return Atomics.load(this.#shared, ASKED) !== Atomics.load(this.#shared, HEARD);
  }

  /** For good, when the thread has ended. */
  get isInside(): boolean {
    return Atomics.load(this.#shared, STATE) === INSIDE;
  }

  static memory(): SharedArrayBuffer {
    return new SharedArrayBuffer(NUMBERS * Int32Array.BYTES_PER_ELEMENT);
  }

  /** The caller's: true when the thread is outside, where it stays. Else try again. */
  shut(): boolean {
    this.asks(); // It will never hear of it.
    return Atomics.compareExchange(this.#shared, STATE, OPEN, SHUT) !== INSIDE;
  }
}

/** Gates to shut when the process exits, which ends its threads wherever they are. */
const gates = new Set<Gate>();

/** A call of the FFI takes microseconds, loading it 30 ms; a commit takes as long as the disk does. */
const PATIENCE_MS = 10_000;

function shutAll(): void {
  const until = performance.now() + PATIENCE_MS;
  for (const gate of gates) while (!gate.shut() && performance.now() < until);
}

export function shutAtExit(gate: Gate): void {
  if (gates.size === 0) process.on("exit", shutAll);
  gates.add(gate);
}

/** The thread is gone. */
export function forget(gate: Gate): void {
  gates.delete(gate);
  if (gates.size === 0) process.off("exit", shutAll);
}

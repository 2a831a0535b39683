/**
 * Keeps a thread from being ended where that would harm the process. Inside a call of the FFI it takes the whole process with it
 * on Node (koffi throws into an environment that is going down: "FATAL ERROR: Error::ThrowAsJavaScriptException
 * napi_throw"); inside a transaction of LMDB it leaves a lock that its own end then waits for, and the process with it. One integer
 * that both threads see: the worker goes through the gate each time, and whoever ends it shuts the gate first.
 */
const OPEN = 0;
const INSIDE = 1;
const SHUT = 2;

export class Gate {
  readonly #state: Int32Array;

  constructor(memory: ArrayBufferLike) {
    this.#state = new Int32Array(memory);
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
    if (Atomics.compareExchange(this.#state, 0, OPEN, INSIDE) !== OPEN) throw new Error("the thread is being ended");
  }

  leave(): void {
    Atomics.store(this.#state, 0, OPEN);
  }

  /** For good, when the thread has ended. */
  get isInside(): boolean {
    return Atomics.load(this.#state, 0) === INSIDE;
  }

  static memory(): SharedArrayBuffer {
    return new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  }

  /** The caller's: true when the thread is outside, where it stays. Else try again. */
  shut(): boolean {
    return Atomics.compareExchange(this.#state, 0, OPEN, SHUT) !== INSIDE;
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

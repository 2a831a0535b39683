/**
 * Keeps a thread from being ended inside a call of the FFI, which on Node takes the whole process with it (koffi throws into
 * an environment that is going down: "FATAL ERROR: Error::ThrowAsJavaScriptException napi_throw"). One integer that both
 * threads see: the worker goes through the gate for each such call, and whoever ends it shuts the gate first.
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
    if (Atomics.compareExchange(this.#state, 0, OPEN, INSIDE) !== OPEN) throw new Error("the thread is being ended");
    try {
      return call();
    } finally {
      Atomics.store(this.#state, 0, OPEN);
    }
  }

  /** The caller's: true when the thread is outside, where it stays. Else try again: a call takes microseconds. */
  shut(): boolean {
    return Atomics.compareExchange(this.#state, 0, OPEN, SHUT) !== INSIDE;
  }
}

/** Gates to shut when the process exits, which ends its threads wherever they are. */
const gates = new Set<Gate>();

/** Loading the FFI takes the longest, about 30 ms. */
const PATIENCE_MS = 200;

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

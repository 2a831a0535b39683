/** Turns of the event loop, and how long they take. */
import { clearTimeout, setImmediate, setTimeout } from "node:timers";

/** What others have asked for meanwhile comes first, as with an answer that goes out through a socket. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** How late a timer of a millisecond fires: for so long the event loop has served nobody. */
export class LoopDelay implements Disposable {
  /** Milliseconds. */
  worst = 0;
  #timer: NodeJS.Timeout;

  constructor() {
    this.#timer = this.#next();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }

  #next(): NodeJS.Timeout {
    const due = performance.now() + 1;
    return setTimeout(() => {
      this.worst = Math.max(this.worst, performance.now() - due);
      this.#timer = this.#next();
    }, 1);
  }
}

import type { Deferred } from "../abort.ts";
import type { Seat } from "../churn.ts";
import { Ticket } from "./lines.ts";
import type { Enclosing } from "./nesting.ts";

/** One call of `run`, from its acceptance until it has settled. Times are on the clock of `performance.now()`. */
export class Transition extends Ticket implements Enclosing {
  readonly queue: object;
  readonly outer: Enclosing | undefined;
  running = false;
  enteredAt = 0;
  startedAt = 0;
  reportedSlow = false;
  /** Ends its waiting; null when it has not had to wait. */
  turn: Deferred<void> | null = null;
  /** Among those of its queue that wait, or that run; null before and after. */
  seat: Seat<Transition> | null = null;
  /** Among those that lack a slot only. */
  slotSeat: Seat<Transition> | null = null;

  constructor(keys: readonly string[], queue: object, outer: Enclosing | undefined) {
    super(keys);
    this.queue = queue;
    this.outer = outer;
  }

  /** Milliseconds between the call and the start. */
  get waitedMs(): number {
    return this.turn === null ? 0 : this.startedAt - this.enteredAt;
  }
}

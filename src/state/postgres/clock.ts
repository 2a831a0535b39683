/**
 * The database's clock, read between two answers of it: every answer says what time it was there while it was made, which
 * lies between the asking and the receiving. This machine's own clock plays no part; what goes on between two answers is
 * measured by `performance.now()`, which never jumps.
 */

/** How far a quartz runs from another, in milliseconds per millisecond. */
const DRIFT = 0.000_2;

export class DatabaseClock {
  /** The database's time less that of `performance.now()` lies between these. */
  #least = Number.NEGATIVE_INFINITY;
  #most = Number.POSITIVE_INFINITY;
  #observedAt = 0;

  /** An answer that says `time` (epoch milliseconds), asked for and received at these times of `performance.now()`. */
  observe(askedAt: number, receivedAt: number, time: number): void {
    const drift = (receivedAt - this.#observedAt) * DRIFT;
    const least = time - receivedAt;
    const most = time - askedAt;
    this.#least = Math.max(this.#least - drift, least);
    this.#most = Math.min(this.#most + drift, most);
    this.#observedAt = receivedAt;
    // What was known cannot be true any more: the database's clock was set, or it is another server.
    if (this.#least > this.#most) [this.#least, this.#most] = [least, most];
  }

  /** Whole epoch milliseconds. */
  now(): number {
    return Math.floor(performance.now() + (this.#least + this.#most) / 2);
  }
}

/** Prepares the next piece of work while the last one is still being written: one under way at a time, in order. */
export class Ahead {
  #last: Promise<void> = Promise.resolve();

  /** Waits for the piece before, then starts this one. @throws what the piece before threw */
  async run(piece: () => Promise<void>): Promise<void> {
    await this.#last;
    this.#last = piece();
    this.#last.catch(() => {}); // Thrown to whoever waits next.
  }

  /** @throws what the last piece threw */
  settled(): Promise<void> {
    return this.#last;
  }
}

/** What a scan has found and its caller has not yet taken: the two ends of an async iterator. */
import { type Deferred, deferred } from "../abort.ts";

export class Results<T> {
  /** Called after something was taken. */
  onTaken: () => void = () => {};
  #found: T[] = [];
  #taken = 0;
  readonly #asking: Deferred<IteratorResult<T, undefined>>[] = [];
  #outcome: { error: unknown } | "complete" | null = null;
  /** The end, or an error, has been handed out. */
  #isOver = false;

  get waiting(): number {
    return this.#found.length - this.#taken;
  }

  push(result: T): void {
    const asking = this.#asking.shift();
    if (asking === undefined) this.#found.push(result);
    else asking.resolve({ done: false, value: result });
  }

  take(): Promise<IteratorResult<T, undefined>> {
    if (this.#taken < this.#found.length) {
      const value = this.#found[this.#taken++] as T;
      if (this.#taken === this.#found.length) this.drop();
      this.onTaken();
      return Promise.resolve({ done: false, value });
    }
    if (this.#outcome === null) {
      const asking = deferred<IteratorResult<T, undefined>>();
      this.#asking.push(asking);
      return asking.promise;
    }
    const outcome = this.#outcome;
    this.#outcome = "complete";
    this.#isOver = true;
    return outcome === "complete" ? Promise.resolve(END) : Promise.reject(outcome.error);
  }

  /** No more will come; what is there can still be taken. */
  close(): void {
    this.#outcome ??= "complete";
    this.#endAsking();
  }

  /** The next call of `take` rejects, and what is there is dropped; nothing when all has been handed out before. */
  fail(error: unknown): void {
    if (this.#isOver) return;
    this.drop();
    const first = this.#asking.shift();
    this.#outcome = first === undefined ? { error } : "complete";
    first?.reject(error);
    if (first !== undefined) this.#isOver = true;
    this.#endAsking();
  }

  /** The caller wants no more, and is to hear of nothing. */
  leave(): void {
    this.drop();
    this.#outcome = "complete";
    this.#isOver = true;
    this.#endAsking();
  }

  #endAsking(): void {
    if (this.#asking.length > 0) this.#isOver = true;
    for (const asking of this.#asking.splice(0)) asking.resolve(END);
  }

  /** Forgets what is there. */
  drop(): void {
    this.#found = [];
    this.#taken = 0;
  }
}

const END: IteratorReturnResult<undefined> = { done: true, value: undefined };

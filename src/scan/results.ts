/** What a scan has found and its caller has not yet taken: the two ends of an async iterator. */
import { type Deferred, deferred } from "../abort.ts";

export class Results<T> {
  /** Called after something was taken. */
  onTaken: () => void = () => {};
  #found: T[] = [];
  #taken = 0;
  readonly #asking: Deferred<IteratorResult<T, undefined>>[] = [];
  #outcome: { error: unknown } | "complete" | null = null;

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
    return outcome === "complete" ? Promise.resolve(END) : Promise.reject(outcome.error);
  }

  /** No more will come; what is there can still be taken. */
  close(): void {
    this.#outcome ??= "complete";
    for (const asking of this.#asking.splice(0)) asking.resolve(END);
  }

  /** The next call of `take` rejects, and what is there is dropped. */
  fail(error: unknown): void {
    this.drop();
    const [first, ...others] = this.#asking.splice(0);
    this.#outcome = first === undefined ? { error } : "complete";
    first?.reject(error);
    for (const asking of others) asking.resolve(END);
  }

  /** Forgets what is there. */
  drop(): void {
    this.#found = [];
    this.#taken = 0;
  }
}

const END: IteratorReturnResult<undefined> = { done: true, value: undefined };

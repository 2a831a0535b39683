/** Where the time of a request went. */
export class Stages {
  /** Milliseconds by stage. A stage that comes again adds to what it has. */
  readonly took = new Map<string, number>();
  readonly #onMark: ((stage: string) => void) | undefined;
  #since = performance.now();

  /** `onMark` is called at the end of each stage. */
  constructor(onMark?: (stage: string) => void) {
    this.#onMark = onMark;
  }

  /** The stage that began with the end of the one before is over. */
  mark(stage: string): void {
    const now = performance.now();
    this.took.set(stage, (this.took.get(stage) ?? 0) + now - this.#since);
    this.#since = now;
    this.#onMark?.(stage);
  }
}

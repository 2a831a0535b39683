/** One call of the library as telemetry sees it: a span and a point in the histogram of its durations. */
import { durations } from "./metrics.ts";
import type { ApiHistogram, Attributes, AttributeValue, SpanContext } from "./registry.ts";
import { registry } from "./registry.ts";
import { errorType, type Span, startSpan } from "./span.ts";

export interface OperationKind {
  /**
   * Starts the clock and the span; null when no SDK is registered, and then nothing has been allocated. `parent` defaults
   * to the active span.
   */
  start(parent?: Operation | SpanContext | null): Operation | null;
}

/** A call under way, until the first `end` or `fail`; what comes after that is ignored. */
export interface Operation {
  set(name: string, value: AttributeValue): void;
  /** Runs `fn` with the span of this operation active, so that spans started inside are its children. */
  run<R>(fn: () => R): R;
  /** To hand to a worker as the parent of its spans; undefined when only metrics are collected. */
  context(): SpanContext | undefined;
  end(): void;
  /** Ends it as failed. An abort is no failure of ours, but is recorded by its name all the same. */
  fail(error: unknown): void;
}

/**
 * `name` is the span's; the histogram is `{name}.duration`, in seconds. Only the attributes named in `dimensions` go into
 * the histogram: they must have few values, which a path or an id has not.
 */
export function operation(name: string, description: string, dimensions: readonly string[]): OperationKind {
  const duration = durations(`${name}.duration`, description);
  return {
    start(parent) {
      if (registry() === undefined) return null;
      const span = startSpan(name, undefined, parent instanceof TimedOperation ? parent.span : (parent as SpanContext));
      const histogram = duration.active();
      return span === null && histogram === null ? null : new TimedOperation(span, histogram, dimensions);
    },
  };
}

class TimedOperation implements Operation {
  readonly span: Span | null;
  readonly #startedAt = performance.now();
  readonly #duration: ApiHistogram | null;
  readonly #dimensions: readonly string[];
  readonly #attributes: Attributes = {};
  #ended = false;

  constructor(span: Span | null, duration: ApiHistogram | null, dimensions: readonly string[]) {
    this.span = span;
    this.#duration = duration;
    this.#dimensions = dimensions;
  }

  set(name: string, value: AttributeValue): void {
    this.span?.set(name, value);
    if (this.#dimensions.includes(name)) this.#attributes[name] = value;
  }

  run<R>(fn: () => R): R {
    return this.span === null ? fn() : this.span.run(fn);
  }

  context(): SpanContext | undefined {
    return this.span?.context();
  }

  end(): void {
    if (this.#record()) this.span?.end();
  }

  fail(error: unknown): void {
    if (!this.#ended) this.#attributes["error.type"] = errorType(error);
    if (this.#record()) this.span?.fail(error);
  }

  #record(): boolean {
    if (this.#ended) return false;
    this.#ended = true;
    this.#duration?.record((performance.now() - this.#startedAt) / 1000, this.#attributes);
    return true;
  }
}

/**
 * Where an OpenTelemetry SDK makes itself known.
 *
 * Every copy of `@opentelemetry/api` 1.x keeps what is registered under one global symbol, so that copies of different
 * versions, and runtimes that come with telemetry of their own (Deno with `OTEL_DENO=true`), meet there. Reading it asks
 * for no package: nothing to resolve, so bundles work; an SDK registered late is noticed at the next call; and with none
 * a check costs one property read, about 6 ns.
 *
 * The interfaces are the part of the API's own that is used here, so that our types need no package either. A test holds
 * them against `@opentelemetry/api`.
 */

export type AttributeValue = string | number | boolean;
export type Attributes = Record<string, AttributeValue>;

/** What identifies a span across threads and machines; plain data, so it may be posted to a worker. */
export interface SpanContext {
  traceId: string;
  spanId: string;
  traceFlags: number;
}

export interface ApiSpan {
  spanContext(): SpanContext;
  setAttribute(name: string, value: AttributeValue): unknown;
  setStatus(status: { code: number; message?: string }): unknown;
  recordException(error: Error | string): void;
  isRecording(): boolean;
  end(): void;
}

export interface ApiContext {
  getValue(key: symbol): unknown;
  setValue(key: symbol, value: unknown): ApiContext;
  deleteValue(key: symbol): ApiContext;
}

export interface ApiTracer {
  startSpan(name: string, options: { attributes?: Attributes }, context: ApiContext): ApiSpan;
}

export interface ApiHistogram {
  record(value: number, attributes?: Attributes): void;
}

export interface ApiCounter {
  add(value: number, attributes?: Attributes): void;
}

export interface ObservableResult {
  observe(value: number, attributes?: Attributes): void;
}

export interface ApiObservable {
  addCallback(callback: (result: ObservableResult) => void | Promise<void>): void;
}

export interface InstrumentOptions {
  description?: string;
  /** UCUM, such as `s`, `By` or `{transition}`. */
  unit?: string;
  advice?: { explicitBucketBoundaries?: number[] };
}

export interface ApiMeter {
  createHistogram(name: string, options?: InstrumentOptions): ApiHistogram;
  createCounter(name: string, options?: InstrumentOptions): ApiCounter;
  createObservableGauge(name: string, options?: InstrumentOptions): ApiObservable;
}

export interface Registry {
  trace?: { getTracer(name: string, version?: string): ApiTracer };
  metrics?: { getMeter(name: string, version?: string): ApiMeter };
  context?: {
    active(): ApiContext;
    with<R>(context: ApiContext, fn: () => R): R;
  };
}

const REGISTRY = Symbol.for("opentelemetry.js.api.1");

/** What is registered in this realm at this moment; undefined before anything was. */
export function registry(): Registry | undefined {
  return (globalThis as { [REGISTRY]?: Registry })[REGISTRY];
}

/** Whether anybody collects spans or metrics. */
export function isObserved(): boolean {
  const registered = registry();
  return registered?.trace !== undefined || registered?.metrics !== undefined;
}

/** The name and version under which all spans and instruments of this library appear. */
export const SCOPE = "tussock";

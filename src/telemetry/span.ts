/** Spans with the right parent: across awaits through the SDK's context manager, across threads by handing it over. */
import { VERSION } from "../version.ts";
import {
  type ApiContext,
  type ApiSpan,
  type ApiTracer,
  type Attributes,
  type AttributeValue,
  type Registry,
  registry,
  SCOPE,
  type SpanContext,
} from "./registry.ts";

/** A started span. End it exactly once; what comes after that is ignored by the SDK. */
export interface Span {
  set(name: string, value: AttributeValue): void;
  /** Runs `fn` with this span as the active one: spans started inside, also after its awaits, are its children. */
  run<R>(fn: () => R): R;
  /** Hand this to a worker and there to {@link startSpan} as the parent. */
  context(): SpanContext;
  end(): void;
  /** Ends it as failed, with the error recorded. */
  fail(error: unknown): void;
}

export type Parent = Span | SpanContext;

/**
 * Starts a span, or returns null when no SDK is registered; then nothing has been allocated, and `span?.set(…)` does not
 * evaluate its arguments. `parent` defaults to the active span.
 */
export function startSpan(name: string, attributes?: Attributes | null, parent?: Parent | null): Span | null {
  const registered = registry();
  if (registered?.trace === undefined) return null;
  return new ApiBackedSpan(registered, registered.trace, name, attributes, parent);
}

/** The key under which the API keeps the active span in a context: the same in every 1.x copy of it. */
const SPAN_KEY = Symbol.for("OpenTelemetry Context Key SPAN");
const ERROR_STATUS = 2;

class ApiBackedSpan implements Span {
  readonly #registered: Registry;
  readonly #context: ApiContext;
  readonly #span: ApiSpan;

  constructor(
    registered: Registry,
    provider: NonNullable<Registry["trace"]>,
    name: string,
    attributes: Attributes | null | undefined,
    parent: Parent | null | undefined,
  ) {
    const parentContext = contextOf(registered, parent);
    this.#registered = registered;
    this.#span = tracerOf(provider).startSpan(name, attributes == null ? {} : { attributes }, parentContext);
    this.#context = parentContext.setValue(SPAN_KEY, this.#span);
  }

  set(name: string, value: AttributeValue): void {
    this.#span.setAttribute(name, value);
  }

  run<R>(fn: () => R): R {
    const manager = this.#registered.context;
    return manager === undefined ? fn() : manager.with(this.#context, fn);
  }

  context(): SpanContext {
    const { traceId, spanId, traceFlags } = this.#span.spanContext();
    return { traceId, spanId, traceFlags };
  }

  end(): void {
    this.#span.end();
  }

  fail(error: unknown): void {
    const recorded = error instanceof Error ? error : String(error);
    this.#span.recordException(recorded);
    this.#span.setAttribute("error.type", errorType(error));
    this.#span.setStatus({ code: ERROR_STATUS, message: recorded instanceof Error ? recorded.message : recorded });
    this.#span.end();
  }

  /** The context in which this span is the active one. */
  static contextOf(span: ApiBackedSpan): ApiContext {
    return span.#context;
  }
}

/** A stable, low-cardinality word for what went wrong: our error code, else the error's name. */
export function errorType(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  const code = (error as { code?: unknown }).code;
  return typeof code === "string" ? code : error.name;
}

const tracers = new WeakMap<object, ApiTracer>();

function tracerOf(provider: NonNullable<Registry["trace"]>): ApiTracer {
  let tracer = tracers.get(provider);
  if (tracer === undefined) {
    tracer = provider.getTracer(SCOPE, VERSION);
    tracers.set(provider, tracer);
  }
  return tracer;
}

function contextOf(registered: Registry, parent: Parent | null | undefined): ApiContext {
  if (parent instanceof ApiBackedSpan) return ApiBackedSpan.contextOf(parent);
  const active = registered.context?.active() ?? emptyContext;
  return parent == null ? active : active.setValue(SPAN_KEY, remoteSpan(parent as SpanContext));
}

/** A span that runs elsewhere: known by its identity only. */
function remoteSpan(context: SpanContext): ApiSpan {
  const span: ApiSpan = {
    spanContext: () => context,
    setAttribute: () => span,
    setStatus: () => span,
    recordException: () => {},
    isRecording: () => false,
    end: () => {},
  };
  return span;
}

class Context implements ApiContext {
  readonly #values: ReadonlyMap<symbol, unknown>;

  constructor(values: ReadonlyMap<symbol, unknown>) {
    this.#values = values;
  }

  getValue(key: symbol): unknown {
    return this.#values.get(key);
  }

  setValue(key: symbol, value: unknown): ApiContext {
    return new Context(new Map(this.#values).set(key, value));
  }

  deleteValue(key: symbol): ApiContext {
    const values = new Map(this.#values);
    values.delete(key);
    return new Context(values);
  }
}

/** Stands in for the API's root context where an SDK has no context manager. */
const emptyContext: ApiContext = new Context(new Map());

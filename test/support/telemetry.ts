/** A real OpenTelemetry SDK that keeps what it is given, for tests; gone again when the test has finished. */
import { AsyncLocalStorage } from "node:async_hooks";
import { type Context, type ContextManager, context, metrics, ROOT_CONTEXT, trace } from "@opentelemetry/api";
import { type DataPoint, MeterProvider, MetricReader } from "@opentelemetry/sdk-metrics";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { onTestFinished } from "vitest";

class AsyncContextManager implements ContextManager {
  readonly #storage = new AsyncLocalStorage<Context>();

  active(): Context {
    return this.#storage.getStore() ?? ROOT_CONTEXT;
  }

  with<A extends unknown[], F extends (...args: A) => ReturnType<F>>(
    active: Context,
    fn: F,
    thisArg?: ThisParameterType<F>,
    ...args: A
  ): ReturnType<F> {
    return this.#storage.run(active, () => fn.apply(thisArg as never, args));
  }

  bind<T>(_context: Context, target: T): T {
    return target;
  }

  enable(): this {
    return this;
  }

  disable(): this {
    this.#storage.disable();
    return this;
  }
}

class ManualReader extends MetricReader {
  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}
}

export interface RegisteredSdk {
  /** Ended spans, in the order in which they ended. */
  spans(name?: string): ReadableSpan[];
  /** The points of a metric as they are now. */
  points(metric: string): Promise<DataPoint<unknown>[]>;
}

/** Registers tracing and metrics, or only the one, until the test has finished. */
export function registerSdk(what: { trace?: boolean; metrics?: boolean } = {}): RegisteredSdk {
  const exporter = new InMemorySpanExporter();
  const reader = new ManualReader();
  if (what.trace ?? true) {
    context.setGlobalContextManager(new AsyncContextManager());
    trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }));
  }
  if (what.metrics ?? true) metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }));
  onTestFinished(unregisterSdk);
  return {
    spans: (name) => exporter.getFinishedSpans().filter((span) => name === undefined || span.name === name),
    async points(metric) {
      const { resourceMetrics } = await reader.collect();
      const found = resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics);
      return found
        .filter(({ descriptor }) => descriptor.name === metric)
        .flatMap((data) => data.dataPoints as DataPoint<unknown>[]);
    },
  };
}

export function unregisterSdk(): void {
  context.disable();
  trace.disable();
  metrics.disable();
}

/**
 * Spans and metrics over `@opentelemetry/api`, for all rooms. A room declares at module level what it measures,
 *
 *     const lookup = operation("tussock.definition.lookup", "Look-ups of definitions", ["tussock.outcome"]);
 *
 * and in the call, at no cost when no SDK is registered,
 *
 *     const telemetry = lookup.start();
 *     telemetry?.set("tussock.outcome", "hit");
 *     telemetry?.end();
 */
export { counter, durations, type Gauge, gauge, histogram, type Instrument } from "./metrics.ts";
export { type Operation, type OperationKind, operation } from "./operation.ts";
export {
  type Attributes,
  type AttributeValue,
  isObserved,
  type ObservableResult,
  type SpanContext,
} from "./registry.ts";
export { type Parent, type Span, startSpan } from "./span.ts";

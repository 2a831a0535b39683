/** What does telemetry cost a look-up where somebody collects it, and where nobody does? */
import { metrics, trace } from "@opentelemetry/api";
import { MeterProvider, MetricReader } from "@opentelemetry/sdk-metrics";
import { BasicTracerProvider } from "@opentelemetry/sdk-trace-base";
import { operation } from "../../src/telemetry/index.ts";
import { micro, Own, race } from "../harness.ts";
import { type Context, count } from "../support/context.ts";
import { cycle, openReady, storedDefinitions, storedNames, TYPE } from "../support/definitions.ts";
import { type Answer, atMost, figure, row } from "../support/rows.ts";

const CALLS = 1_000_000;

class NoReader extends MetricReader {
  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}
}

export async function answer(context: Context): Promise<Answer> {
  const index = await openReady(context, await storedDefinitions(context, context.n));
  const next = cycle(storedNames(context.n, 4096));
  const lookUp = (): Promise<unknown> => index.findByName(TYPE, next());
  const observed = operation("tussock.bench", "Nothing", []);
  // First without: code that has once met an SDK is compiled otherwise.
  const off = await race(
    {
      lookUp: micro(lookUp),
      start: micro(() => observed.start()?.end()),
      allocated: { run: () => new Own(bytesOf(() => observed.start()?.end())) },
    },
    context.race("telemetry off"),
  );
  register();
  const on = await race({ lookUp: micro(lookUp) }, context.race("telemetry on"));
  unregister();
  await index.close();
  return {
    rows: [
      row("telemetry", `N = ${count(context.n)}`, off.lookUp, {
        rivals: { "with an SDK": figure(on.lookUp) },
        floor: figure(off.start),
        verdicts: [
          atMost(off.allocated.median, 0.5, "nothing is allocated where nobody collects it", { unit: "bytes" }),
        ],
        notes: ["the floor is asking whether anybody collects it"],
      }),
    ],
  };
}

function register(): void {
  trace.setGlobalTracerProvider(new BasicTracerProvider());
  metrics.setGlobalMeterProvider(new MeterProvider({ readers: [new NoReader()] }));
}

function unregister(): void {
  trace.disable();
  metrics.disable();
}

/** What a call leaves on the heap until the next collection. */
function bytesOf(call: () => void): number {
  globalThis.gc?.();
  const before = process.memoryUsage().heapUsed;
  for (let i = 0; i < CALLS; i++) call();
  return Math.max(0, process.memoryUsage().heapUsed - before) / CALLS;
}

import { readFileSync } from "node:fs";
import { PerformanceObserver } from "node:perf_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Worker } from "node:worker_threads";
import * as api from "@opentelemetry/api";
import { describe, expect, test } from "vitest";
import { counter, durations, gauge, operation, startSpan } from "../../src/telemetry/index.ts";
import type { ApiContext, ApiMeter, ApiSpan, ApiTracer, Registry } from "../../src/telemetry/registry.ts";
import { VERSION } from "../../src/version.ts";
import { isDeno } from "../support/spawn.ts";
import { registerSdk, unregisterSdk } from "../support/telemetry.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

const WORK = operation("test.work", "Work done", ["test.kind"]);

describe("with no SDK", () => {
  test("nothing is started and no argument is evaluated", () => {
    const evaluated: string[] = [];
    const value = (): string => {
      evaluated.push("argument");
      return "value";
    };
    const work = WORK.start();
    work?.set("test.kind", value());
    startSpan("span")?.set("attribute", value());
    counter("test.none", {}).active()?.add(1, { attribute: value() });
    expect(work).toBeNull();
    expect(evaluated).toEqual([]);
  });
});

test.skipIf(isDeno)("with no SDK, nothing is allocated: ten million calls leave nothing to collect", async () => {
  const waits = durations("test.unused", "Never recorded");
  const call = (): void => {
    const work = WORK.start();
    work?.set("test.kind", "small");
    startSpan("span")?.end();
    waits.active()?.record(1, { "test.kind": "small" });
    work?.end();
  };
  const collections = async (repeat: () => void): Promise<number> => {
    const observer = new PerformanceObserver(() => {});
    observer.observe({ entryTypes: ["gc"] });
    for (let left = 10_000_000; left > 0; left--) repeat();
    await new Promise((resolve) => setImmediate(resolve));
    const { length } = observer.takeRecords();
    observer.disconnect();
    return length;
  };
  const kept: unknown[] = [];
  // Nothing else is to blame: the same loop that does allocate is noticed.
  expect(await collections(() => (kept[0] = { at: kept.length }))).toBeGreaterThan(3);
  expect(await collections(call)).toBeLessThan(3);
});

describe("with an SDK", () => {
  test("an SDK registered after the first call is noticed, and one that went away is too", async () => {
    expect(WORK.start()).toBeNull();
    const first = registerSdk();
    WORK.start()?.end();
    expect(first.spans("test.work")).toHaveLength(1);
    unregisterSdk();
    expect(WORK.start()).toBeNull();
    const second = registerSdk();
    WORK.start()?.end();
    expect(first.spans("test.work")).toHaveLength(1);
    expect(second.spans("test.work")).toHaveLength(1);
    expect(await second.points("test.work.duration")).toHaveLength(1);
  });

  test("a call is a span and a point, and only the named dimensions reach the point", async () => {
    const sdk = registerSdk();
    const work = WORK.start();
    work?.set("test.kind", "small");
    work?.set("test.path", "/a/b");
    work?.end();
    expect(sdk.spans()[0]?.attributes).toEqual({ "test.kind": "small", "test.path": "/a/b" });
    const [point] = await sdk.points("test.work.duration");
    expect(point?.attributes).toEqual({ "test.kind": "small" });
    expect((point!.value as { count: number }).count).toBe(1);
  });

  test("a failure is recorded with its code and its message", async () => {
    const sdk = registerSdk();
    WORK.start()?.fail(Object.assign(new Error("no space"), { code: "STORAGE_FULL" }));
    const [span] = sdk.spans();
    expect(span?.status).toEqual({ code: api.SpanStatusCode.ERROR, message: "no space" });
    expect(span?.events[0]?.name).toBe("exception");
    expect(span?.attributes["error.type"]).toBe("STORAGE_FULL");
    const [point] = await sdk.points("test.work.duration");
    expect(point?.attributes).toEqual({ "error.type": "STORAGE_FULL" });
  });

  test("tracing alone, and metrics alone, are enough", async () => {
    const tracing = registerSdk({ metrics: false });
    WORK.start()?.end();
    expect(tracing.spans()).toHaveLength(1);
    unregisterSdk();
    const metering = registerSdk({ trace: false });
    const work = WORK.start();
    expect(work?.context()).toBeUndefined();
    expect(work?.run(() => 7)).toBe(7);
    work?.end();
    expect(await metering.points("test.work.duration")).toHaveLength(1);
  });

  test("children find their parent across awaits, and siblings do not mix", async () => {
    const sdk = registerSdk();
    await Promise.all(
      ["a", "b"].map(async (name) => {
        const parent = WORK.start();
        parent?.set("test.name", name);
        await parent?.run(async () => {
          await new Promise((resolve) => setImmediate(resolve));
          const child = WORK.start();
          child?.set("test.name", `${name}/child`);
          await Promise.resolve();
          child?.end();
        });
        parent?.end();
      }),
    );
    const byName = new Map(sdk.spans().map((span) => [span.attributes["test.name"], span]));
    for (const name of ["a", "b"])
      expect(byName.get(`${name}/child`)?.parentSpanContext?.spanId).toBe(byName.get(name)?.spanContext().spanId);
  });

  test("the user's own active span is the parent, and a given parent wins over it", () => {
    const sdk = registerSdk();
    const outer = api.trace.getTracer("user").startSpan("outer");
    const other = startSpan("other");
    api.context.with(api.trace.setSpan(api.context.active(), outer), () => {
      startSpan("child")?.end();
      startSpan("given", undefined, other)?.end();
    });
    const parentOf = (name: string) => sdk.spans(name)[0]?.parentSpanContext?.spanId;
    expect(parentOf("child")).toBe(outer.spanContext().spanId);
    expect(parentOf("given")).toBe(other?.context().spanId);
  });

  test("a span started in a worker has the span as its parent that was handed over", async () => {
    const sdk = registerSdk();
    const parent = WORK.start();
    const echo = new Worker(
      "require('worker_threads').parentPort.once('message', (m) => require('worker_threads').parentPort.postMessage(m))",
      { eval: true },
    );
    const handedOver = await new Promise<api.SpanContext>((resolve, reject) => {
      echo.once("message", resolve).once("error", reject);
      echo.postMessage(parent?.context());
    });
    await echo.terminate();
    unregisterSdk();
    // The worker's realm has an SDK of its own.
    const inWorker = registerSdk();
    WORK.start(handedOver)?.end();
    parent?.end();
    expect(inWorker.spans()[0]?.parentSpanContext?.spanId).toBe(sdk.spans()[0]?.spanContext().spanId);
    expect(inWorker.spans()[0]?.spanContext().traceId).toBe(sdk.spans()[0]?.spanContext().traceId);
  });

  test("a gauge is read when the SDK collects, from every owner, until it is told to stop", async () => {
    const depth = gauge("test.depth", { unit: "{waiter}" });
    const owners = [{ depth: 3 }, { depth: 5 }];
    const stops = owners.map((owner, index) =>
      depth.observe(owner, ({ depth }, result) => result.observe(depth, { "test.owner": index })),
    );
    const sdk = registerSdk();
    WORK.start()?.end();
    expect((await sdk.points("test.depth")).map(({ value }) => value)).toEqual([3, 5]);
    const read: number[] = [];
    const stop = depth.observe(owners[0]!, ({ depth }) => void read.push(depth));
    await sdk.points("test.depth");
    for (const end of [stop, ...stops]) end();
    owners[0]!.depth = 4;
    await sdk.points("test.depth");
    expect(read).toEqual([3]);
  });

  test("a gauge does not keep what it reads from", async () => {
    const sdk = registerSdk();
    const size = gauge("test.size", {});
    const read: string[] = [];
    const observe = (name: string): object => {
      const owner = { name };
      size.observe(owner, ({ name }) => void read.push(name));
      return owner;
    };
    const kept = observe("kept");
    for (let index = 0; index < 200; index++) observe("dropped");
    await new Promise((resolve) => setImmediate(resolve));
    collectGarbage();
    await sdk.points("test.size");
    expect(read).toEqual(["kept"]);
    expect(kept).toBeDefined();
  });

  test("counters and durations are one instrument each, whoever asks", async () => {
    const sdk = registerSdk();
    const files = counter("test.files", { unit: "{file}" });
    const waits = durations("test.wait", "Waiting");
    files.active()?.add(2);
    files.active()?.add(3);
    waits.active()?.record(0.002);
    expect((await sdk.points("test.files"))[0]?.value).toBe(5);
    const [wait] = await sdk.points("test.wait");
    expect((wait!.value as { buckets: { boundaries: number[] } }).buckets.boundaries).toContain(1e-6);
  });
});

test("our interfaces are a part of the API's own", () => {
  const holds = (
    span: api.Span,
    context: api.Context,
    tracer: api.Tracer,
    meter: api.Meter,
    provider: api.TracerProvider & api.MeterProvider,
    manager: api.ContextManager,
  ): [ApiSpan, ApiContext, ApiTracer, ApiMeter, Registry] => [
    span,
    context,
    tracer as unknown as ApiTracer,
    meter,
    { metrics: provider, trace: provider as unknown as NonNullable<Registry["trace"]>, context: manager },
  ];
  expect(holds).toBeTypeOf("function");
  const key = api.createContextKey("OpenTelemetry Context Key SPAN");
  const span = api.trace.wrapSpanContext(api.INVALID_SPAN_CONTEXT);
  expect(api.trace.setSpan(api.ROOT_CONTEXT, span).getValue(key)).toBe(span);
});

test("the version is that of the package", () => {
  const manifest = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
    version: string;
  };
  expect(VERSION).toBe(manifest.version);
});

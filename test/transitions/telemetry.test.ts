import { trace } from "@opentelemetry/api";
import { expect, test } from "vitest";
import { deferred } from "../../src/abort.ts";
import { createTransitionQueue } from "../../src/transitions/index.ts";
import { registerSdk } from "../support/telemetry.ts";

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("a transition is a span with its kind of key, its depth at entry, its wait and its run", async () => {
  const sdk = registerSdk();
  const queue = createTransitionQueue({ name: "gateway" });
  const gate = deferred<void>();
  const first = queue.run("worker:a7", () => gate.promise);
  const second = queue.run(["worker:a7", "token/t1", "plain"], () => 7);
  await turn();
  gate.resolve();
  await first;
  expect(await second).toBe(7);
  const [one, two] = sdk.spans("tussock.transition");
  expect(one?.attributes).toMatchObject({
    "tussock.queue": "gateway",
    "tussock.key_kind": "worker",
    "tussock.depth": 0,
    "tussock.wait_ms": 0,
  });
  expect(two?.attributes).toMatchObject({ "tussock.key_kind": "+token+worker", "tussock.depth": 1 });
  expect(two?.attributes["tussock.wait_ms"]).toBeGreaterThan(0);
  expect(two?.attributes["tussock.run_ms"]).toBeGreaterThanOrEqual(0);
});

test("spans started in fn, also after its awaits, are children of the transition, which is a child of its caller's", async () => {
  const sdk = registerSdk();
  const queue = createTransitionQueue();
  const tracer = trace.getTracer("user");
  const requests = ["one", "two"].map((name) =>
    tracer.startActiveSpan(`request ${name}`, async (request) => {
      await queue.run("key", async () => {
        await turn();
        tracer.startSpan(`write ${name}`).end();
      });
      request.end();
      return request.spanContext();
    }),
  );
  const contexts = await Promise.all(requests);
  for (const [index, name] of ["one", "two"].entries()) {
    const [write] = sdk.spans(`write ${name}`);
    const transition = sdk
      .spans("tussock.transition")
      .find((span) => span.spanContext().spanId === write?.parentSpanContext?.spanId);
    expect(transition?.parentSpanContext?.spanId).toBe(contexts[index]?.spanId);
  }
});

test("what fails, is refused or abandoned is a failed span with the reason; what never ran has no run time", async () => {
  const sdk = registerSdk();
  const queue = createTransitionQueue({ maxPendingPerKey: 1 });
  const gate = deferred<void>();
  const controller = new AbortController();
  const calls = [
    queue.run("key", async () => {
      await gate.promise;
      throw new Error("failed");
    }),
    queue.run("key", () => {}, { signal: controller.signal }),
    queue.run("key", () => {}),
  ];
  const results = Promise.allSettled(calls);
  controller.abort();
  await turn();
  gate.resolve();
  await results;
  const types = sdk.spans("tussock.transition").map((span) => span.attributes["error.type"]);
  expect(types.sort()).toEqual(["AbortError", "Error", "QUEUE_FULL"]);
  const ran = sdk.spans("tussock.transition").filter((span) => "tussock.run_ms" in span.attributes);
  expect(ran.map((span) => span.attributes["error.type"])).toEqual(["Error"]);
});

test("durations of the whole, of the wait and of the run are histograms; waiting, running and the oldest wait are gauges", async () => {
  const sdk = registerSdk();
  const queue = createTransitionQueue({ name: "gateway" });
  const gate = deferred<void>();
  const calls = [
    queue.run("worker:a", () => gate.promise),
    queue.run("worker:a", () => {}),
    queue.run("worker:b", () => {}),
  ];
  await turn();
  const value = async (metric: string) =>
    (await sdk.points(metric)).find(({ attributes }) => attributes["tussock.queue"] === "gateway")?.value;
  expect(await value("tussock.transition.waiting")).toBe(1);
  expect(await value("tussock.transition.running")).toBe(1);
  expect(await value("tussock.transition.oldest_wait")).toBeGreaterThan(0);
  gate.resolve();
  await Promise.all(calls);
  expect(await value("tussock.transition.waiting")).toBe(0);
  for (const metric of [
    "tussock.transition.duration",
    "tussock.transition.wait.duration",
    "tussock.transition.run.duration",
  ]) {
    const counts = (await sdk.points(metric)).map((point) => (point.value as { count: number }).count);
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(3);
  }
});

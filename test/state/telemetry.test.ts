import { expect, test } from "vitest";
import { openLeaseIndex } from "../../src/state/index.ts";
import { tempDir } from "../support/spawn.ts";
import { type RegisteredSdk, registerSdk } from "../support/telemetry.ts";

const attributesOf = (sdk: RegisteredSdk, span: string) => sdk.spans(span).map(({ attributes }) => attributes);

test("a change says what it changed, in how large a commit, and what it waited for", async () => {
  const sdk = registerSdk();
  await using leases = await openLeaseIndex({ dir: tempDir(), retention: false });
  await Promise.all(["a", "b", "c"].map((id) => leases.insert({ id, data: {} })));
  await leases.transition("a", "completed");
  await expect(leases.transition("a", "failed")).rejects.toThrow();
  const spans = attributesOf(sdk, "tussock.state.transition");
  expect(spans).toHaveLength(5);
  expect(spans[0]).toMatchObject({
    "tussock.state.index": "step-lease",
    "tussock.state.call": "insert",
    "tussock.state.to": "active",
    "tussock.batch": 3,
  });
  expect(spans[3]).toMatchObject({
    "tussock.state.call": "transition",
    "tussock.state.from": "active",
    "tussock.state.to": "completed",
    "tussock.batch": 1,
  });
  expect(spans[3]?.["tussock.flush_ms"]).toBeGreaterThan(0);
  expect(spans[3]?.["tussock.commit_wait_ms"]).toBeGreaterThanOrEqual(0);
  expect(spans[4]).toMatchObject({ "tussock.state.from": "completed", "error.type": "TRANSITION" });
  const points = await sdk.points("tussock.state.transition.duration");
  const of = (to: string) => points.find(({ attributes }) => attributes["tussock.state.to"] === to);
  expect((of("active")?.value as { count: number } | undefined)?.count).toBe(3);
});

test("sweeps and imports report what they counted", async () => {
  const sdk = registerSdk();
  await using leases = await openLeaseIndex({ dir: tempDir(), retention: false });
  await leases.insert({ id: "a", data: {} });
  await leases.sweep({ from: "active", to: "expired" });
  expect(attributesOf(sdk, "tussock.state.sweep")).toEqual([
    {
      "tussock.state.index": "step-lease",
      "tussock.state.from": "active",
      "tussock.state.to": "expired",
      "tussock.examined": 1,
      "tussock.transitioned": 1,
      "tussock.skipped": 0,
    },
  ]);
  await leases.import("empty", async function* () {});
  expect(attributesOf(sdk, "tussock.state.import")[0]).toMatchObject({
    "tussock.state.source": "empty",
    "tussock.examined": 0,
    "tussock.inserted": 0,
  });
});

test("how many records are in each state is a metric for as long as the index is open", async () => {
  const sdk = registerSdk({ trace: false });
  const leases = await openLeaseIndex({ dir: tempDir(), retention: false });
  await leases.insert({ id: "a", data: {} });
  const active = async () =>
    (await sdk.points("tussock.state.records")).find(({ attributes }) => attributes["tussock.state"] === "active");
  expect(await active()).toMatchObject({ value: 1, attributes: { "tussock.state.index": "step-lease" } });
  expect((await sdk.points("tussock.state.mirror.pending"))[0]?.value).toBe(0);
  await leases.close();
  await sdk.points("tussock.state.records");
});

/** Whoever calls from plain JavaScript with a wrong argument is told which one, by an InvalidArgumentError. */
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import * as tussock from "../../src/index.ts";
import * as liveness from "../../src/liveness/index.ts";
import * as lock from "../../src/lock/index.ts";
import { scan } from "../../src/scan/index.ts";
import * as swamp from "../../src/swamp/index.ts";
import { createTransitionQueue } from "../../src/transitions/index.ts";
import { tempDir } from "../support/spawn.ts";

/** As plain JavaScript sees the library. */
type Loose = Record<string, (...values: unknown[]) => unknown>;
const all = { ...tussock, ...liveness, ...lock, ...swamp, scan, createTransitionQueue } as unknown as Loose;
const call = (name: string, ...values: unknown[]): unknown => all[name]!(...values);

/** What it throws, at once, by rejecting, or when it is first asked for something. */
async function thrownBy(use: () => unknown): Promise<unknown> {
  try {
    const given = (await use()) as Partial<AsyncIterator<unknown>> | undefined;
    if (typeof given?.next === "function") await given.next();
  } catch (error) {
    return error;
  }
  return undefined;
}

async function refuses(argument: string, use: () => unknown): Promise<void> {
  expect(await thrownBy(use)).toMatchObject({ code: "INVALID_ARGUMENT", argument });
}

const noSignal = { signal: {} };

test.each<[string, string, unknown[]]>([
  ["options", "openDefinitionIndex", []],
  ["options", "openDefinitionIndex", [null]],
  ["signal", "openDefinitionIndex", [{ roots: [{ name: "m", dir: "/m" }], indexDir: "/i", ...noSignal }]],
  ["roots[]", "openDefinitionIndex", [{ roots: [null], indexDir: "/i" }]],
  ["indexDir", "openDefinitionIndex", [{ roots: [{ name: "m", dir: "/m" }], indexDir: "/m" }]],
  ["indexDir", "openDefinitionIndex", [{ roots: [{ name: "m", dir: "/m" }], indexDir: "/m/index" }]],
  ["indexDir", "openDefinitionIndex", [{ roots: [{ name: "m", dir: "/i/models" }], indexDir: "/i" }]],
  ["spec", "defineLifecycle", []],
  ["transitions", "defineLifecycle", [{ initial: "a" }]],
  ["transitions.a", "defineLifecycle", [{ initial: "a", transitions: { a: "a" } }]],
  ["options", "openStateIndex", []],
  ["signal", "openLeaseIndex", [{ dir: "/never-made", signal: 1 }]],
  ["mirror.locate", "openLeaseIndex", [{ dir: "/never-made", mirror: {} }]],
  ["mirror", "openLeaseIndex", [{ dir: "/never-made", mirror: true }]],
  ["options", "openControlPlaneStore", []],
  ["runs", "reapRuns", []],
  ["index", "runsOf", []],
  ["identity", "livenessOf", []],
  ["instancesDir", "livenessOf", [{}, { instancesDir: 5 }]],
  ["instancesDir", "announceInstance", []],
  ["path", "tryFileLock", []],
  ["path", "probeFileLock", [""]],
  ["maxWaitMs", "acquireFileLock", ["/never-made/lock", { maxWaitMs: -1 }]],
  ["signal", "acquireFileLock", ["/never-made/lock", noSignal]],
  ["name", "withNameLock", ["/never-made", "", () => {}]],
  ["fn", "withNameLock", ["/never-made", "n"]],
  ["signal", "withNameLock", ["/never-made", "n", () => {}, noSignal]],
  ["options", "createTransitionQueue", [null]],
  ["onSlow", "createTransitionQueue", [{ slowAfterMs: 1 }]],
  ["dir", "scan", []],
  ["options", "scan", ["/never-made", null]],
  ["signal", "scan", ["/never-made", noSignal]],
  ["onProgress", "scan", ["/never-made", { onProgress: 1 }]],
  ["options", "openSwampRepository", []],
  ["repoDir", "openSwampRepository", [{ codec: {} }]],
  ["codec", "openSwampRepository", [{ repoDir: "/never-made" }]],
  ["codec.decode", "openSwampRepository", [{ repoDir: "/never-made", codec: {} }]],
  ["dataDir", "scanArtifacts", []],
  ["type", "scanArtifacts", ["/never-made"]],
  ["signal", "scanArtifacts", ["/never-made", "swamp/worker", noSignal]],
  ["kind", "recordsFromArtifacts", ["/never-made"]],
  ["live", "leasesFromArtifacts", ["/never-made", { live: 5 }]],
  ["options", "artifactMirror", ["/never-made"]],
  ["syncService", "noticeChanges", []],
])("%s of %s(%j)", (argument, name, values) => refuses(argument, () => call(name, ...values)));

test("a repository without a codec that decodes and encodes is refused, before any file is blamed", async () => {
  const dir = tempDir();
  await using index = await tussock.openDefinitionIndex({
    roots: [{ name: "m", dir: join(dir, "m") }],
    indexDir: join(dir, "index"),
  });
  const create = (options: unknown) => () => call("createDefinitionRepository", index, options);
  await refuses("options", create(undefined));
  await refuses("codec", create({ writeRoot: "m" }));
  await refuses("codec.decode", create({ writeRoot: "m", codec: {} }));
  await refuses("codec.encode", create({ writeRoot: "m", codec: { decode: (given: unknown) => given } }));
});

test("every call of a definition index and its repository looks at its signal", async () => {
  const dir = tempDir();
  await using index = await tussock.openDefinitionIndex({
    roots: [{ name: "m", dir: join(dir, "m") }],
    indexDir: join(dir, "index"),
  });
  const codec = { decode: (given: unknown) => given, encode: () => ({}) };
  const things = tussock.createDefinitionRepository(index, { writeRoot: "m", codec }) as unknown as Loose;
  const files = index as unknown as Loose;
  await refuses("signal", () => files["findByName"]!("t", "n", noSignal));
  await refuses("signal", () => files["entries"]!(noSignal));
  await refuses("signal", () => files["problems"]!(noSignal));
  await refuses("signal", () => files["refresh"]!(noSignal));
  await refuses("paths", () => files["applyChanges"]!());
  await refuses("signal", () => things["findByName"]!("t", "n", noSignal));
  await refuses("signal", () => things["findAll"]!("t", noSignal));
  await refuses("signal", () => things["save"]!("t", {}, noSignal));
  await refuses("signal", () => things["delete"]!("t", "i", noSignal));
  await refuses("create", () => things["resolveOrCreate"]!("t", "n"));
  await refuses("signal", () => things["resolveOrCreate"]!("t", "n", () => ({}), noSignal));
});

describe("a state index", () => {
  test.each<[string, string, unknown[]]>([
    ["record", "insert", []],
    ["record", "put", [null]],
    ["options", "insert", [{ id: "a", data: {} }, null]],
    ["signal", "insert", [{ id: "a", data: {} }, noSignal]],
    ["id", "get", []],
    ["signal", "get", ["a", noSignal]],
    ["signal", "update", ["a", {}, noSignal]],
    ["signal", "transition", ["a", "completed", noSignal]],
    ["signal", "byState", ["active", noSignal]],
    ["signal", "by", ["worker", "w", noSignal]],
    ["signal", "count", ["active", noSignal]],
    ["options", "sweep", []],
    ["by", "sweep", [{ from: "active", to: "expired", by: 5 }]],
    ["where", "sweep", [{ from: "active", to: "expired", where: 5 }]],
    ["signal", "sweep", [{ from: "active", to: "expired", ...noSignal }]],
    ["options", "prune", []],
    ["signal", "prune", [{ states: "completed", ...noSignal }]],
    ["source", "import", ["s"]],
    ["source", "import", ["s", () => 5]],
    ["source", "import", ["s", () => undefined]],
    ["signal", "watch", [noSignal]],
    ["signal", "verify", [noSignal]],
    ["signal", "stats", [noSignal]],
    ["signal", "beginEpoch", [noSignal]],
  ])("%s of %s(%j)", async (argument, name, values) => {
    await using leases = await tussock.openLeaseIndex({ dir: tempDir() });
    await refuses(argument, () => (leases as unknown as Loose)[name]!(...values));
    expect(await leases.count()).toBe(0);
  });
});

test("an error over data that holds itself is of a length that can be read", async () => {
  await using leases = await tussock.openLeaseIndex({ dir: tempDir() });
  const data: tussock.StepLease = {};
  data["itself"] = data;
  const error = (await thrownBy(() => leases.insert({ id: "a", data }))) as Error;
  expect(error).toMatchObject({ code: "INVALID_ARGUMENT" });
  expect(error.message).toContain("levels of nesting");
  expect(error.message.length).toBeLessThan(250);
});

test("a transition queue and a control-plane store look at their signals", async () => {
  await using queue = createTransitionQueue();
  await refuses("signal", () => (queue as unknown as Loose)["run"]!("k", () => {}, noSignal));
  await refuses("signal", () => (queue as unknown as Loose)["idle"]!(noSignal));
  await refuses("signal", () => (queue as unknown as Loose)["close"]!(noSignal));
  await using store = await tussock.openControlPlaneStore({ dir: tempDir() });
  await refuses("signal", () => (store as unknown as Loose)["get"]!("k", noSignal));
});

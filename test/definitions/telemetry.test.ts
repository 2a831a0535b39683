import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createDefinitionRepository, openDefinitionIndex } from "../../src/definitions/index.ts";
import { tempDir } from "../support/spawn.ts";
import { registerSdk } from "../support/telemetry.ts";

interface Named {
  id: string;
  name: string;
}

const yaml = (id: string, name: string): string => `id: "${id}"\nname: ${name}\ntype: worker\n`;

async function opened(files: Record<string, string>) {
  const dir = tempDir();
  const root = join(dir, "models");
  mkdirSync(join(root, "worker"), { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(root, "worker", name), text);
  const index = await openDefinitionIndex({ roots: [{ name: "models", dir: root }], indexDir: join(dir, "index") });
  const repository = createDefinitionRepository<Named>(index, {
    codec: { decode: (document) => document as Named, encode: ({ id, name }) => ({ id, name, type: "worker" }) },
    writeRoot: "models",
  });
  return { root, index, repository };
}

test("a look-up of what no definition can be named is a miss as any other", async () => {
  const sdk = registerSdk();
  const { index } = await opened({});
  for (const name of ["a\0b", "\ud800"]) expect(await index.findByName("worker", name)).toBeNull();
  expect(sdk.spans("tussock.definition.lookup").map(({ attributes }) => attributes["tussock.outcome"])).toEqual([
    "miss",
    "miss",
  ]);
});

test("a look-up says what it found, how it came by it, and what that took", async () => {
  const sdk = registerSdk();
  const { root, index } = await opened({ "a.yaml": yaml("1", "a"), "other.yaml": yaml("2", "b") });
  const lookups = () => sdk.spans("tussock.definition.lookup").map(({ attributes }) => attributes);

  expect(await index.findByName("worker", "a")).not.toBeNull();
  expect(await index.findByName("worker", "b")).not.toBeNull();
  expect(await index.findByName("worker", "nobody")).toBeNull();
  writeFileSync(join(root, "worker", "new.yaml"), yaml("3", "new"));
  expect(await index.findById("worker", "3")).not.toBeNull();

  const [direct, swept, miss, changed] = lookups();
  expect(direct).toMatchObject({
    "tussock.type": "worker",
    "tussock.by": "name",
    "tussock.outcome": "hit",
    "tussock.how": "direct",
    "tussock.files_read": 1,
  });
  expect(swept).toMatchObject({ "tussock.outcome": "hit", "tussock.how": "sweep" });
  expect(swept?.["tussock.directories_listed"]).toBeGreaterThan(0);
  expect(miss).toMatchObject({ "tussock.outcome": "miss", "tussock.how": "index", "tussock.files_read": 0 });
  expect(changed).toMatchObject({ "tussock.by": "id", "tussock.outcome": "hit", "tussock.files_read": 1 });
  if (index.stats().watch.mechanism === "inotify") expect(changed?.["tussock.events_drained"]).toBeGreaterThan(0);

  const points = await sdk.points("tussock.definition.lookup.duration");
  expect(points.map(({ attributes }) => Object.keys(attributes).sort().join())).toContain(
    "tussock.how,tussock.outcome,tussock.type",
  );
  await index.close();
});

test("the sweep that a look-up waits for is its child: a rebuild the first time, a sweep after that", async () => {
  const sdk = registerSdk();
  const { index } = await opened({ "other.yaml": yaml("2", "b"), "broken.yaml": "{" });
  await index.findByName("worker", "b");
  const [lookup] = sdk.spans("tussock.definition.lookup");
  const rebuilds = sdk.spans("tussock.definition.rebuild");
  expect(rebuilds.map((span) => span.parentSpanContext?.spanId)).toContain(lookup?.spanContext().spanId);
  const ofWorkers = rebuilds.find(({ attributes }) => attributes["tussock.type"] === "worker");
  expect(ofWorkers?.attributes).toMatchObject({ "tussock.files": 2, "tussock.files_read": 2, "tussock.broken": 1 });
  await index.refresh();
  const again = sdk.spans("tussock.definition.sweep").find(({ attributes }) => attributes["tussock.type"] === "worker");
  expect(again?.attributes).toMatchObject({ "tussock.files": 2, "tussock.files_read": 0, "tussock.changed": 0 });
  await index.close();
});

test("a creation tells its phases apart, and is the parent of what it waits for", async () => {
  const sdk = registerSdk();
  const { index, repository } = await opened({});
  const create = () => ({ id: "9", name: "new" });
  const both = await Promise.all([1, 2].map(() => repository.resolveOrCreate("worker", "new", create)));
  expect(both.map(({ created }) => created).sort()).toEqual([false, true]);
  const spans = sdk.spans("tussock.definition.create");
  const created = spans.find(({ attributes }) => attributes["tussock.outcome"] === "created");
  for (const phase of ["lock_wait", "recheck", "create", "save"])
    expect(created?.attributes[`tussock.${phase}_ms`], phase).toBeGreaterThanOrEqual(0);
  expect(created?.attributes).toMatchObject({ "tussock.type": "worker", "tussock.name": "new" });
  expect(spans.map(({ attributes }) => attributes["tussock.outcome"]).sort()).toEqual(["adopted", "created"]);
  const children = [...sdk.spans("tussock.lock.wait"), ...sdk.spans("tussock.definition.lookup")];
  const ofCreated = children.filter((span) => span.parentSpanContext?.spanId === created?.spanContext().spanId);
  expect(new Set(ofCreated.map(({ name }) => name))).toEqual(
    new Set(["tussock.lock.wait", "tussock.definition.lookup"]),
  );
  await index.close();
});

test("how many definitions there are, by root and type, is a metric for as long as the index is open", async () => {
  const sdk = registerSdk({ trace: false });
  const { index } = await opened({ "a.yaml": yaml("1", "a"), "b.yaml": yaml("2", "b") });
  await index.refresh();
  const [count] = await sdk.points("tussock.definition.count");
  expect(count).toMatchObject({ value: 2, attributes: { "tussock.root": "models", "tussock.type": "worker" } });
  expect((await sdk.points("tussock.definition.index.size"))[0]?.value).toBeGreaterThan(0);
  await index.close();
});

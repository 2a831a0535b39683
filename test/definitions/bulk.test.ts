import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { readDirectory } from "../../src/definitions/bulk-read.ts";
import { openDefinitionIndex } from "../../src/definitions/index.ts";
import { SecondReader } from "../../src/definitions/second-reader.ts";
import { DefinitionStore } from "../../src/definitions/store.ts";
import { emptySweepResult, sweepType } from "../../src/definitions/sweep.ts";
import { openOwnedEnvironment } from "../../src/lmdb/index.ts";
import { DEFAULT_KEYS } from "../../src/scan/model.ts";
import { collect } from "../support/collect.ts";
import { answerOf, byBytes, type ObviousReading, readObviously } from "../support/obvious-reader.ts";
import { isDeno, isLong, tempDir } from "../support/spawn.ts";

/** More files than one task of the second thread, of every kind that it has to tell apart. */
const FILES = 9_000;

test("a directory that the index does not know is read whole, on one thread and on two, duplicates and problems included", async () => {
  const base = tempDir();
  const dir = join(base, "models", "t");
  mkdirSync(dir, { recursive: true });
  writeFileSync(join(base, "target"), "id: linked\nname: linked\n");
  for (let i = 0; i < FILES; i++) {
    const path = join(dir, `f${i % 7 === 0 ? FILES - i : i}-${i}.yaml`);
    if (i % 1000 === 1) symlinkSync(join(base, "target"), path);
    else if (i % 500 === 2) writeFileSync(path, "id: [broken\n");
    else if (i % 300 === 3) writeFileSync(path, `{id: flow-${i}, name: n${i}}\n`);
    else if (i % 100 === 4) writeFileSync(path, `id: same-id\nname: n${i}\n`);
    else if (i % 100 === 5) writeFileSync(path, `id: i${i}\nname: same-name\n`);
    else writeFileSync(path, `id: i${i}\nname: n${i}\n`);
  }
  const roots = [{ name: "models", dir: join(base, "models") }];
  const expected = readObviously(roots, { boundary: base });
  for (const alone of [true, false]) {
    if (alone) process.env["TUSSOCK_NO_WORKERS"] = "1";
    else delete process.env["TUSSOCK_NO_WORKERS"];
    await using index = await openDefinitionIndex({ roots, boundary: base, indexDir: join(base, `index-${alone}`) });
    const entries = await collect(index.entries());
    expect(entries.map(({ path, id, name }) => ({ path, id, name }))).toEqual(
      expected.entries.map(({ path, id, name }) => ({ path, id, name })),
    );
    const first = (key: "id" | "name", value: string) =>
      expected.entries
        .filter((entry) => entry[key] === value)
        .map(({ path }) => path)
        .sort(byBytes)[0];
    expect((await index.findByName("t", "same-name"))?.path).toBe(first("name", "same-name"));
    expect((await index.findById("t", "same-id"))?.path).toBe(first("id", "same-id"));
    expect(index.stats().roots["models"]?.definitions).toBe(expected.entries.length);
  }
  // Nothing but links is read again at the next start, whichever thread has read it.
  for (const alone of [true, false]) {
    await using index = await openDefinitionIndex({ roots, boundary: base, indexDir: join(base, `index-${alone}`) });
    expect((await index.refresh()).read).toBe(FILES / 1000);
  }
});

test("a reading that is ended is ended on both threads, and nothing of it goes on", async () => {
  const names = Array.from({ length: 60_000 }, (_, i) => `gone${i}.yaml`);
  const result = emptySweepResult();
  const keys = DEFAULT_KEYS;
  const examine = { keys, parse: undefined, maxFileBytes: 1, boundary: null, documents: false, maxDocumentBytes: 1 };
  const directory = { dir: tempDir(), root: 0, type: "t", typeId: 1, names, special: new Set<string>() };
  const store = { transaction: (write: () => void) => write() } as unknown as DefinitionStore;
  let pauses = 0;
  const reading = readDirectory(directory, {
    store,
    examine,
    second: SecondReader.start(examine),
    result,
    readWithin: true,
    isAwaited: () => false,
    filesPerCommit: 2_000,
    isPauseDue: () => false,
    async pause() {
      if (++pauses === 4) throw new Error("enough");
    },
  });
  await expect(reading).rejects.toThrow("enough");
  const { files } = result;
  expect(files).toBeLessThan(names.length / 2);
  await new Promise((resolve) => setImmediate(resolve));
  expect(result.files).toBe(files);
});

test("a cold build that is aborted ends with the transaction under way", async () => {
  const base = tempDir();
  const dir = join(base, "models", "t");
  mkdirSync(dir, { recursive: true });
  for (let i = 0; i < FILES; i++) writeFileSync(join(dir, `f${i}.yaml`), `id: i${i}\nname: n${i}\n`);
  await using environment = await openOwnedEnvironment({ dir: join(base, "index"), identity: {}, shared: false });
  const store = new DefinitionStore(environment.root);
  const examine = { keys: DEFAULT_KEYS, maxFileBytes: 1e6, boundary: null, documents: false, maxDocumentBytes: 1 };
  const breather = {
    hasThread: true,
    isAwaited: () => false,
    filesPerCommit: 1_000,
    due: () => false,
    pause: async () => {},
  };
  const abort = new AbortController();
  let seen = 0;
  const sweep = sweepType(store, { type: "t", typeId: 1, dirs: [dir] }, examine, breather, {
    signal: abort.signal,
    onFiles(files) {
      seen = files;
      if (files > 0) abort.abort(new Error("enough"));
    },
  });
  await expect(sweep).rejects.toThrow("enough");
  expect(seen).toBeGreaterThan(0);
  const stored = store.filesUnder(0, "t/", { limit: FILES, nested: false }).length;
  expect(stored).toBeGreaterThanOrEqual(seen);
  expect(stored).toBeLessThan(FILES / 2);

  // While it lists the directory, or just before the first one.
  const early = new AbortController();
  const pause = async () => early.abort(new Error("at once"));
  const other = { type: "t", typeId: 2, dirs: [null, dir] };
  const unborn = sweepType(store, other, examine, { ...breather, pause }, { signal: early.signal });
  await expect(unborn).rejects.toThrow("at once");
  expect(store.filesUnder(1, "t/", { limit: 1, nested: false })).toEqual([]);
});

/** Fewer come one by one. */
const LEAST_IN_BULK = 520;

test("names and ids of any length, order and number are found as a reading of every file finds them, from either thread", async () => {
  const long = "x".repeat(2_000);
  const text = fc.oneof(
    fc.constantFrom(
      "a",
      "a-b",
      "a.b",
      "b",
      "é",
      "\u{10000}",
      "\uffee",
      `${long}1`,
      `${long}2`,
      `${long.slice(0, 1_890)}é`,
    ),
    fc.nat(2_000).map((n) => `n${n}`),
    fc.nat(2_000).map((n) => `${String(n).padStart(4, "0")}-${"z".repeat(n % 50)}`),
  );
  const file = fc.record({ id: text, name: text, named: fc.boolean() });
  const files = fc.array(file, { minLength: LEAST_IN_BULK, maxLength: 900, size: "max" });
  await fc.assert(
    fc.asyncProperty(files, files, async (...both) => {
      const base = tempDir();
      const roots = ["one", "two"].map((name) => ({ name, dir: join(base, name) }));
      for (const [r, { dir }] of roots.entries()) {
        mkdirSync(join(dir, "t"), { recursive: true });
        for (const [i, { id, name, named }] of (both[r] ?? []).entries()) {
          const filename = named && Buffer.byteLength(name) < 200 ? name : `f${i}`;
          writeFileSync(join(dir, "t", `${filename}.yaml`), `id: "${id}"\nname: "${name}"\n`);
        }
      }
      const reading = readObviously(roots, { boundary: base });
      await using index = await openDefinitionIndex({ roots, boundary: base, indexDir: join(base, "index") });
      for (const name of new Set(reading.entries.map((entry) => entry.name))) {
        expect(await index.findByName("t", name)).toMatchObject({ path: foundIn(reading, { by: "name", key: name }) });
      }
      for (const id of new Set(reading.entries.map((entry) => entry.id))) {
        expect(await index.findById("t", id)).toMatchObject({ path: foundIn(reading, { by: "id", key: id }) });
      }
      const stored = await collect(index.entries());
      expect(stored.map(({ path }) => path).sort(byBytes)).toEqual(
        reading.entries.map(({ path }) => path).sort(byBytes),
      );
    }),
    { numRuns: isLong ? 100 : 4 },
  );
});

function foundIn(reading: ObviousReading, question: { by: "name" | "id"; key: string }): string {
  const answer = answerOf(reading, { ...question, type: "t" });
  if (answer === null || !("found" in answer)) throw new Error(`nothing is called ${question.key}`);
  return answer.found;
}

test.skipIf(isDeno)("what a second thread that ends before its time had to read is read by the first", async () => {
  const base = tempDir();
  const dir = join(base, "models", "t");
  mkdirSync(dir, { recursive: true });
  const names = Array.from({ length: 8_000 }, (_, i) => `f${String(i).padStart(5, "0")}.yaml`);
  for (const name of names) writeFileSync(join(dir, name), `id: i${name}\nname: n${name}\n`);
  const examine = { keys: DEFAULT_KEYS, maxFileBytes: 1e6, boundary: null, documents: false, maxDocumentBytes: 1 };
  await using environment = await openOwnedEnvironment({ dir: join(base, "index"), identity: {}, shared: false });
  for (const endsAfter of [0, 1, 3]) {
    const store = new DefinitionStore(environment.root);
    const second = SecondReader.start(examine) as SecondReader;
    let answers = 0;
    const take = second.take.bind(second);
    second.take = () => {
      const read = take();
      if (read !== null && ++answers > endsAfter) void second.stop();
      return read;
    };
    const result = emptySweepResult();
    const typeId = 10 + endsAfter;
    const found = await readDirectory(
      { dir, root: typeId, type: "t", typeId, names, special: new Set() },
      {
        store,
        examine,
        second,
        result,
        readWithin: true,
        isAwaited: () => false,
        filesPerCommit: 1_000,
        isPauseDue: () => false,
        pause: () => delayUntilReady(second),
      },
    );
    expect(answers).toBeGreaterThan(0);
    expect([found, result.files, result.read]).toEqual([names.length, names.length, names.length]);
    for (const name of names) expect(store.getId(`i${name}`, typeId)).toBeDefined();
    expect(store.filesUnder(typeId, "t/", { limit: names.length + 1, nested: false })).toHaveLength(names.length);
  }
});

/** So that it gets its part of the work. */
async function delayUntilReady(second: SecondReader): Promise<void> {
  do await new Promise((resolve) => setTimeout(resolve, 1));
  while (!second.isReady && !second.hasEnded);
}

import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { BulkLoad } from "../../src/definitions/bulk-load.ts";
import { readDirectory } from "../../src/definitions/bulk-read.ts";
import { openDefinitionIndex } from "../../src/definitions/index.ts";
import { emptySweepResult } from "../../src/definitions/sweep.ts";
import { DEFAULT_KEYS } from "../../src/scan/model.ts";
import { collect } from "../support/collect.ts";
import { byBytes, readObviously } from "../support/obvious-reader.ts";
import { tempDir } from "../support/spawn.ts";

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
  const options = { keys, parse: undefined, maxFileBytes: 1, boundary: null, documents: false, maxDocumentBytes: 1 };
  const directory = { dir: tempDir(), root: 0, type: "t", names, special: new Set<string>() };
  const load = { commit: () => {} } as unknown as BulkLoad;
  let pauses = 0;
  const reading = readDirectory(directory, load, options, result, () => {
    if (++pauses === 4) throw new Error("enough");
    return null;
  });
  await expect(reading).rejects.toThrow("enough");
  const { files } = result;
  expect(files).toBeLessThan(names.length / 2);
  await new Promise((resolve) => setImmediate(resolve));
  expect(result.files).toBe(files);
});

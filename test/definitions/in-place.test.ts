/** Files that are written to in place, and looked at in the middle of it. */
import { closeSync, mkdirSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { openDefinitionIndex } from "../../src/definitions/index.ts";
import { STAMP_BYTES } from "../../src/scan/stamp.ts";
import { tempDir } from "../support/spawn.ts";

/** The stamp that this file goes on having, whatever is written to it. */
const frozen = vi.hoisted(() => ({ path: "", stamp: null as Uint8Array | null }));

vi.mock(import("../../src/scan/stamp.ts"), async (original) => {
  const real = await original();
  return {
    ...real,
    readStamp(path, follow, into, offset) {
      const kind = real.readStamp(path, follow, into, offset);
      if (path === frozen.path && frozen.stamp !== null) into.set(frozen.stamp, offset);
      return kind;
    },
    readStampOfOpen(fd, path, into, offset) {
      const kind = real.readStampOfOpen(fd, path, into, offset);
      if (path === frozen.path && frozen.stamp !== null) into.set(frozen.stamp, offset);
      return kind;
    },
  };
});

afterEach(() => {
  delete process.env["TUSSOCK_NO_WORKERS"];
  frozen.stamp = null;
});

/** As the kernel does it: the file has the new time already when the new content comes, and never gets another. */
test.skipIf(process.platform !== "linux").each([
  ["looked at by itself", 1],
  ["among many", 600],
  ["while the type is swept anew", 0],
])("what is written in place is read, though it had its time before (%s)", async (_, others) => {
  process.env["TUSSOCK_NO_WORKERS"] = "1"; // All of it on this thread, where the stamps are.
  const base = tempDir();
  const dir = join(base, "models", "t");
  mkdirSync(dir, { recursive: true });
  frozen.path = join(dir, "a.yaml");
  writeFileSync(frozen.path, "id: id\nname: old\n");
  await using index = await openDefinitionIndex({
    roots: [{ name: "models", dir: join(base, "models") }],
    indexDir: join(base, "index"),
  });
  expect((await index.findByName("t", "old"))?.id).toBe("id");
  expect(index.stats().freshness).toBe("exact");
  const { readStamp } = await vi.importActual<typeof import("../../src/scan/stamp.ts")>("../../src/scan/stamp.ts");
  const stamp = new Uint8Array(STAMP_BYTES);
  readStamp(frozen.path, true, stamp, 0);
  frozen.stamp = stamp;
  const fd = openSync(frozen.path, "r+");
  writeSync(fd, "id: id\nname: new\n");
  closeSync(fd);
  for (let n = 0; n < others; n++) writeFileSync(join(dir, `f${n}.yaml`), `id: ${n}\nname: f${n}\n`);
  if (others === 0) await index.refresh();
  expect((await index.findByName("t", "new"))?.id).toBe("id");
  expect(await index.findByName("t", "old")).toBeNull();
});

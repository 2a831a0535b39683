import { existsSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { makeDirectory, makeDirectoryLater } from "../../src/directories.ts";
import { announceInstance, openControlPlaneStore, openDefinitionIndex, openLeaseIndex } from "../../src/index.ts";
import { withNameLock } from "../../src/lock/index.ts";
import { tempDir } from "../support/spawn.ts";

describe.each([
  ["at once", async (path: string) => makeDirectory(path)],
  ["off the thread", makeDirectoryLater],
])("a directory that is made %s", (_, make) => {
  test("is there with its parents, also where it is there already, or made by two at once", async () => {
    const path = join(tempDir(), "a", "b", "c");
    await Promise.all([make(path), make(path)]);
    await make(path);
    expect(statSync(path).isDirectory()).toBe(true);
  });

  test("stays away where a file stands in its place or above it", async () => {
    const dir = tempDir();
    writeFileSync(join(dir, "file"), "");
    await expect(make(join(dir, "file"))).rejects.toMatchObject({ code: "EEXIST" });
    await expect(make(join(dir, "file", "a"))).rejects.toMatchObject({
      code: expect.stringMatching(/^(ENOTDIR|EEXIST)$/),
    });
    mkdirSync(join(dir, "there"));
    await make(join(dir, "there", "a"));
    expect(existsSync(join(dir, "there", "a"))).toBe(true);
  });
});

/** Its parent is there, and yet the kernel says ENOENT: Node's recursive mkdir tries for ever. */
const IMPOSSIBLE = "/proc/tussock-test/x";

test.skipIf(process.platform !== "linux")("where the kernel makes no directory, every opening says so", async () => {
  const errno = { code: "ENOENT" };
  await expect(announceInstance(IMPOSSIBLE)).rejects.toMatchObject(errno);
  await expect(withNameLock(IMPOSSIBLE, "n", () => {})).rejects.toMatchObject(errno);
  const roots = [{ name: "m", dir: tempDir() }];
  await expect(openDefinitionIndex({ roots, indexDir: IMPOSSIBLE })).rejects.toMatchObject({
    code: "INDEX_UNAVAILABLE",
    cause: errno,
  });
  const unavailable = { code: "STATE_STORE_UNAVAILABLE", cause: errno };
  await expect(openLeaseIndex({ dir: IMPOSSIBLE })).rejects.toMatchObject(unavailable);
  await expect(openControlPlaneStore({ dir: IMPOSSIBLE })).rejects.toMatchObject(unavailable);
});

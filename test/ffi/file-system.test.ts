import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { classify, fileSystemOf } from "../../src/ffi/file-system.ts";
import { tempDir } from "../support/spawn.ts";

test.each([
  [0x6969, "nfs"],
  [0x517b, "smb"],
  [0xfe534d42, "smb2"],
  [0xff534d42, "cifs"],
  [0x65735546, "fuse"],
  [0x01021997, "9p"],
  [0x00c36400, "ceph"],
  [0x0bd00bd0, "lustre"],
])("f_type %d is %s, a network file system that does not tell", (type, name) => {
  expect(classify(type)).toEqual({ name, type, network: true, reportsEvents: false });
});

test("a type that nobody knows is taken as local, but not trusted to tell", () => {
  expect(classify(0x12345)).toEqual({ name: "0x12345", type: 0x12345, network: false, reportsEvents: false });
});

test("a directory that does not exist yet lies where its nearest ancestor does", () => {
  const dir = tempDir();
  const there = fileSystemOf(dir);
  expect(there.network).toBe(false);
  expect(there.type).not.toBe(0);
  expect(fileSystemOf(join(dir, "not", "yet"))).toEqual(there);
});

test.runIf(existsSync("/proc/self"))("/proc does not tell of changes", () => {
  expect(fileSystemOf("/proc")).toMatchObject({ network: false, reportsEvents: false });
});

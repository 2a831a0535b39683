import { execFileSync } from "node:child_process";
import {
  chmodSync,
  closeSync,
  linkSync,
  mkdirSync,
  openSync,
  renameSync,
  statSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { release } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { DefinitionReadError } from "../../src/errors.ts";
import {
  granularityOfStamp,
  isRacyStamp,
  readStamp,
  readStampOfOpen,
  STAMP_BYTES,
  sameStamp,
  simulateGranularity,
  stampGranularityNs,
  stampSize,
  unpackStamp,
  wallClockNs,
} from "../../src/scan/stamp.ts";
import { isDeno, runChild, tempDir } from "../support/spawn.ts";

function stampOf(path: string, follow = false): Uint8Array {
  const stamp = new Uint8Array(STAMP_BYTES);
  readStamp(path, follow, stamp, 0);
  return stamp;
}

const same = (a: Uint8Array, b: Uint8Array): boolean => sameStamp(a, 0, b, 0);

/** Whether a change gets a time of its own here: then nothing is ever racy. */
const isExact = stampGranularityNs() === 0;
const [major = 0, minor = 0] = release().split(".").map(Number);

describe("a stamp", () => {
  test("says what lies at the path, and is that of the target only when it follows", () => {
    const dir = tempDir();
    writeFileSync(join(dir, "file"), "12345");
    symlinkSync("file", join(dir, "link"));
    symlinkSync("nowhere", join(dir, "dangling"));
    symlinkSync("loop", join(dir, "loop"));
    const stamp = new Uint8Array(STAMP_BYTES + 8);
    expect(readStamp(join(dir, "file"), false, stamp, 8)).toBe("file");
    expect(stampSize(stamp, 8)).toBe(5);
    expect(readStamp(dir, false, stamp, 0)).toBe("directory");
    expect(readStamp(join(dir, "link"), false, stamp, 0)).toBe("symlink");
    expect(readStamp(join(dir, "link"), true, stamp, 0)).toBe("file");
    expect(same(stampOf(join(dir, "link"), true), stampOf(join(dir, "file")))).toBe(true);
    expect(readStamp(join(dir, "dangling"), false, stamp, 0)).toBe("symlink");
    expect(readStamp("/dev/null", false, stamp, 0)).toBe("other");
  });

  test("of what cannot be there is absent, and leaves the bytes alone", () => {
    const dir = tempDir();
    writeFileSync(join(dir, "file"), "");
    symlinkSync("nowhere", join(dir, "dangling"));
    symlinkSync("loop", join(dir, "loop"));
    const untouched = new Uint8Array(STAMP_BYTES).fill(7);
    const stamp = untouched.slice();
    for (const path of [
      "missing",
      "file/below",
      "x".repeat(300),
      "x".repeat(10_000),
      "file\0",
      `${"y/".repeat(3_000)}z`,
    ]) {
      expect(readStamp(join(dir, path), false, stamp, 0), path.slice(0, 20)).toBe("absent");
    }
    for (const path of ["dangling", "loop"]) expect(readStamp(join(dir, path), true, stamp, 0)).toBe("absent");
    expect(stamp).toEqual(untouched);
  });

  test("agrees with the runtime's own", () => {
    const path = join(tempDir(), "ünïcode");
    writeFileSync(path, "abc");
    utimesSync(path, 1_700_000_000, 1_700_000_000);
    const stats = statSync(path, { bigint: true });
    const stamp = unpackStamp(stampOf(path), 0);
    expect(stamp).toMatchObject({ mtimeNs: 1_700_000_000_000_000_000n, size: 3, inode: stats.ino });
    // Deno cuts its own to seconds.
    expect(stamp.ctimeNs / (isDeno ? 1_000_000_000n : 1n)).toBe(stats.ctimeNs / (isDeno ? 1_000_000_000n : 1n));
  });

  test("keeps a time before the epoch, and a size beyond 32 bits", () => {
    const path = join(tempDir(), "old");
    writeFileSync(path, "");
    execFileSync("touch", ["-d", "1969-12-31 23:59:58.5 UTC", path]);
    expect(unpackStamp(stampOf(path), 0).mtimeNs).toBe(-1_500_000_000n);
    const stamp = stampOf(path);
    new DataView(stamp.buffer).setBigUint64(24, 5_000_000_000n, true);
    expect(stampSize(stamp, 0)).toBe(5_000_000_000);
  });

  test.each([
    [10_413_792_000n, 7],
    [-11_676_096_000n, 999_999_999],
    [9_223_372_036n, 854_775_808],
    [9_223_372_035n, 999_999_999],
    [-9_223_372_036n, 0],
    [-9_223_372_035n, 1],
    [-1n, 0],
    [0n, 1],
    [1_700_000_000n, 123_456_789],
  ])("keeps a time of %i seconds, though its nanoseconds may need more than 64 bits", (seconds, fraction) => {
    const stamp = new Uint8Array(STAMP_BYTES);
    const view = new DataView(stamp.buffer);
    view.setBigInt64(0, seconds, true);
    view.setUint32(8, fraction, true);
    expect(unpackStamp(stamp, 0).mtimeNs).toBe(seconds * 1_000_000_000n + BigInt(fraction));
  });

  test("of an open file is that of its path", () => {
    const path = join(tempDir(), "file");
    writeFileSync(path, "abc");
    const fd = openSync(path, "r");
    const stamp = new Uint8Array(STAMP_BYTES);
    expect(readStampOfOpen(fd, path, stamp, 0)).toBe("file");
    expect(same(stamp, stampOf(path))).toBe(true);
    unlinkSync(path);
    readStampOfOpen(fd, path, stamp, 0);
    expect(stampSize(stamp, 0)).toBe(3);
    closeSync(fd);
  });

  test.skipIf(process.getuid?.() === 0)("throws what is wrong with the disk", () => {
    const dir = tempDir();
    mkdirSync(join(dir, "closed"));
    chmodSync(join(dir, "closed"), 0);
    const stamp = new Uint8Array(STAMP_BYTES);
    expect(() => readStamp(join(dir, "closed", "file"), false, stamp, 0)).toThrow(DefinitionReadError);
    chmodSync(join(dir, "closed"), 0o700);
  });
});

describe("a stamp changes", () => {
  test.runIf(isExact)("with every write, however fast they follow each other", () => {
    const path = join(tempDir(), "file");
    for (let i = 0; i < 200; i++) {
      writeFileSync(path, `a${i % 10}`);
      const before = stampOf(path);
      expect(same(before, stampOf(path))).toBe(true);
      writeFileSync(path, `b${i % 10}`);
      expect(same(before, stampOf(path))).toBe(false);
    }
  });

  test("when the file is replaced by one with the same size and mtime", () => {
    const dir = tempDir();
    for (const name of ["a", "b"]) {
      writeFileSync(join(dir, name), name);
      utimesSync(join(dir, name), 1_000, 1_000);
    }
    const before = stampOf(join(dir, "a"));
    renameSync(join(dir, "b"), join(dir, "a"));
    expect(same(before, stampOf(join(dir, "a")))).toBe(false);
  });

  test.runIf(isExact)("of a directory, when a file comes, goes or is renamed in it", () => {
    const dir = tempDir();
    let before = stampOf(dir);
    const changed = (): boolean => {
      const now = stampOf(dir);
      const answer = !same(before, now);
      before = now;
      return answer;
    };
    writeFileSync(join(dir, "a"), "");
    expect(changed()).toBe(true);
    renameSync(join(dir, "a"), join(dir, "b"));
    expect(changed()).toBe(true);
    linkSync(join(dir, "b"), join(dir, "c"));
    expect(changed()).toBe(true);
    unlinkSync(join(dir, "b"));
    expect(changed()).toBe(true);
    expect(changed()).toBe(false);
  });
});

describe("a racy stamp", () => {
  afterEach(() => simulateGranularity(null));

  /** A stamp whose ctime is `ctimeNs`. */
  function stampAt(ctimeNs: bigint): Uint8Array {
    const stamp = new Uint8Array(STAMP_BYTES);
    const view = new DataView(stamp.buffer);
    view.setBigInt64(12, ctimeNs / 1_000_000_000n, true);
    view.setUint32(20, Number(ctimeNs % 1_000_000_000n), true);
    return stamp;
  }

  test.each([1e6, 1e7, 1e9])(
    "is one whose change lies within the granularity (%d ns) of the moment it was taken",
    (granularity) => {
      const now = 1_800_000_000_500_000_000;
      const at = (agoNs: number): boolean => isRacyStamp(stampAt(BigInt(now) - BigInt(agoNs)), 0, now, granularity);
      expect(at(0)).toBe(true);
      expect(at(granularity / 2)).toBe(true);
      // The clock behind the times may be a tick late; a double holds them to 256 ns.
      const tick = 1e7;
      expect(at(granularity + tick - 1_000)).toBe(true);
      expect(at(granularity + tick + 1_000)).toBe(false);
      expect(at(10 * (granularity + tick))).toBe(false);
      // A clock that was set back: the change lies ahead.
      expect(at(-3_600e9)).toBe(true);
    },
  );

  test("does not exist where every change has a time of its own", () => {
    expect(isRacyStamp(stampAt(1_800_000_000_000_000_000n), 0, 1_800_000_000_000_000_000, 0)).toBe(false);
  });

  test.each([1e6, 1e7, 1e9])(
    "hides a change on a clock that ticks every %d ns, and only a racy one does",
    (granularity) => {
      simulateGranularity(granularity);
      const path = join(tempDir(), "file");
      let hidden = 0;
      for (let i = 0; i < 100; i++) {
        writeFileSync(path, `a${i % 10}`);
        const takenAt = wallClockNs();
        const before = stampOf(path);
        writeFileSync(path, `b${i % 10}`);
        if (!same(before, stampOf(path))) continue;
        hidden++;
        expect(isRacyStamp(before, 0, takenAt)).toBe(true);
      }
      expect(hidden).toBeGreaterThan(0);
      const aged = stampOf(path);
      expect(granularityOfStamp(aged, 0)).toBe(granularity);
      expect(isRacyStamp(aged, 0, wallClockNs() + 2 * granularity + 1e7)).toBe(false);
    },
  );

  test("is told by the time the kernel keeps: whole seconds have a granularity of one", () => {
    expect(isRacyStamp(stampOf(tempDir()), 0, wallClockNs())).toBe(!isExact);
  });

  test.runIf(process.platform === "linux")(
    "is not to be feared since Linux 6.13, on a file system that takes part",
    () => {
      const expected = major > 6 || (major === 6 && minor >= 13);
      if (!expected) expect(stampGranularityNs()).toBe(1e7);
      // procfs takes no part.
      expect(stampGranularityNs("/proc")).toBe(1e7);
      expect(granularityOfStamp(stampOf("/proc/self/stat"), 0)).toBeGreaterThan(0);
    },
  );
});

test("without an FFI, stamps are as good as the runtime's own times", async () => {
  const file = new URL("./stamp.child.ts", import.meta.url);
  const dir = tempDir();
  const [withFfi, without] = await Promise.all([
    runChild(file, [dir]),
    runChild(file, [dir], { env: { TUSSOCK_NO_FFI: "1" } }),
  ]);
  const answers = without.map((line) => JSON.parse(line) as { kind: string; granularityNs: number; hex: string });
  expect(answers.map(({ kind }) => kind)).toEqual(["directory", "absent", "absent", "absent", "symlink", "absent"]);
  if (isDeno) expect(answers[0]?.granularityNs).toBe(1e9);
  else expect(without).toEqual(withFfi);
});

import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DefinitionReadError } from "../../src/errors.ts";
import { listDirectory } from "../../src/scan/list.ts";
import { compareUtf8, sortByBytes } from "../../src/scan/order.ts";
import { tempDir } from "../support/spawn.ts";

const unit = fc.constantFrom("a", "b", "é", "\ud7ff", "\ue000", "\uffff", "\u{10000}", "\u{10ffff}", "/", "-");
const name = fc.string({ unit, maxLength: 5 });

describe("byte order", () => {
  test("is that of the UTF-8 bytes, surrogates or not", () => {
    fc.assert(
      fc.property(name, name, (a, b) => {
        expect(Math.sign(compareUtf8(a, b))).toBe(Math.sign(Buffer.compare(Buffer.from(a), Buffer.from(b))));
      }),
      { numRuns: 2_000 },
    );
  });

  test("is the order of a sorted list", () => {
    fc.assert(
      fc.property(fc.array(name), (names) => {
        const bytes = names.map((each) => Buffer.from(each)).sort(Buffer.compare);
        expect(sortByBytes([...names]).map((each) => Buffer.from(each))).toEqual(bytes);
      }),
    );
  });
});

describe("a listing", () => {
  test("tells files from directories, in byte order, and leaves out what is no definition", () => {
    const dir = tempDir();
    for (const file of [
      "b.yaml",
      "a.yaml",
      ".dot.yaml",
      "x.yml",
      "README.md",
      "c.YAML",
      "a.yaml~",
      "é.yaml",
      "\u{10000}.yaml",
      "\uffff.yaml",
    ]) {
      writeFileSync(join(dir, file), "");
    }
    for (const sub of ["sub", "dir.yaml", ".hidden"]) mkdirSync(join(dir, sub));
    symlinkSync("a.yaml", join(dir, "link.yaml"));
    symlinkSync("sub", join(dir, "to-sub"));
    symlinkSync("sub", join(dir, "to-sub.yaml"));
    execFileSync("mkfifo", [join(dir, "fifo.yaml")]);
    expect(listDirectory(dir)).toEqual({
      files: [
        ".dot.yaml",
        "a.yaml",
        "b.yaml",
        "fifo.yaml",
        "link.yaml",
        "to-sub.yaml",
        "é.yaml",
        "\uffff.yaml",
        "\u{10000}.yaml",
      ],
      special: ["fifo.yaml", "link.yaml", "to-sub.yaml"],
      directories: [".hidden", "dir.yaml", "sub"],
      badFilenames: [],
    });
  });

  test("names what is not UTF-8 apart, and knows a real replacement character from it", () => {
    const dir = tempDir();
    writeFileSync(join(dir, "\ufffd.yaml"), "");
    mkdirSync(join(dir, "dir-\ufffd"));
    // No runtime's own calls make such names reliably.
    execFileSync("sh", [
      "-c",
      `cd "$0" && : > "$(printf 'b\\377.yaml')" && : > "$(printf '\\376.yaml')" && : > "$(printf 'n\\377.md')" && mkdir "$(printf 'd\\377')"`,
      dir,
    ]);
    expect(listDirectory(dir)).toEqual({
      files: ["\ufffd.yaml"],
      special: [],
      directories: ["dir-\ufffd"],
      badFilenames: ["b\ufffd.yaml", "d\ufffd", "\ufffd.yaml"],
    });
  });

  test("of what is not there, or no directory, is absent", () => {
    const dir = tempDir();
    writeFileSync(join(dir, "file"), "");
    expect(listDirectory(join(dir, "missing"))).toBe("absent");
    expect(listDirectory(join(dir, "file"))).toBe("absent");
    expect(listDirectory(join(dir, "file", "below"))).toBe("absent");
  });

  test.skipIf(process.getuid?.() === 0)("that may not be read is an error with its code, not an absence", () => {
    const dir = tempDir();
    chmodSync(dir, 0);
    expect(() => listDirectory(dir)).toThrow(DefinitionReadError);
    chmodSync(dir, 0o700);
  });

  test("that fails is an error with its path and code, not an absence", () => {
    expect(() => listDirectory(`/${"x".repeat(300)}`)).toThrow(
      expect.objectContaining({ errno: "ENAMETOOLONG", path: `/${"x".repeat(300)}` }),
    );
  });
});

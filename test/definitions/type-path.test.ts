import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { filenameOfId, isFilenameSafe, normalizeType, writableType } from "../../src/definitions/type-path.ts";
import { KeyTooLongError, UnsafePathError } from "../../src/errors.ts";

describe("types", () => {
  it.each([
    ["swamp/echo", "swamp/echo"],
    ["AWS::EC2::VPC", "aws/ec2/vpc"],
    ["aws.ec2.vpc", "aws/ec2/vpc"],
    ["aws ec2\tvpc\u00a0x", "aws/ec2/vpc/x"],
    ["//a///b//", "a/b"],
    ["a:b", "a:b"],
    ["a:::b", "a/:b"],
    ["@Acme/DB", "@acme/db"],
    ["ÄÖ", "äö"],
    [". : .", ":"],
    ["", ""],
  ])("%j is normalized to %j", (type, normalized) => {
    expect(normalizeType(type)).toBe(normalized);
    expect(normalizeType({ normalized: type })).toBe(normalized);
  });

  it("are normalized once and for all, and what may be written never leads out of a root", () => {
    const parts = fc.constantFrom(
      "..",
      ".",
      "/",
      "\\",
      "::",
      " ",
      "a",
      "B",
      "\0",
      "é",
      "C:",
      "\ud800",
      "x".repeat(120),
    );
    const text = fc.oneof(
      fc.string({ unit: "grapheme" }),
      fc.array(parts, { maxLength: 8 }).map((all) => all.join("")),
    );
    fc.assert(
      fc.property(text, (type) => {
        const normalized = normalizeType(type);
        expect(normalizeType(normalized)).toBe(normalized);
        let writable: string;
        try {
          writable = writableType(type);
        } catch (error) {
          expect([UnsafePathError, KeyTooLongError]).toContain((error as Error).constructor);
          return;
        }
        expect(writable).toBe(normalized);
        const segments = writable.split("/");
        for (const segment of segments) expect(["", ".", ".."]).not.toContain(segment);
        expect(writable).not.toMatch(/\0/);
        for (const segment of segments) expect(Buffer.byteLength(segment)).toBeLessThanOrEqual(255);
      }),
      { numRuns: 2000 },
    );
  });
});

describe("names and ids", () => {
  it("are filename-safe by swamp's rule", () => {
    for (const name of ["a", "0", "web-1", "a_b", "x".repeat(64)]) expect(isFilenameSafe(name), name).toBe(true);
    const unsafe = ["", "-a", "_a", "A", "a.b", "a/b", "a b", "é", "x".repeat(65), "a\n", "a\0", ".."];
    for (const name of unsafe) expect(isFilenameSafe(name), JSON.stringify(name)).toBe(false);
  });

  it("make one file's name, or none", () => {
    expect(filenameOfId("00000001-1111-4222-8333-000000000001")).toBe("00000001-1111-4222-8333-000000000001.yaml");
    expect(filenameOfId("x".repeat(250))).toHaveLength(255);
    expect(() => filenameOfId("x".repeat(251))).toThrow(KeyTooLongError);
    expect(() => filenameOfId("é".repeat(126))).toThrow(KeyTooLongError);
    for (const id of ["..", "a/b", "/a", "a\\b", "\0", "\udc00"])
      expect(() => filenameOfId(id), id).toThrow(UnsafePathError);
  });
});

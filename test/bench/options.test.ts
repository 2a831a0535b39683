import { describe, expect, test } from "vitest";
import { lookupSizes } from "../../bench/support/context.ts";
import { readOptions, UsageError } from "../../bench/support/options.ts";

const files = (...args: string[]): string[] => readOptions(args, "node").questions.map(({ name }) => name);

describe("the options", () => {
  test("have the sizes of the page as defaults, and small ones for a quick run", () => {
    expect(readOptions([], "node")).toMatchObject({ n: 50_000, records: 1_000_000, rounds: 9, library: "dist" });
    expect(readOptions(["--quick"], "node")).toMatchObject({ n: 1_000, records: 20_000, rounds: 5 });
    expect(readOptions(["--n", "1,000,000", "--records", "10_000_000"], "node")).toMatchObject({
      n: 1_000_000,
      records: 10_000_000,
    });
  });

  test("choose rows, and the files that answer them", () => {
    expect(files("--only", "miss", "--only", "queue,sweep")).toEqual(["lookups", "state-sweep", "queue"]);
    expect(readOptions(["--only", "miss"], "node").only).toEqual(["miss"]);
    expect(readOptions(["--only", "lookups"], "node").only).toEqual(["hit", "repository-hit", "miss", "flat"]);
    expect(readOptions([], "node").only).toBeNull();
  });

  test("on Deno, choose among what a server feels", () => {
    const asked = readOptions([], "deno").questions.map(({ name }) => name);
    expect(asked).toContain("lookups");
    expect(asked).not.toContain("import");
    expect(() => readOptions(["--only", "import"], "deno")).toThrow(UsageError);
  });

  test.each([["--n", "0.5"], ["--n", "many"], ["--rounds", "4"], ["--only", "nothing"], ["--nonsense"]])(
    "%s %s is refused",
    (...args) => {
      expect(() => readOptions(args, "node")).toThrow(UsageError);
    },
  );
});

test("look-ups are asked for at growing sizes, the asked one last", () => {
  expect(lookupSizes({ n: 5_000, quick: true })).toEqual([500, 5_000]);
  expect(lookupSizes({ n: 50_000, quick: false })).toEqual([1_000, 10_000, 50_000]);
  expect(lookupSizes({ n: 1_000, quick: false })).toEqual([1_000]);
});

import { describe, expect, test } from "vitest";
import { type MemoryPlace, openMemoryStore } from "../support/memory-control-plane.ts";
import { isLong, runChild } from "../support/spawn.ts";
import { controlPlaneConformance } from "./index.ts";

describe("a store whose every call is over at once passes", () => {
  const cases = controlPlaneConformance(async () => {
    const place: MemoryPlace = new Map();
    return { open: async () => openMemoryStore(place) };
  });
  for (const { name, run } of cases) test(name, run);
});

describe("a store that fails does not keep the promise, and the process that asked lives on:", () => {
  const CHILD = new URL("failing.child.ts", import.meta.url);
  const outcomes = async (...args: string[]) => {
    const lines = await runChild(CHILD, args, { env: { TUSSOCK_NO_WORKERS: "1" } });
    expect(lines.pop()).toBe("alive");
    return lines;
  };
  const numbers = (count: number) => Array.from({ length: count }, (_, n) => `${n}`);

  test("one that refuses what comes after close by an error without a code", async () => {
    const failed = (await outcomes("closed", "0")).filter((line) => !line.startsWith("kept"));
    expect(failed).toEqual(["not kept (ERR_ASSERTION): after close every call is refused; the records stay"]);
  });

  test("control-plane records, at whatever call they begin to fail", async () => {
    const lines = await outcomes("control plane", ...(isLong ? numbers(30) : ["0", "1", "2", "5"]));
    expect(lines).toContain(
      "not kept (broken): of all who putIfAbsent at once exactly one does, and its record is the one that is there",
    );
    expect(lines.filter((line) => line.startsWith("not kept")).length).toBeGreaterThan(30);
  });

  test("a state index, at whatever call it begins to fail", async () => {
    const lines = await outcomes("state index", ...(isLong ? numbers(30) : ["2", "310"]));
    expect(lines.filter((line) => line.startsWith("not kept")).length).toBeGreaterThan(60);
  });
});

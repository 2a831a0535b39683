import { expect, test } from "vitest";
import { type CpuProfile, hottest, stageOf, stagesOf } from "../../bench/support/cpu-profile.ts";

const frame = (functionName: string, url = "") => ({ functionName, url });

test("a function belongs to the stage of the file that it stands in", () => {
  expect(stageOf(frame("open"))).toBe("system calls");
  expect(stageOf(frame("readSync", "node:fs"))).toBe("system calls");
  expect(stageOf(frame("readStamp", "file:///x/src/scan/stamp.ts"))).toBe("system calls");
  expect(stageOf(frame("plain", "file:///x/src/scan/recognize-text.ts"))).toBe("header extraction");
  expect(stageOf(frame("parse", "file:///x/node_modules/yaml/dist/index.js"))).toBe("header extraction");
  expect(stageOf(frame("add", "file:///x/src/definitions/bulk-load.ts"))).toBe("packing and sorting");
  expect(stageOf(frame("putSync", "file:///x/node_modules/lmdb/write.js"))).toBe("LMDB");
  expect(stageOf(frame("post", "file:///x/src/scan/worker.ts"))).toBe("hand-over between threads");
  expect(stageOf(frame("compileSourceTextModule", "node:internal/modules/esm/utils"))).toBe("loading code");
  expect(stageOf(frame("(garbage collector)"))).toBe("garbage collection");
  expect(stageOf(frame("(idle)"))).toBe("idle");
  expect(stageOf(frame("whatever", "file:///elsewhere.ts"))).toBe("other");
});

test("a profile is summed by stage, and its hottest functions are named", () => {
  const profile: CpuProfile = {
    nodes: [
      { id: 1, callFrame: frame("(idle)") },
      { id: 2, callFrame: frame("open") },
      { id: 3, callFrame: frame("add", "file:///x/src/definitions/bulk-load.ts") },
    ],
    samples: [1, 2, 3, 3],
    timeDeltas: [5_000, 1_000, 1_500, 500],
  };
  expect(stagesOf(profile)).toMatchObject({ idle: 5, "system calls": 1, "packing and sorting": 2, other: 0 });
  expect(hottest(profile, 1)).toEqual([["add definitions/bulk-load.ts", 2]]);
});

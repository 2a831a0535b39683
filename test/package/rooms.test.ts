/** The checks of the rooms find what they are there to find. */
import { mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { checkDirections, checkNativeFree } from "../../scripts/check-rooms.ts";
import { probeImport } from "../../scripts/import-probe.ts";
import { isDeno, tempDir } from "../support/spawn.ts";

function tree(files: Record<string, string>): string {
  const root = tempDir();
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), text);
  }
  return root;
}

describe("direction of imports", () => {
  test("an import from above is found, in each of its forms", () => {
    const root = tree({
      "src/definitions/index.ts": "export const a = 1;",
      "src/lock/value.ts": `import { a } from "../definitions/index.ts";`,
      "src/lock/type.ts": `import type { a } from "../definitions/index.ts";`,
      "src/lock/export.ts": `export * from "../definitions/index.ts";`,
      "src/lock/later.ts": `await import("../definitions/index.ts");`,
      "src/lock/named.ts": `type A = import("../definitions/index.ts").A;`,
    });
    const message = (name: string) => `src/lock/${name}.ts:1: lock must not import from definitions`;
    expect(checkDirections(root)).toEqual(["export", "later", "named", "type", "value"].map(message));
  });

  test("downward, within a room and to the ground is allowed; the top is for nobody", () => {
    const root = tree({
      "src/index.ts": `export * from "./definitions/index.ts";`,
      "src/errors.ts": "",
      "src/ffi/libc.ts": `import "../errors.ts";`,
      "src/scan/index.ts": `import "../ffi/libc.ts";`,
      "src/definitions/store.ts": "",
      "src/definitions/index.ts": `import "../scan/index.ts";\nimport "./store.ts";\nimport "../errors.ts";`,
    });
    expect(checkDirections(root)).toEqual([]);
    writeFileSync(join(root, "src/scan/index.ts"), `import "../index.ts";`);
    expect(checkDirections(root)).toEqual(["src/scan/index.ts:1: scan must not import from index.ts"]);
  });

  test("neither the ground nor a room that nobody knows may import a room, and what is not there is found", () => {
    const root = tree({
      "src/lock/index.ts": "",
      "src/ground.ts": `import "./lock/index.ts";`,
      "src/ffi/a.ts": `import "../lock/index.ts";`,
      "src/annex/a.ts": `import "../lock/index.ts";\nimport "./gone.ts";`,
    });
    expect(checkDirections(root)).toEqual([
      "src/annex/a.ts:1: annex must not import from lock",
      "src/annex/a.ts:2: ./gone.ts does not exist",
      "src/ffi/a.ts:1: ffi must not import from lock",
      "src/ground.ts:1: ground.ts must not import from lock",
    ]);
  });
});

describe("native-free entries", () => {
  const found = (text: string) =>
    checkNativeFree(tree({ "src/scan/index.ts": `import "./a.ts";`, "src/scan/a.ts": text }));

  test("native code is found through any number of files, now or later", () => {
    const via = "src/scan/index.ts → src/scan/a.ts:1:";
    expect(found(`import "lmdb";`)).toEqual([`${via} lmdb is native, and bundlers follow this import`]);
    expect(found(`export { open } from "lmdb";`)).toHaveLength(1);
    expect(found(`const koffi = () => import("koffi");`)).toEqual([
      `${via} koffi is native, and bundlers follow this import`,
    ]);
    expect(found(`import "node:sqlite";`)).toEqual([`${via} node:sqlite is loaded on import`]);
    expect(found(`import "fs";`)).toEqual([`${via} fs lacks its node: prefix`]);
  });

  test("a plain package must be seen by bundlers", () => {
    expect(found(`import "yaml";\nimport { parse } from "yaml/util";`)).toEqual([]);
    expect(found(`createRequire(import.meta.url)("yaml");`)).toEqual([
      "src/scan/index.ts → src/scan/a.ts:1: yaml is hidden from bundlers, so that a bundle lacks it",
    ]);
    const either = `const slow = () => import("yaml");\nconst fast = () => createRequire(import.meta.url)("yaml");`;
    expect(found(either)).toEqual([]);
  });

  test("what is loaded at first use where bundlers do not look is allowed, and so are types", () => {
    expect(found(`createRequire(import.meta.url)("koffi");`)).toEqual([]);
    expect(found(`process.getBuiltinModule("node:sqlite");`)).toEqual([]);
    expect(found(`const later = () => import("node:sqlite");`)).toEqual([]);
    expect(found(`import type { RootDatabase } from "lmdb";\nimport "node:fs";`)).toEqual([]);
  });

  test("built files are looked at too, CommonJS included, and so are worker programs", () => {
    const root = tree({
      "dist/scan.cjs": `const chunk = require("./chunk-A.cjs");`,
      "dist/chunk-A.cjs": `const lmdb = require("lmdb");`,
      "dist/scan-worker.js": `import "./chunk-B.js";`,
      "dist/chunk-B.js": `import { open } from "lmdb";`,
    });
    expect(checkNativeFree(root)).toEqual([
      "dist/scan.cjs → dist/chunk-A.cjs:1: lmdb is native, and bundlers follow this import",
      "dist/scan-worker.js → dist/chunk-B.js:1: lmdb is native, and bundlers follow this import",
    ]);
  });
});

describe.skipIf(isDeno)("what importing does", () => {
  const koffi = createRequire(import.meta.url).resolve("koffi");
  const busy = "for (const start = process.cpuUsage(); process.cpuUsage(start).user < 100_000; );";
  test.each([
    ["a file", `import fs from "node:fs"; fs.openSync("/proc/self/status");`, "opens /proc/"],
    ["a timer", "setTimeout(() => {}, 1e6);", "starts Timeout"],
    ["a watcher", `import fs from "node:fs"; fs.watch("/");`, "starts FSEvent"],
    [
      "a worker",
      `import { Worker } from "node:worker_threads"; new Worker("setTimeout(() => {}, 1e6)", { eval: true });`,
      "starts ",
    ],
    ["native code", `import ${JSON.stringify(koffi)};`, "loads native code: "],
    ["a wait", busy, "takes "],
  ])("%s is found on Node", async (_, text, problem) => {
    const problems = await probeImport("node", join(tree({ "a.mjs": text }), "a.mjs"), 1);
    expect(problems.join("\n")).toContain(problem);
  });

  test.each([
    ["a file", `import fs from "node:fs"; fs.openSync("/proc/self/status");`, "opens /proc/"],
    ["a watcher", "Deno.watchFs(import.meta.dirname);", "opens anon_inode:inotify"],
    [
      "a worker",
      `import { Worker } from "node:worker_threads"; new Worker("setTimeout(() => {}, 1e6)", { eval: true });`,
      "opens ",
    ],
    ["a wait", busy, "takes "],
  ])("%s is found on Deno", async (_, text, problem) => {
    const problems = await probeImport("deno", join(tree({ "a.mjs": text }), "a.mjs"), 1);
    expect(problems.join("\n")).toContain(problem);
  });

  test("a module that only defines things passes, as a module and as CommonJS", async () => {
    const root = tree({
      "a.mjs": `import fs from "node:fs"; import "node:util"; import "node:worker_threads"; export const read = fs.readFileSync;`,
      "a.cjs": `const fs = require("node:fs"); require("node:worker_threads"); exports.read = fs.readFileSync;`,
    });
    expect(await probeImport("node", join(root, "a.mjs"))).toEqual([]);
    expect(await probeImport("node", join(root, "a.cjs"))).toEqual([]);
    expect(await probeImport("deno", join(root, "a.mjs"))).toEqual([]);
  });
});

/** The checks of the package find what they are there to find. */
import { cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  checkContents,
  checkDeclarations,
  checkLint,
  checkTypes,
  checkUse,
  install,
  pack,
} from "../../scripts/check-package.ts";
import { isDeno, tempDir } from "../support/spawn.ts";

const entry = (name: string) => ({
  import: { types: `./dist/${name}.d.ts`, default: `./dist/${name}.js` },
  require: { types: `./dist/${name}.d.cts`, default: `./dist/${name}.cjs` },
});

/** A small package of the same shape as ours; `change` breaks it. */
function fake(change: { files?: Record<string, string | null>; manifest?: Record<string, unknown> } = {}): string {
  const root = tempDir();
  const manifest = {
    name: "tussock",
    version: "0.0.1",
    license: "MIT",
    type: "module",
    engines: { node: ">=22" },
    sideEffects: false,
    files: ["dist"],
    main: "./dist/index.cjs",
    module: "./dist/index.js",
    types: "./dist/index.d.cts",
    exports: { ".": entry("index"), "./lock": entry("lock") },
    dependencies: { "p-limit": "*" },
    ...change.manifest,
  };
  const files: Record<string, string | null> = {
    "package.json": JSON.stringify(manifest),
    LICENSE: "MIT",
    "dist/chunk-A.js": `import limit from "p-limit"; export class Lock {}; export const used = limit;`,
    "dist/chunk-B.cjs": "exports.Lock = class Lock {};",
    ...change.files,
  };
  for (const name of ["index", "lock"]) {
    files[`dist/${name}.js`] ??= `export { Lock } from "./chunk-A.js";`;
    files[`dist/${name}.cjs`] ??= `const { Lock } = require("./chunk-B.cjs"); exports.Lock = Lock;`;
    for (const extension of ["d.ts", "d.cts"])
      if (files[`dist/${name}.${extension}`] === undefined)
        files[`dist/${name}.${extension}`] = "export declare class Lock { private readonly held; }";
  }
  mkdirSync(join(root, "dist"));
  for (const [name, text] of Object.entries(files)) if (text !== null) writeFileSync(join(root, name), text);
  return root;
}

/** As `npm pack` and an installation leave it, without the time that both take. */
function installed(root: string): string {
  const project = tempDir();
  const target = join(project, "node_modules", "tussock");
  cpSync(root, target, { recursive: true });
  const modules = join(import.meta.dirname, "../../node_modules");
  cpSync(join(modules, "p-limit"), join(project, "node_modules/p-limit"), { recursive: true });
  cpSync(join(modules, "yocto-queue"), join(project, "node_modules/yocto-queue"), { recursive: true });
  return project;
}

describe.skipIf(isDeno)("the package", () => {
  test("a sound one passes every check", async () => {
    const into = tempDir();
    const tarball = pack(fake(), into);
    const project = join(into, "project");
    const target = install(tarball, project, { optional: true });
    expect(await checkLint(tarball)).toEqual([]);
    expect(checkTypes(tarball)).toEqual([]);
    expect(checkContents(target)).toEqual([]);
    expect(checkDeclarations(project)).toEqual([]);
    expect(checkUse(project)).toEqual([]);
  });

  test("an entry that is not built, and one that is not exported, are found", () => {
    const root = fake({ files: { "dist/lock.d.cts": null, "dist/state.cjs": "", "notes.txt": "" } });
    expect(checkContents(root)).toEqual([
      "dist/state is built but not exported",
      "dist/lock.d.cts is exported but not built",
      "notes.txt does not belong into the package",
    ]);
  });

  test("publint and attw are listened to", async () => {
    const manifest = { exports: { ".": { default: "./dist/index.js", types: "./dist/index.d.ts" } } };
    const tarball = pack(fake({ manifest }), tempDir());
    expect((await checkLint(tarball)).join("\n")).toContain("publint: ");
    expect(checkTypes(tarball).join("\n")).toContain("attw: ");
  });

  test("a class that differs between subpaths, and a name that only one format has, are found", () => {
    const twice = fake({ files: { "dist/lock.cjs": "exports.Lock = class Lock {};" } });
    expect(checkUse(installed(twice))).toEqual(["Lock is another one in tussock/lock than in tussock (require)"]);
    const uneven = fake({ files: { "dist/lock.js": `export { Lock, used } from "./chunk-A.js";` } });
    expect(checkUse(installed(uneven))).toEqual(["tussock/lock differs between import and require"]);
  });

  test("a dependency that is not declared is found", () => {
    const project = installed(fake());
    rmSync(join(project, "node_modules/p-limit"), { recursive: true });
    expect(checkUse(project).join("\n")).toContain("Cannot find package 'p-limit'");
  });

  test("declarations that need what users need not have are found", () => {
    const root = fake({
      files: { "dist/lock.d.ts": `import type { Span } from "@opentelemetry/api";\nexport declare const Lock: Span;` },
    });
    expect(checkDeclarations(installed(root)).join("\n")).toContain("Cannot find module '@opentelemetry/api'");
  });
});

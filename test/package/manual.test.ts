/** API.md names every public name. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");
const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  exports: Record<string, unknown>;
};
const subpaths = Object.keys(exports).filter((each) => each !== "./package.json");

/** Code spans and headings; an example alone explains nothing. */
const text = readFileSync(join(root, "API.md"), "utf8").replaceAll(/^```.*?^```$/gms, "");
const named = new Set([...text.matchAll(/`[^`\n]*`|^#+ .*$/gm)].flatMap(([each]) => each.match(/[\w$]+/g) ?? []));

function sourceOf(subpath: string): string {
  const room = subpath === "." ? "" : subpath.slice("./".length);
  return join(root, room === "conformance" ? "test" : "src", room, "index.ts");
}

test.each(subpaths)("of %s", async (subpath) => {
  const names = Object.keys((await import(sourceOf(subpath))) as object);
  expect(names.length).toBeGreaterThan(0);
  expect(names.filter((name) => !named.has(name))).toEqual([]);
});

/**
 * The walls between the rooms of `src/`: who may import whom, what authors of extensions have bundled is free of native
 * code, and importing the library does nothing.
 */
import { existsSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { basename, join, relative, sep } from "node:path";
import { probeImport } from "./import-probe.ts";
import { closure, filesIn, type Import, importsOf, resolveRelative } from "./imports.ts";
import { report } from "./report.ts";

/** What each room may import besides itself and the ground: the files directly in `src/`, and `src/ffi/`. */
const ROOMS: Record<string, readonly string[]> = {
  telemetry: [],
  // `tussock.lock.wait` is a span of its own.
  lock: ["telemetry"],
  liveness: ["lock"],
  lmdb: ["lock", "liveness"],
  watch: [],
  scan: ["telemetry"],
  transitions: ["telemetry"],
  // One process at a time delivers a mirror's outbox: the lock primitive serves the whole library.
  state: ["lock", "liveness", "telemetry"],
  postgres: ["state", "liveness", "telemetry"],
  definitions: ["scan", "watch", "lmdb", "lock", "liveness", "telemetry"],
  swamp: ["definitions", "state", "scan", "lock"],
};
/** Everything below it. */
ROOMS["cli"] = Object.keys(ROOMS);

const GROUND = "ffi";

export function checkDirections(root: string): string[] {
  const problems: string[] = [];
  const src = join(root, "src");
  for (const file of filesIn(src, /\.ts$/)) {
    const room = roomOf(src, file);
    if (room === "index.ts") continue;
    for (const { specifier, line } of importsOf(file)) {
      const target = resolveRelative(file, specifier);
      if (target === undefined) continue;
      const imported = roomOf(src, target);
      const where = `${relative(root, file)}:${line}`;
      if (!existsSync(target)) problems.push(`${where}: ${specifier} does not exist`);
      else if (!mayImport(room, imported)) problems.push(`${where}: ${room} must not import from ${imported}`);
    }
  }
  return problems;
}

/** The directory below `src/`, or the file's own name when it lies directly there. */
function roomOf(src: string, file: string): string {
  return relative(src, file).split(sep)[0] ?? "";
}

function isGround(room: string): boolean {
  return room === GROUND || (room.endsWith(".ts") && room !== "index.ts");
}

function mayImport(room: string, imported: string): boolean {
  if (imported === room || isGround(imported)) return true;
  return (ROOMS[room] ?? []).includes(imported);
}

/** Packages that are plain JavaScript; any other is taken for native. */
const PLAIN_PACKAGES = ["yaml", "p-limit", "chokidar"];
/** Loads native code of its own, and is missing in some builds of the runtimes. */
const NATIVE_BUILTINS = ["node:sqlite"];

export const NATIVE_FREE = ["scan", "transitions", "liveness", "conformance"];

/** The entries of `src/`, and of `dist/` when it has been built, with the worker programs that they start. */
export function checkNativeFree(root: string): string[] {
  const problems: string[] = [];
  for (const name of NATIVE_FREE) {
    const sources = [`src/${name}/index.ts`, `src/${name}/worker.ts`, `test/${name}/index.ts`];
    const built = [`dist/${name}.js`, `dist/${name}.cjs`, `dist/${name}-worker.js`];
    for (const entry of [...sources, ...built]) problems.push(...nativeImports(root, join(root, entry)));
  }
  return problems;
}

function* nativeImports(root: string, entry: string): Generator<string> {
  const reached = [...closure(entry)];
  const imports = reached.flatMap((each) => each.imports);
  const seen = new Set(imports.filter(({ kind }) => kind === "static" || kind === "dynamic").map(packageOf));
  for (const { via, imports } of reached)
    for (const each of imports) {
      const why = whyNotBundled(each, seen);
      if (why === null) continue;
      const path = via.map((file) => relative(root, file)).join(" → ");
      yield `${path}:${each.line}: ${each.specifier} ${why}`;
    }
}

/** `seen`: packages that bundlers find anyway. */
function whyNotBundled(each: Import, seen: ReadonlySet<string>): string | null {
  const { specifier, kind } = each;
  if (kind === "type" || specifier.startsWith(".")) return null;
  if (NATIVE_BUILTINS.includes(specifier)) return kind === "static" ? "is loaded on import" : null;
  if (specifier.startsWith("node:")) return null;
  if (builtinModules.includes(specifier)) return "lacks its node: prefix";
  const name = packageOf(each);
  if (!PLAIN_PACKAGES.includes(name)) return kind === "hidden" ? null : "is native, and bundlers follow this import";
  return seen.has(name) ? null : "is hidden from bundlers, so that a bundle lacks it";
}

function packageOf({ specifier }: Import): string {
  return specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/");
}

/** Every entry of the built package, as each runtime and format imports it. */
export async function checkImporting(root: string): Promise<string[]> {
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { exports: Record<string, unknown> };
  const entries = Object.keys(manifest.exports)
    .filter((subpath) => subpath !== "./package.json")
    .map((subpath) => (subpath === "." ? "index" : basename(subpath)));
  const problems: string[] = [];
  for (const entry of entries)
    for (const [runtime, file] of [
      ["node", `${entry}.js`],
      ["node", `${entry}.cjs`],
      ["deno", `${entry}.js`],
    ] as const)
      for (const problem of await probeImport(runtime, join(root, "dist", file)))
        problems.push(`importing dist/${file} on ${runtime} ${problem}`);
  return problems;
}

if (import.meta.main) {
  const root = join(import.meta.dirname, "..");
  report("rooms import downward only", checkDirections(root));
  report(`${NATIVE_FREE.join(", ")} are free of native code`, checkNativeFree(root));
  report("importing opens nothing and takes no time", await checkImporting(root));
}

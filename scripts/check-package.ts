/**
 * The package as users get it: packed, linted, its types resolved in every way, and installed into an empty project where
 * every subpath is imported as a module and as CommonJS.
 */
import { execFileSync, spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { deno } from "./import-probe.ts";
import { filesIn } from "./imports.ts";
import { report } from "./report.ts";

const repository = join(import.meta.dirname, "..");
const modules = join(repository, "node_modules");

interface Manifest {
  name: string;
  version: string;
  exports: Record<string, unknown>;
  bin?: Record<string, string>;
  dependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
}

/** Packs what `root` holds, as built, into `into`. */
export function pack(root: string, into: string): string {
  const output = execFileSync("npm", ["pack", "--ignore-scripts", "--json", "--pack-destination", into], {
    cwd: root,
    encoding: "utf8",
  });
  const [packed] = JSON.parse(output) as { filename: string }[];
  return join(into, basename(packed?.filename ?? ""));
}

/** Unpacks it into an empty project that has its declared dependencies, and nothing else, beside it. */
export function install(tarball: string, into: string, options: { optional: boolean }): string {
  const target = join(into, "node_modules", "tussock");
  mkdirSync(target, { recursive: true });
  execFileSync("tar", ["-xzf", tarball, "-C", target, "--strip-components=1"]);
  const { dependencies = {}, optionalDependencies = {} } = manifestOf(target);
  for (const name of Object.keys({ ...dependencies, ...(options.optional ? optionalDependencies : {}) })) {
    const link = join(into, "node_modules", name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(modules, name), link);
  }
  writeFileSync(join(into, "package.json"), JSON.stringify({ name: "user", private: true, type: "module" }));
  return target;
}

function manifestOf(dir: string): Manifest {
  return JSON.parse(readFileSync(join(dir, "package.json"), "utf8")) as Manifest;
}

function subpathsOf({ exports }: Manifest): string[] {
  return Object.keys(exports).filter((subpath) => subpath !== "./package.json");
}

/** Every built entry is exported and every export is built; nothing else is in the package. */
export function checkContents(installed: string): string[] {
  const problems: string[] = [];
  const manifest = manifestOf(installed);
  const exported = new Set(subpathsOf(manifest).map((subpath) => (subpath === "." ? "index" : basename(subpath))));
  for (const file of filesIn(join(installed, "dist"), /\.cjs$/)) {
    const entry = basename(file, ".cjs");
    // What is loaded later is called after its module.
    const isChunk = /^chunk-|-[A-Z0-9]{8}$/.test(entry);
    if (!isChunk && !exported.has(entry)) problems.push(`dist/${entry} is built but not exported`);
  }
  for (const entry of exported)
    for (const extension of ["js", "cjs", "d.ts", "d.cts"])
      if (!existsSync(join(installed, "dist", `${entry}.${extension}`)))
        problems.push(`dist/${entry}.${extension} is exported but not built`);
  const allowed = ["dist", "API.md", "CHANGELOG.md", "LICENSE", "README.md", "package.json"];
  for (const name of readdirSync(installed))
    if (!allowed.includes(name)) problems.push(`${name} does not belong into the package`);
  for (const file of filesIn(join(installed, "dist"), /./))
    if (/from "vitest"|require\("vitest"\)/.test(readFileSync(file, "utf8")))
      problems.push(`${file.slice(installed.length + 1)} needs vitest, which users need not have`);
  return problems;
}

export async function checkLint(tarball: string): Promise<string[]> {
  const { messages, pkg } = await publint({
    pack: { tarball: new Uint8Array(readFileSync(tarball)).buffer },
    strict: true,
  });
  return messages.map((message) => `publint: ${formatMessage(message, pkg)}`);
}

/** `node10` is left out: it knows no subpaths. */
export function checkTypes(tarball: string): string[] {
  const attw = join(modules, ".bin", "attw");
  const { status, stdout, stderr } = spawnSync(attw, ["--profile", "node16", "--no-emoji", "--no-color", tarball], {
    encoding: "utf8",
  });
  return status === 0 ? [] : [`attw: ${stdout}${stderr}`];
}

/** The declarations hold together, and TypeScript finds them from a module and from CommonJS. */
export function checkDeclarations(project: string): string[] {
  const subpaths = subpathsOf(manifestOf(join(project, "node_modules", "tussock")));
  const lines = subpaths.map((subpath, index) => `import * as _${index} from "${join("tussock", subpath)}";`);
  const uses = subpaths.map((_, index) => `void _${index};`);
  for (const extension of ["mts", "cts"])
    writeFileSync(join(project, `use.${extension}`), [...lines, ...uses, ""].join("\n"));
  const types = join(modules, "@types");
  const flags = [
    "--noEmit",
    "--strict",
    "--module",
    "nodenext",
    "--target",
    "es2023",
    "--types",
    "node",
    "--typeRoots",
    types,
  ];
  const libraries = ["--lib", "es2023,esnext.disposable"];
  const tsc = join(modules, "typescript", "bin", "tsc");
  const { status, stdout } = spawnSync(process.execPath, [tsc, ...flags, ...libraries, "use.mts", "use.cts"], {
    cwd: project,
    encoding: "utf8",
  });
  return status === 0 ? [] : [`declarations: ${stdout}`];
}

const USE = `
  const problems = [];
  const byName = new Map();
  for (const subpath of subpaths) {
    const specifier = subpath === "." ? "tussock" : "tussock" + subpath.slice(1);
    const module = await import(specifier);
    const common = require(specifier);
    const names = Object.keys(module).filter((name) => name !== "module.exports").sort();
    if (names.length === 0) problems.push(specifier + " exports nothing");
    if (names.join() !== Object.keys(common).filter((name) => name !== "__esModule").sort().join())
      problems.push(specifier + " differs between import and require");
    for (const [format, exported] of [["import", module], ["require", common]])
      for (const name of names) {
        const first = byName.get(format + name);
        if (first === undefined) byName.set(format + name, { value: exported[name], specifier });
        else if (first.value !== exported[name])
          problems.push(name + " is another one in " + specifier + " than in " + first.specifier + " (" + format + ")");
      }
  }
  console.log(JSON.stringify(problems));
`;

/** Imports every subpath in both formats; the same name is the same thing everywhere within a format. */
export function checkUse(project: string): string[] {
  const subpaths = subpathsOf(manifestOf(join(project, "node_modules", "tussock")));
  const program = join(project, "use.mjs");
  const head = `import { createRequire } from "node:module";\nconst require = createRequire(import.meta.url);\n`;
  writeFileSync(program, `${head}const subpaths = ${JSON.stringify(subpaths)};${USE}`);
  const { status, stdout, stderr } = spawnSync(process.execPath, [program], { cwd: project, encoding: "utf8" });
  if (status !== 0) return [`using it fails: ${stderr}`];
  return [...(JSON.parse(stdout) as string[]), ...(stderr === "" ? [] : [`importing it warns: ${stderr}`])];
}

/** Does the main jobs with the installed package, by `import` and by `require`. */
export function checkWork(project: string): string[] {
  const program = join(project, "use-package.ts");
  copyFileSync(join(import.meta.dirname, "use-package.ts"), program);
  return ["import", "require"].flatMap((format) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [program, format], {
      cwd: project,
      encoding: "utf8",
    });
    if (status !== 0) return [`working with it by ${format} fails: ${stderr}`];
    return (JSON.parse(stdout) as string[]).map((problem) => `working with it by ${format}: ${problem}`);
  });
}

/** The native-free subpaths, bundled into one file and run on Deno with nothing beside it. */
export function checkBundle(project: string, alone: string): string[] {
  mkdirSync(alone, { recursive: true });
  const program = readFileSync(join(import.meta.dirname, "use-bundle.ts"), "utf8");
  const asUser = program.replaceAll(/"\.\.\/src\/(\w+)\/index\.ts"/g, '"tussock/$1"');
  writeFileSync(join(project, "use-bundle.ts"), asUser);
  const bundle = join(alone, "bundle.js");
  const run = (...args: string[]) => spawnSync(process.execPath, [deno, ...args], { cwd: project, encoding: "utf8" });
  const bundled = run("bundle", "--quiet", "--node-modules-dir=manual", "use-bundle.ts", "-o", bundle);
  if (bundled.status !== 0) return [`Deno bundles nothing: ${bundled.stderr}`];
  const { status, stdout, stderr } = run("run", "-A", "--quiet", bundle);
  if (status !== 0 || stderr !== "") return [`a bundle fails on Deno: ${stderr}`];
  return (JSON.parse(stdout) as string[]).map((problem) => `a bundle on Deno: ${problem}`);
}

if (import.meta.main) {
  const temporary = mkdtempSync(join(tmpdir(), "tussock-package-"));
  try {
    const tarball = pack(repository, temporary);
    report("publint", await checkLint(tarball));
    report("types resolve in modules and in CommonJS", checkTypes(tarball));
    for (const optional of [true, false]) {
      const project = join(temporary, optional ? "all" : "bare");
      const installed = install(tarball, project, { optional });
      if (optional) report("the package holds what it exports", checkContents(installed));
      if (!optional) report("declarations need no peer", checkDeclarations(project));
      const how = optional ? "installed" : "without optional dependencies";
      report(`every subpath can be imported ${how}`, checkUse(project));
      report(`the main jobs are done ${how}`, checkWork(project));
      if (!optional) report("what authors bundle works alone", checkBundle(project, join(temporary, "alone")));
    }
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}

/** Which asynchronous calls the package offers, as its types tell. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

export interface PublicCall {
  /** The function's name, or `Interface.method`. */
  name: string;
  takesSignal: boolean;
}

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const ASYNCHRONOUS = new Set(["Promise", "AsyncIterable", "AsyncIterator", "AsyncIterableIterator", "AsyncGenerator"]);

/** Of every function, and every method of every interface, that an entry of the package exports. */
export function publicCalls(): PublicCall[] {
  const files = entryFiles();
  const config = ts.getParsedCommandLineOfConfigFile(
    `${ROOT}tsconfig.json`,
    {},
    { ...ts.sys, onUnRecoverableConfigFileDiagnostic: (problem) => fail(String(problem.messageText)) },
  );
  const program = ts.createProgram(files, config?.options ?? {});
  const checker = program.getTypeChecker();
  const calls = new Map<string, PublicCall>();

  const note = (name: string, type: ts.Type): void => {
    const signatures = checker.getNonNullableType(type).getCallSignatures();
    if (!signatures.some((signature) => isAsynchronous(signature.getReturnType()))) return;
    const takesSignal = signatures.some((signature) => signature.getParameters().some((each) => hasSignal(each)));
    calls.set(name, { name, takesSignal });
  };
  const hasSignal = (parameter: ts.Symbol): boolean =>
    constituents(checker.getNonNullableType(checker.getTypeOfSymbol(parameter))).some(
      (type) => type.getSymbol()?.name === "AbortSignal" || type.getProperty("signal") !== undefined,
    );

  for (const file of files) {
    const source = program.getSourceFile(file) ?? fail(`${file} is not part of the program`);
    const module = checker.getSymbolAtLocation(source) ?? fail(`${file} exports nothing`);
    for (const exported of checker.getExportsOfModule(module)) {
      const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported;
      if (symbol.flags & ts.SymbolFlags.Value) note(exported.name, checker.getTypeOfSymbol(symbol));
      if (!(symbol.flags & ts.SymbolFlags.Type)) continue;
      const type = checker.getDeclaredTypeOfSymbol(symbol);
      // An alias has the methods of what it stands for.
      const owner = type.getSymbol()?.name ?? exported.name;
      for (const property of type.getProperties()) {
        // `[Symbol.asyncDispose]` is `close` under another name.
        if (property.name.startsWith("__@")) continue;
        note(`${owner}.${property.name}`, checker.getTypeOfSymbol(property));
      }
    }
  }
  return [...calls.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

function isAsynchronous(type: ts.Type): boolean {
  return constituents(type).some((each) => ASYNCHRONOUS.has(each.getSymbol()?.name ?? ""));
}

function constituents(type: ts.Type): readonly ts.Type[] {
  return type.isUnion() ? type.types : [type];
}

function entryFiles(): string[] {
  const { exports } = JSON.parse(readFileSync(`${ROOT}package.json`, "utf8")) as { exports: Record<string, unknown> };
  return Object.keys(exports)
    .filter((entry) => entry !== "./package.json")
    .map((entry) => {
      const places = [`src/${entry}/index.ts`, `test/${entry}/index.ts`].map((path) => join(ROOT, path));
      return places.find((path) => existsSync(path)) ?? fail(`the entry ${entry} has no source`);
    });
}

function fail(message: string): never {
  throw new Error(message);
}

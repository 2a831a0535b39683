/** What a source or built file imports, read from its syntax. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import ts from "typescript";

export interface Import {
  specifier: string;
  /**
   * `static`: runs on import. `dynamic`: `import()`, which runs later, but which bundlers follow. `hidden`: a `require` made
   * by `createRequire`, or `process.getBuiltinModule`, which runs later and which bundlers do not see. `type`: erased.
   */
  kind: "static" | "dynamic" | "hidden" | "type";
  line: number;
}

export function importsOf(file: string): Import[] {
  const source = ts.createSourceFile(file, readFileSync(file, "utf8"), ts.ScriptTarget.Latest, true);
  const imports: Import[] = [];
  const add = (node: ts.Node | undefined, kind: Import["kind"] | null): void => {
    if (kind === null || node === undefined || !ts.isStringLiteralLike(node)) return;
    imports.push({ specifier: node.text, kind, line: source.getLineAndCharacterOfPosition(node.getStart()).line + 1 });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) add(node.moduleSpecifier, isTypeOnly(node.importClause) ? "type" : "static");
    else if (ts.isExportDeclaration(node)) add(node.moduleSpecifier, node.isTypeOnly ? "type" : "static");
    else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) add(node.argument.literal, "type");
    else if (ts.isCallExpression(node)) add(node.arguments[0], kindOfCall(node));
    ts.forEachChild(node, visit);
  };
  visit(source);
  return imports;
}

function kindOfCall({ expression }: ts.CallExpression): Import["kind"] | null {
  if (expression.kind === ts.SyntaxKind.ImportKeyword) return "dynamic";
  if (ts.isIdentifier(expression) && expression.text === "require") return "static";
  const text = expression.getText();
  return /\bcreateRequire\b/.test(text) || /\bgetBuiltinModule$/.test(text) ? "hidden" : null;
}

/** With `verbatimModuleSyntax`, `import { type A }` is still an import of the module for its effects. */
function isTypeOnly(clause: ts.ImportClause | undefined): boolean {
  return clause?.phaseModifier === ts.SyntaxKind.TypeKeyword;
}

/** The file that a relative specifier leads to; undefined for a package or a built-in module. */
export function resolveRelative(from: string, specifier: string): string | undefined {
  return specifier.startsWith(".") ? resolve(dirname(from), specifier) : undefined;
}

export interface Reached {
  file: string;
  /** How it was reached: `a.ts → b.ts`. */
  via: readonly string[];
  imports: readonly Import[];
}

/** Every file that importing `entry` loads, now or (`dynamic`) later, each once. */
export function* closure(entry: string): Generator<Reached> {
  const seen = new Set<string>();
  const pending: { file: string; via: readonly string[] }[] = [{ file: entry, via: [] }];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    if (seen.has(next.file) || !existsSync(next.file)) continue;
    seen.add(next.file);
    const via = [...next.via, next.file];
    const imports = importsOf(next.file);
    yield { file: next.file, via, imports };
    for (const { specifier, kind } of imports) {
      const file = kind === "static" || kind === "dynamic" ? resolveRelative(next.file, specifier) : undefined;
      if (file !== undefined) pending.push({ file, via });
    }
  }
}

/** Files below a directory, by extension. */
export function filesIn(dir: string, extension: RegExp): string[] {
  if (!existsSync(dir)) return [];
  return readdirSync(dir, { recursive: true, encoding: "utf8" })
    .filter((name) => extension.test(name) && !name.includes("node_modules"))
    .map((name) => join(dir, name))
    .sort();
}

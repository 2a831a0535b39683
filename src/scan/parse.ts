/** The full parser, fenced: whatever a file holds, it ends in a value or in one {@link DocumentError}, in bounded time. */
import { createRequire } from "node:module";
import type * as yaml from "yaml";
import { missingPermission } from "../permissions.ts";

/** Turns the text of a file into its document. May throw anything; that is a problem of kind `syntax`. */
export type Parse = (text: string, path: string) => unknown;

/** Why a text is no document. `line` and `column` count from 1; 0 where unknown. */
export class DocumentError extends Error {
  readonly line: number;
  readonly column: number;

  constructor(message: string, line = 0, column = 0) {
    super(message);
    this.line = line;
    this.column = column;
  }
}

type Yaml = typeof yaml;
let loaded: Yaml | undefined;

/** Loads the parser ahead of use. Where it was bundled, this is the only way to it; else it is loaded when first needed. */
export async function loadParser(): Promise<void> {
  if (loaded === undefined) {
    const module = (await import("yaml")) as Yaml & { default?: Yaml };
    loaded = module.Composer === undefined && module.default !== undefined ? module.default : module;
  }
}

/** The whole `yaml` package, loaded when first asked for: most scans never need it, and loading takes 20 ms. */
export function parser(): Yaml {
  loaded ??= createRequire(import.meta.url)("yaml") as Yaml;
  return loaded;
}

/** Composing, and everything after it, recurses. */
const MAX_DEPTH = 500;

/**
 * YAML 1.2 with merge keys, one document, unique keys. Takes time in proportion to the text, at most about a second a MiB, whatever
 * it holds (eemeli/yaml #461, #537).
 *
 * @throws DocumentError
 */
export function parseYaml(text: string): unknown {
  const { stackTraceLimit } = Error;
  // A file may hold a million errors, of which each would be told its stack.
  Error.stackTraceLimit = 0;
  try {
    return new YamlText(text).value();
  } catch (thrown) {
    throw missingPermission(thrown) === null ? asDocumentError(thrown) : thrown;
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

class YamlText {
  readonly #yaml = parser();
  readonly #lines = new this.#yaml.LineCounter();
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  value(): unknown {
    const { Composer, Parser } = this.#yaml;
    const tokens = [...new Parser(this.#lines.addNewLine).parse(this.#text)];
    const tooDeep = offsetBelow(tokens, MAX_DEPTH);
    if (tooDeep !== null) this.#fail(tooDeep, `nested deeper than ${MAX_DEPTH} levels`);

    // Its own check of unique keys compares each key with each: a minute for a mapping of 100,000.
    const composer = new Composer({ merge: true, uniqueKeys: false, logLevel: "silent" });
    const [document, second] = composer.compose(tokens, true, this.#text.length);
    if (document === undefined) return null;
    const [error] = document.errors;
    if (error !== undefined) this.#fail(error.pos[0], error.message);
    if (second !== undefined) this.#fail(second.range[0], "several documents in one file");
    this.#inspect(document);
    return document.toJS();
  }

  #fail(offset: number, message: string): never {
    const { line, col } = this.#lines.linePos(offset);
    throw new DocumentError(message, line, col);
  }

  /** Refuses duplicate keys, and bounds what aliases will cost. */
  #inspect(document: yaml.Document.Parsed): void {
    const { isAlias, isCollection, isMap, isPair, isScalar } = this.#yaml;
    const aliases: yaml.Alias[] = [];
    let nodes = 0;
    let anchors = 0;
    let duplicateAt = Number.POSITIVE_INFINITY;
    const waiting: unknown[] = [document.contents];
    while (waiting.length > 0) {
      const node = waiting.pop();
      nodes++;
      if (isPair(node)) waiting.push(node.key, node.value);
      else if (isAlias(node)) aliases.push(node);
      else if (isScalar(node) && node.anchor !== undefined) anchors++;
      if (!isCollection(node)) continue;
      if (node.anchor !== undefined) anchors++;
      for (const item of node.items) waiting.push(item);
      if (isMap(node)) duplicateAt = Math.min(duplicateAt, this.#duplicateIn(node));
    }
    if (duplicateAt < Number.POSITIVE_INFINITY) this.#fail(duplicateAt, "map keys must be unique");
    const budget = new AliasBudget(nodes, aliases.length + anchors);
    for (const alias of aliases) this.#meter(alias, budget);
  }

  /** Offset of the first key that the mapping has twice. */
  #duplicateIn(map: yaml.YAMLMap): number {
    const seen = new Set<unknown>();
    for (const { key } of map.items) {
      if (!this.#yaml.isScalar(key)) continue;
      if (seen.has(key.value)) return key.range?.[0] ?? 0;
      seen.add(key.value);
    }
    return Number.POSITIVE_INFINITY;
  }

  /** Makes each resolution of the alias count, and say where it failed. */
  #meter(alias: yaml.Alias, budget: AliasBudget): void {
    const resolve = alias.resolve.bind(alias);
    alias.resolve = (...of) => {
      const at = alias.range?.[0] ?? 0;
      if (!budget.resolve(of[1] !== undefined)) this.#fail(at, "its aliases multiply beyond measure");
      let found: ReturnType<typeof resolve>;
      try {
        found = resolve(...of);
      } catch (thrown) {
        this.#fail(at, asDocumentError(thrown).message);
      }
      if (found === undefined) this.#fail(at, `no anchor before the alias ${alias.source}`);
      if (this.#yaml.isCollection(found) && !budget.copy(found.items.length)) {
        this.#fail(at, "its merge keys multiply beyond measure");
      }
      return found;
    };
  }
}

/** What aliases may cost, in nanoseconds about; a real file spends a thousandth. */
class AliasBudget {
  #left = 5e8;
  readonly #nodes: number;
  readonly #marks: number;

  /** `marks`: aliases and anchors. */
  constructor(nodes: number, marks: number) {
    this.#nodes = nodes;
    this.#marks = marks;
  }

  /** The first look is through the list of marks, one without it through the whole document. */
  resolve(listed: boolean): boolean {
    this.#left -= listed ? 5 * this.#marks : 50 * this.#nodes;
    return this.#left >= 0;
  }

  /** As a merge key may. */
  copy(items: number): boolean {
    this.#left -= 500 * items;
    return this.#left >= 0;
  }
}

/** Where the tokens first nest deeper than `limit`; null when they do not. */
function offsetBelow(tokens: readonly yaml.CST.Token[], limit: number): number | null {
  let level: yaml.CST.Token[] = [...tokens];
  for (let depth = 0; level.length > 0; depth++) {
    const first = level[0];
    if (depth > limit && first !== undefined) return first.offset;
    const next: yaml.CST.Token[] = [];
    for (const token of level) {
      if ("value" in token && token.value !== undefined) next.push(token.value);
      if (!("items" in token)) continue;
      for (const item of token.items) {
        if (isCollection(item.key)) next.push(item.key);
        if (isCollection(item.value)) next.push(item.value);
      }
    }
    level = next;
  }
  return null;
}

function isCollection(token: yaml.CST.Token | null | undefined): token is yaml.CST.Token {
  return token !== null && token !== undefined && "items" in token;
}

/** What a parser threw, ours or the caller's, as one line with a place. It may be of any shape. */
export function asDocumentError(thrown: unknown): DocumentError {
  if (thrown instanceof DocumentError) return thrown;
  // Not a complaint about the text: its recursion met the end of the stack.
  if (thrown instanceof RangeError) return new DocumentError(`nested too deeply for the parser (${thrown.message})`);
  if (!(thrown instanceof Error)) return new DocumentError(String(thrown));
  const message = (thrown.message.split("\n", 1)[0] ?? "").trim() || thrown.name;
  const { linePos, mark } = thrown as {
    linePos?: [{ line: number; col: number }];
    mark?: { line: number; column: number };
  };
  if (linePos?.[0] !== undefined) return new DocumentError(message, linePos[0].line, linePos[0].col);
  // js-yaml counts from 0.
  if (mark !== undefined && mark !== null) return new DocumentError(message, mark.line + 1, mark.column + 1);
  const named = /\bline (\d+)(?:,? column (\d+))?/.exec(thrown.message);
  return new DocumentError(message, Number(named?.[1] ?? 0), Number(named?.[2] ?? 0));
}

/** The full parser, fenced: whatever a file holds, it ends in a value or in one {@link DocumentError}, in bounded time. */
import { createRequire } from "node:module";
import type * as yaml from "yaml";

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

function parser(): Yaml {
  // On demand, because most scans never need it and loading takes 20 ms.
  loaded ??= createRequire(import.meta.url)("yaml") as Yaml;
  return loaded;
}

/** Composing and everything after it recurses. */
const MAX_DEPTH = 500;
/** Aliases resolved times nodes passed to find each. A realistic file stays below a thousandth of it. */
const MAX_ALIAS_WORK = 1e8;
/** How often one anchor may be resolved, as a bound of the work, and as the parser's own limit against alias bombs. */
const MAX_ALIAS_COUNT = 100;

/** YAML 1.2 with merge keys, one document, unique keys. */
export function parseYaml(text: string): unknown {
  const { Composer, LineCounter, Parser } = parser();
  const lines = new LineCounter();
  const tokens = [...new Parser(lines.addNewLine).parse(text)];
  const failAt = (offset: number, message: string): never => {
    const { line, col } = lines.linePos(offset);
    throw new DocumentError(message, line, col);
  };
  const tooDeep = offsetBelow(tokens, MAX_DEPTH);
  if (tooDeep !== null) failAt(tooDeep, `nested deeper than ${MAX_DEPTH} levels`);

  // Its own check of unique keys compares each pair of keys: a minute for a mapping of 100,000.
  const composer = new Composer({ merge: true, uniqueKeys: false, logLevel: "silent" });
  const [document, second] = composer.compose(tokens, true, text.length);
  const error = document?.errors[0];
  if (error !== undefined) failAt(error.pos[0], error.message);
  if (second !== undefined) failAt(second.range[0], "several documents in one file");
  if (document === undefined) return null;

  const census = takeCensus(document);
  if (census.duplicateAt !== null) failAt(census.duplicateAt, "map keys must be unique");
  const resolutions = census.merges === 0 ? census.aliases : census.aliases + census.anchors * MAX_ALIAS_COUNT;
  if (census.aliases > 0 && resolutions * census.nodes > MAX_ALIAS_WORK) {
    throw new DocumentError("too many aliases for a file of its size");
  }
  return document.toJS({ maxAliasCount: MAX_ALIAS_COUNT });
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

interface Census {
  nodes: number;
  aliases: number;
  anchors: number;
  merges: number;
  /** Offset of the first key that its mapping has twice. */
  duplicateAt: number | null;
}

function takeCensus(document: yaml.Document.Parsed): Census {
  const { isAlias, isMap, isPair, isScalar, isSeq } = parser();
  const census: Census = { nodes: 0, aliases: 0, anchors: 0, merges: 0, duplicateAt: null };
  const waiting: unknown[] = [document.contents];
  while (waiting.length > 0) {
    const node = waiting.pop();
    census.nodes++;
    if (isPair(node)) {
      waiting.push(node.key, node.value);
    } else if (isAlias(node)) {
      census.aliases++;
    } else if (isScalar(node) || isMap(node) || isSeq(node)) {
      if (node.anchor !== undefined) census.anchors++;
      if (isScalar(node)) continue;
      for (const item of node.items) waiting.push(item);
      if (!isMap(node)) continue;
      const seen = new Set<unknown>();
      for (const { key } of node.items) {
        if (!isScalar(key)) continue;
        if (typeof key.value === "symbol") census.merges++;
        else if (!seen.has(key.value)) seen.add(key.value);
        else census.duplicateAt = Math.min(census.duplicateAt ?? Number.POSITIVE_INFINITY, key.range?.[0] ?? 0);
      }
    }
  }
  return census;
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

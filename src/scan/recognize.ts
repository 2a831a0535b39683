/**
 * The recognizer: reads a whole definition file in the form that nearly all have, in about a fiftieth of a parser's time,
 * and says nothing about any other. It knows block mappings and sequences of plain, quoted and literal scalars, `{}` and
 * `[]`; and of those only what YAML 1.1 and 1.2, in every schema for JSON-like data, read alike. Left to the parser are
 * anchors, tags, merge keys, flow collections, folded and multi-line scalars, directives, several documents, duplicate
 * keys, tabs, CRLF, a byte order mark, invalid UTF-8, dates, `yes`, `0x1F`, `1e3`, and all errors.
 */
import type { DefinitionKeys } from "./model.ts";
import { Likeness, type Place } from "./recognize-alike.ts";
import { classify, FAIL, isBareKey, KIND_STRING, type Kind, LITERAL_JSON } from "./recognize-scalar.ts";
import {
  APOSTROPHE,
  BACKSLASH,
  BAR,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  DASH,
  END,
  HASH,
  type Latin1Buffer,
  LINE_FEED,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  SPACE,
  TextReader,
  UNDERSCORE,
} from "./recognize-text.ts";

/** What a recognized file says. */
export interface Recognized {
  readonly id: string;
  readonly name: string;
  /** Null where the file names no type, or something else than a string. */
  readonly declaredType: string | null;
  /** The length of {@link json} in bytes. */
  readonly jsonBytes: number;
  /** The whole document as JSON. Must be asked for before the next call of {@link recognize}. */
  json(): string;
}

/**
 * Reads `bytes[0, length)` as a definition file. Null when it is not surely of the common form, or lacks an id or a name:
 * then the parser decides.
 */
export function recognize(bytes: Uint8Array, length: number, keys: DefinitionKeys): Recognized | null {
  return recognizer.recognize(bytes, length, keys);
}

const MAX_DEPTH = 24;
/** Keys of one mapping are compared each with each. */
const MAX_KEYS = 128;
/** YAML looks for a key's colon within 1,024 characters. */
const MAX_KEY_BYTES = 1_000;
const NO_BYTES = new Uint8Array(0);
const LESS_THAN = 0x3c;
const EQUALS = 0x3d;

/** A field of the document that is asked for. */
interface Field extends Place {
  /** The key as it stands in JSON, without its quotes. */
  key: Uint8Array;
  kind: Kind;
  /** It stands in JSON as it reads. */
  verbatim: boolean;
}

class Recognizer extends TextReader {
  private depth = 0;
  /** Where in the JSON the keys of all mappings lie that are open. */
  private readonly keyStarts = new Int32Array(MAX_DEPTH * MAX_KEYS);
  private readonly keyEnds = new Int32Array(MAX_DEPTH * MAX_KEYS);
  private keyCount = 0;
  private keys: DefinitionKeys | null = null;
  private id = field("");
  private name = field("");
  private type = field("");
  private lastType = NO_BYTES;
  private lastTypeText: string | null = null;
  private readonly likeness = new Likeness();
  private viewed: Uint8Array = this.bytes;
  private view = this.out;
  private generation = 0;

  recognize(bytes: Uint8Array, length: number, keys: DefinitionKeys): Recognized | null {
    this.expect(keys);
    this.generation++;
    if (this.likeness.matches(bytes, length)) return this.alike(bytes);
    this.open(bytes, length);
    this.depth = 0;
    this.keyCount = 0;
    this.id.kind = FAIL;
    this.name.kind = FAIL;
    this.type.kind = FAIL;
    if (!this.document()) return null;
    const id = this.textOf(this.id);
    const name = this.textOf(this.name);
    if (!id || !name) return null;
    const { out, size } = this;
    this.likeness.remember(bytes, length, out, size, this.id, this.name);
    return {
      id,
      name,
      declaredType: this.typeText(),
      jsonBytes: size,
      json: this.untilNext(() => out.toString("utf8", 0, size)),
    };
  }

  /** A file that differs from the last one in id and name only. */
  private alike(bytes: Uint8Array): Recognized {
    const { likeness } = this;
    const { isIdFirst, firstFrom, firstTo, secondFrom, secondTo } = likeness;
    const view = this.viewOf(bytes);
    const first = view.latin1Slice(firstFrom, firstTo);
    const second = view.latin1Slice(secondFrom, secondTo);
    return {
      id: isIdFirst ? first : second,
      name: isIdFirst ? second : first,
      declaredType: this.lastTypeText,
      jsonBytes: likeness.jsonBytes(firstTo - firstFrom, secondTo - secondFrom),
      json: this.untilNext(() => likeness.json(first, second)),
    };
  }

  private untilNext(json: () => string): () => string {
    const { generation } = this;
    return () => {
      if (generation !== this.generation) throw new Error("json() after the next recognize()");
      return json();
    };
  }

  /** The same bytes as a buffer; callers use one for all their files. */
  private viewOf(bytes: Uint8Array): Latin1Buffer {
    if (bytes !== this.viewed) {
      this.viewed = bytes;
      this.view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength) as Latin1Buffer;
    }
    return this.view;
  }

  /** A mapping that begins in the first column and goes to the end, behind a document start perhaps. */
  private document(): boolean {
    this.nextLine();
    if (this.column === 0 && this.isDocumentStart()) {
      this.at += 4;
      this.nextLine();
    }
    return this.column === 0 && this.mapping(0) && this.atEnd();
  }

  private atEnd(): boolean {
    return this.column === END;
  }

  private isDocumentStart(): boolean {
    const { bytes, at, end } = this;
    if (at + 3 >= end || bytes[at + 3] !== LINE_FEED) return false;
    return bytes[at] === DASH && bytes[at + 1] === DASH && bytes[at + 2] === DASH;
  }

  // ── collections ───────────────────────────────────────────────────────────────────────────────────────────────

  /** The mapping whose first key is at `at`, in column `indent`, up to the first line that is not its own. */
  private mapping(indent: number): boolean {
    if (++this.depth > MAX_DEPTH) return false;
    const firstKey = this.keyCount;
    this.out[this.size++] = OPEN_BRACE;
    do {
      const keyAt = this.size + 1;
      if (!this.key()) return false;
      const keyEnd = this.size - 1;
      if (!this.isNewKey(firstKey, keyAt, keyEnd)) return false;
      this.out[this.size++] = COLON;
      const valueAt = this.size;
      const kind = this.mappingValue(indent);
      if (kind === FAIL) return false;
      if (this.depth === 1) this.note(keyAt, keyEnd, valueAt, kind);
      this.out[this.size++] = COMMA;
    } while (this.column === indent);
    this.out[this.size - 1] = CLOSE_BRACE;
    this.keyCount = firstKey;
    this.depth--;
    return this.column < indent;
  }

  /** What follows a key's colon, up to the start of the next line. */
  private mappingValue(indent: number): Kind {
    this.skipSpaces();
    if (!this.isAtLineEnd()) return this.inlineValue(indent);
    if (!this.endLine()) return FAIL;
    // A sequence may stand in the column of its key.
    if (this.column === indent && this.isDash()) return this.sequence(indent);
    return this.blockValue(indent);
  }

  /** The sequence whose first dash is at `at`, in column `indent`; beside its key, it ends where the next key begins. */
  private sequence(indent: number): Kind {
    if (++this.depth > MAX_DEPTH) return FAIL;
    this.out[this.size++] = OPEN_BRACKET;
    do {
      if (!this.item(indent)) return FAIL;
      this.out[this.size++] = COMMA;
    } while (this.column === indent && this.isDash());
    this.out[this.size - 1] = CLOSE_BRACKET;
    this.depth--;
    return this.column <= indent ? LITERAL_JSON : FAIL;
  }

  private item(indent: number): boolean {
    const dashAt = this.at++;
    this.skipSpaces();
    if (this.isAtLineEnd()) {
      // An item without a value is rare, and misread by a parser in use.
      return this.endLine() && this.column > indent && this.blockValue(indent) !== FAIL;
    }
    if (this.isDash()) return false;
    if (this.isKeyAhead()) return this.mapping(indent + this.at - dashAt);
    return this.inlineValue(indent) !== FAIL;
  }

  /** The value on the lines below; null when the next line is not deeper than its parent. */
  private blockValue(parent: number): Kind {
    const { column } = this;
    if (column <= parent) {
      this.write("null");
      return LITERAL_JSON;
    }
    if (!this.isDash()) return this.mapping(column) ? LITERAL_JSON : FAIL;
    const kind = this.sequence(column);
    return this.column < column ? kind : FAIL;
  }

  /** A value on the line of its key or dash. A deeper line would continue it. */
  private inlineValue(parent: number): Kind {
    const kind = this.scalar(parent);
    return kind !== FAIL && this.column <= parent ? kind : FAIL;
  }

  // ── scalars ───────────────────────────────────────────────────────────────────────────────────────────────────

  /** A scalar or an empty collection, and the rest of its line. */
  private scalar(parent: number): Kind {
    switch (this.bytes[this.at]) {
      case QUOTE:
        return this.doubleQuoted() && this.endLine() ? KIND_STRING : FAIL;
      case APOSTROPHE:
        return this.singleQuoted() && this.endLine() ? KIND_STRING : FAIL;
      case BAR:
        return this.literal(parent);
      case OPEN_BRACE:
        return this.empty(CLOSE_BRACE, "{}");
      case OPEN_BRACKET:
        return this.empty(CLOSE_BRACKET, "[]");
      default:
        return this.plainValue();
    }
  }

  private empty(close: number, json: string): Kind {
    if (this.at + 1 >= this.end || this.bytes[this.at + 1] !== close) return FAIL;
    this.write(json);
    this.at += 2;
    return this.endLine() ? LITERAL_JSON : FAIL;
  }

  private plainValue(): Kind {
    const from = this.at;
    const start = this.size;
    if (!this.plain() || (this.at < this.end && this.bytes[this.at] === COLON)) return FAIL;
    const kind = classify(this.bytes, from, this.plainTo);
    if (kind === LITERAL_JSON) {
      // true, false, null or a number: the same without quotes.
      this.out.copyWithin(start, start + 1, this.size - 1);
      this.size -= 2;
    }
    return kind !== FAIL && this.endLine() ? kind : FAIL;
  }

  // ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────

  /** A key and its colon; it is written with its quotes. */
  private key(): boolean {
    const start = this.size + 1;
    const from = this.at;
    const first = this.bytes[from];
    if (first === QUOTE || first === APOSTROPHE) {
      if (first === QUOTE ? !this.doubleQuoted() : !this.singleQuoted()) return false;
    } else if (!this.plain() || !isBareKey(this.bytes, from, this.at)) {
      return false;
    }
    const length = this.size - 1 - start;
    if (length === 0 || length > MAX_KEY_BYTES) return false;
    const { out, bytes, at, end } = this;
    // `__proto__`, and the merge and default keys, which some parsers see through quotes.
    const initial = out[start];
    if ((initial === UNDERSCORE && out[start + 1] === UNDERSCORE) || initial === LESS_THAN || initial === EQUALS)
      return false;
    if (at >= end || bytes[at] !== COLON) return false;
    this.at++;
    return at + 1 === end || bytes[at + 1] === SPACE || bytes[at + 1] === LINE_FEED;
  }

  /** Whether the text at `at`, behind a dash, begins a mapping. */
  private isKeyAhead(): boolean {
    const { bytes, end } = this;
    const quote = bytes[this.at];
    let i = this.at;
    if (quote === QUOTE || quote === APOSTROPHE) {
      for (i++; i < end && bytes[i] !== quote && bytes[i] !== LINE_FEED; i++) {
        if (quote === QUOTE && bytes[i] === BACKSLASH) i++;
      }
      return i + 1 < end && bytes[i + 1] === COLON;
    }
    for (; i < end && bytes[i] !== LINE_FEED; i++) {
      if (bytes[i] === COLON && (i + 1 === end || bytes[i + 1] === SPACE || bytes[i + 1] === LINE_FEED)) return true;
      if (bytes[i] === HASH && bytes[i - 1] === SPACE) return false;
    }
    return false;
  }

  /** Notes the key `out[start, end)` of the mapping whose keys begin at `first`; false when the mapping has it already. */
  private isNewKey(first: number, start: number, end: number): boolean {
    const { keyStarts, keyEnds, keyCount, out } = this;
    if (keyCount - first >= MAX_KEYS) return false;
    for (let i = first; i < keyCount; i++) {
      const other = keyStarts[i] ?? 0;
      if ((keyEnds[i] ?? 0) - other !== end - start) continue;
      let at = start;
      while (at < end && out[at] === out[other + at - start]) at++;
      if (at === end) return false;
    }
    keyStarts[keyCount] = start;
    keyEnds[keyCount] = end;
    this.keyCount++;
    return true;
  }

  // ── fields ────────────────────────────────────────────────────────────────────────────────────────────────────

  private expect(keys: DefinitionKeys): void {
    if (keys !== this.keys) {
      this.keys = keys;
      this.id = field(keys.id);
      this.name = field(keys.name);
      this.type = field(keys.type);
      this.likeness.forget();
    }
  }

  private note(keyStart: number, keyEnd: number, start: number, kind: Kind): void {
    if (this.equals(this.id.key, keyStart, keyEnd)) this.fill(this.id, start, kind);
    if (this.equals(this.name.key, keyStart, keyEnd)) this.fill(this.name, start, kind);
    if (this.equals(this.type.key, keyStart, keyEnd)) this.fill(this.type, start, kind);
  }

  private fill(field: Field, jsonFrom: number, kind: Kind): void {
    field.jsonFrom = jsonFrom + 1;
    field.jsonTo = this.size - 1;
    field.from = this.plainFrom;
    field.to = this.plainTo;
    field.kind = kind;
    field.verbatim = this.verbatim;
  }

  private textOf({ jsonFrom, jsonTo, kind, verbatim }: Field): string | null {
    if (kind !== KIND_STRING) return null;
    if (verbatim) return this.out.latin1Slice(jsonFrom, jsonTo);
    return JSON.parse(this.out.toString("utf8", jsonFrom - 1, jsonTo + 1)) as string;
  }

  /** The definitions of a directory name the same type: one string will do for all of them. */
  private typeText(): string | null {
    const { kind, jsonFrom, jsonTo } = this.type;
    if (kind !== KIND_STRING) {
      this.lastType = NO_BYTES;
      this.lastTypeText = null;
    } else if (this.lastTypeText === null || !this.equals(this.lastType, jsonFrom, jsonTo)) {
      this.lastType = new Uint8Array(this.out.subarray(jsonFrom, jsonTo));
      this.lastTypeText = this.textOf(this.type);
    }
    return this.lastTypeText;
  }

  private equals(text: Uint8Array, start: number, end: number): boolean {
    if (text.length !== end - start) return false;
    for (let i = 0; i < text.length; i++) if (text[i] !== this.out[start + i]) return false;
    return true;
  }
}

function field(key: string): Field {
  return {
    key: Buffer.from(JSON.stringify(key).slice(1, -1)),
    from: 0,
    to: 0,
    jsonFrom: 0,
    jsonTo: 0,
    kind: FAIL,
    verbatim: true,
  };
}

const recognizer = new Recognizer();

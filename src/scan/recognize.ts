/**
 * The recognizer: reads a whole definition file in the form that nearly all have, in about a hundredth of a parser's
 * time, and says nothing about any other. It knows block mappings and sequences of plain, quoted and literal scalars,
 * `{}` and `[]`; and of those only what YAML 1.1 and 1.2, in every schema for JSON-like data, read alike. What is left
 * to the parser: anchors, tags, merge keys, flow collections, folded and multi-line scalars, directives, several
 * documents, duplicate keys, tabs, CRLF, a byte order mark, invalid UTF-8, dates, `yes`, `0x1F`, `1e3`, and all errors.
 */
import type { DefinitionKeys } from "./model.ts";
import {
  classify,
  FAIL,
  isBareKey,
  KIND_STRING,
  type Kind,
  LITERAL_JSON,
  printableLength,
  TEXT,
  TEXT_BREAK,
  TEXT_COLON,
  TEXT_ESCAPED,
  TEXT_HASH,
  TEXT_ORDINARY,
  TEXT_SPACE,
  TEXT_UNICODE,
} from "./recognize-scalar.ts";

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
 * Reads `bytes[0, length)` as a definition file. Null when it is not surely of the common form, or has no id or name: then the
 * parser decides.
 */
export function recognize(bytes: Uint8Array, length: number, keys: DefinitionKeys): Recognized | null {
  return recognizer.recognize(bytes, length, keys);
}

const LINE_FEED = 0x0a;
const SPACE = 0x20;
const QUOTE = 0x22;
const HASH = 0x23;
const APOSTROPHE = 0x27;
const COMMA = 0x2c;
const DASH = 0x2d;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const UNDERSCORE = 0x5f;
const LETTER_N = 0x6e;
const LETTER_T = 0x74;
const OPEN_BRACE = 0x7b;
const BAR = 0x7c;
const CLOSE_BRACE = 0x7d;

const MAX_DEPTH = 24;
/** Keys of one mapping are compared pair by pair. */
const MAX_KEYS = 128;
/** YAML ends the search for a key's colon after 1,024 characters. */
const MAX_KEY_BYTES = 1_000;
const END = -1;

/** A field of the document that the index is after: where its value lies in the JSON. */
interface Field {
  /** The key as it stands in JSON, without its quotes. */
  key: Uint8Array;
  start: number;
  end: number;
  kind: Kind;
  /** A string that stands there as it reads. */
  verbatim: boolean;
}

class Recognizer {
  private bytes: Uint8Array = new Uint8Array(0);
  private end = 0;
  private at = 0;
  /** Of the line that `at` is on: where its text begins; END behind the last. */
  private column = 0;
  /** The JSON, written as the file is read. */
  private out = allocate(4096);
  private size = 0;
  private readonly hashes = new Int32Array(MAX_DEPTH * MAX_KEYS);
  private hashCount = 0;
  private depth = 0;
  private generation = 0;
  private keys: DefinitionKeys | null = null;
  private id = field("");
  private name = field("");
  private type = field("");
  private lastType: Uint8Array = new Uint8Array(0);
  private lastTypeText: string | null = "";
  /** Whether the last scalar stands in JSON as it reads: ASCII without escapes. */
  private verbatim = true;

  recognize(bytes: Uint8Array, length: number, keys: DefinitionKeys): Recognized | null {
    // A byte of the file becomes at most three of JSON (`a:` + line feed is `"a":null,`).
    if (this.out.length < length * 4 + 16) this.out = allocate(length * 8 + 16);
    if (keys !== this.keys) this.expect(keys);
    this.bytes = bytes;
    this.end = length;
    this.at = 0;
    this.size = 0;
    this.hashCount = 0;
    this.depth = 0;
    this.id.kind = this.name.kind = this.type.kind = FAIL;
    const generation = ++this.generation;

    this.nextLine();
    if (this.column === 0 && this.isDocumentStart()) {
      this.at += 4;
      this.nextLine();
    }
    if (this.column !== 0 || !this.mapping(0) || !this.isAtEnd()) return null;
    const id = this.text(this.id);
    const name = this.text(this.name);
    if (!id || !name) return null;
    const size = this.size;
    return {
      id,
      name,
      declaredType: this.typeText(),
      jsonBytes: size,
      json: () => {
        if (generation !== this.generation) throw new Error("json() after the next recognize()");
        return this.out.toString("utf8", 0, size);
      },
    };
  }

  private expect(keys: DefinitionKeys): void {
    this.keys = keys;
    this.id = field(keys.id);
    this.name = field(keys.name);
    this.type = field(keys.type);
  }

  private text(of: Field): string | null {
    if (of.kind !== KIND_STRING) return null;
    if (of.verbatim) return this.out.latin1Slice(of.start + 1, of.end - 1);
    return JSON.parse(this.out.toString("utf8", of.start, of.end)) as string;
  }

  /** The definitions of a directory name the same type: one string will do for all of them. */
  private typeText(): string | null {
    const { type } = this;
    if (type.kind !== KIND_STRING || !type.verbatim) return this.text(type);
    if (!this.equals(this.lastType, type.start + 1, type.end - 1)) {
      this.lastType = new Uint8Array(this.out.subarray(type.start + 1, type.end - 1));
      this.lastTypeText = this.text(type);
    }
    return this.lastTypeText;
  }

  private isAtEnd(): boolean {
    return this.column === END;
  }

  private isDocumentStart(): boolean {
    const { bytes, at } = this;
    return (
      at + 3 < this.end &&
      bytes[at] === DASH &&
      bytes[at + 1] === DASH &&
      bytes[at + 2] === DASH &&
      bytes[at + 3] === LINE_FEED
    );
  }

  // ── collections ───────────────────────────────────────────────────────────────────────────────────────────────

  /** Reads the mapping whose first key is at `at`, in column `indent`, and stops at the first line that is not its own. */
  private mapping(indent: number): boolean {
    if (++this.depth > MAX_DEPTH) return false;
    const firstHash = this.hashCount;
    this.out[this.size++] = OPEN_BRACE;
    do {
      const keyAt = this.size;
      if (!this.key() || !this.isNewKey(firstHash, keyAt + 1, this.size - 1)) return false;
      const keyEnd = this.size;
      this.out[this.size++] = COLON;
      const valueAt = this.size;
      const kind = this.mappingValue(indent);
      if (kind === FAIL) return false;
      if (this.depth === 1) this.note(keyAt + 1, keyEnd - 1, valueAt, kind);
      this.out[this.size++] = COMMA;
    } while (this.column === indent);
    this.out[this.size - 1] = CLOSE_BRACE;
    this.hashCount = firstHash;
    this.depth--;
    return this.column < indent;
  }

  /** What follows a key's colon, up to the start of the next line. */
  private mappingValue(indent: number): Kind {
    this.skipSpaces();
    if (!this.isAtLineEnd()) return this.inlineValue(indent);
    if (!this.endLine()) return FAIL;
    if (this.column === indent && this.isDash()) return this.sequence(indent);
    return this.blockValue(indent);
  }

  /** Reads the sequence whose first dash is at `at`, in column `indent`. */
  private sequence(indent: number): Kind {
    if (++this.depth > MAX_DEPTH) return FAIL;
    this.out[this.size++] = OPEN_BRACKET;
    do {
      if (!this.isDash()) {
        // Beside the key that holds it, a sequence ends where the next key begins.
        break;
      }
      if (!this.item(indent)) return FAIL;
      this.out[this.size++] = COMMA;
    } while (this.column === indent);
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
    if (!this.isKeyAhead()) return this.inlineValue(indent) !== FAIL;
    const column = indent + this.at - dashAt;
    return this.mapping(column);
  }

  /** The value that lies on the lines below; null when the next line is not deeper than its parent. */
  private blockValue(parent: number): Kind {
    if (this.column <= parent) {
      this.write("null");
      return LITERAL_JSON;
    }
    if (this.isDash()) {
      const column = this.column;
      const kind = this.sequence(column);
      return this.column < column ? kind : FAIL;
    }
    return this.mapping(this.column) ? LITERAL_JSON : FAIL;
  }

  /** A value on the line of its key or dash, and the rest of that line. */
  private inlineValue(parent: number): Kind {
    const kind = this.scalar(parent);
    // A deeper line would continue the scalar.
    return kind !== FAIL && this.column <= parent ? kind : FAIL;
  }

  private scalar(parent: number): Kind {
    const { bytes, at } = this;
    switch (bytes[at]) {
      case QUOTE:
        return this.doubleQuoted() && this.endLine() ? KIND_STRING : FAIL;
      case APOSTROPHE:
        return this.singleQuoted() && this.endLine() ? KIND_STRING : FAIL;
      case BAR:
        return this.literal(parent);
      case OPEN_BRACE:
      case OPEN_BRACKET:
        if (bytes[at + 1] !== (bytes[at] === OPEN_BRACE ? CLOSE_BRACE : CLOSE_BRACKET)) return FAIL;
        this.write(bytes[at] === OPEN_BRACE ? "{}" : "[]");
        this.at += 2;
        return this.endLine() ? LITERAL_JSON : FAIL;
      default:
        return this.plainValue();
    }
  }

  // ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Reads a key and its colon, and writes it with its quotes. */
  private key(): boolean {
    const start = this.size;
    const first = this.bytes[this.at];
    if (first === QUOTE) {
      if (!this.doubleQuoted()) return false;
      for (let i = start; i < this.size; i++) if (this.out[i] === BACKSLASH) return false;
    } else if (first === APOSTROPHE) {
      if (!this.singleQuoted()) return false;
    } else {
      const from = this.at;
      if (!this.plain() || !isBareKey(this.bytes, from, this.at)) return false;
    }
    const length = this.size - start - 2;
    if (length === 0 || length > MAX_KEY_BYTES) return false;
    // `__proto__`, and the merge and default keys, which some parsers see through quotes.
    const initial = this.out[start + 1];
    if ((initial === UNDERSCORE && this.out[start + 2] === UNDERSCORE) || initial === 0x3c || initial === 0x3d)
      return false;
    if (this.bytes[this.at] !== COLON || this.at >= this.end) return false;
    this.at++;
    return this.at === this.end || this.bytes[this.at] === SPACE || this.bytes[this.at] === LINE_FEED;
  }

  /** Whether the text at `at`, behind a dash, begins a mapping. */
  private isKeyAhead(): boolean {
    const { bytes, end } = this;
    const quote = bytes[this.at];
    let i = this.at;
    if (quote === QUOTE || quote === APOSTROPHE) {
      i++;
      while (i < end && bytes[i] !== quote && bytes[i] !== LINE_FEED)
        i += bytes[i] === BACKSLASH && quote === QUOTE ? 2 : 1;
      return bytes[i + 1] === COLON && i + 1 < end;
    }
    for (; i < end && bytes[i] !== LINE_FEED; i++) {
      if (bytes[i] === COLON && (i + 1 === end || bytes[i + 1] === SPACE || bytes[i + 1] === LINE_FEED)) return true;
      if (bytes[i] === HASH && bytes[i - 1] === SPACE) return false;
    }
    return false;
  }

  /** Notes the key `out[start, end)` of the mapping whose keys begin at `first`; false when it may be there already. */
  private isNewKey(first: number, start: number, end: number): boolean {
    let hash = 0x811c9dc5;
    for (let i = start; i < end; i++) hash = Math.imul(hash ^ (this.out[i] ?? 0), 0x01000193);
    const { hashes, hashCount } = this;
    if (hashCount - first >= MAX_KEYS) return false;
    for (let i = first; i < hashCount; i++) if (hashes[i] === hash) return false;
    hashes[hashCount] = hash;
    this.hashCount++;
    return true;
  }

  private note(keyStart: number, keyEnd: number, start: number, kind: Kind): void {
    if (this.equals(this.id.key, keyStart, keyEnd)) this.fill(this.id, start, kind);
    if (this.equals(this.name.key, keyStart, keyEnd)) this.fill(this.name, start, kind);
    if (this.equals(this.type.key, keyStart, keyEnd)) this.fill(this.type, start, kind);
  }

  private fill(of: Field, start: number, kind: Kind): void {
    of.start = start;
    of.end = this.size;
    of.kind = kind;
    of.verbatim = this.verbatim;
  }

  private equals(key: Uint8Array, start: number, end: number): boolean {
    if (key.length !== end - start) return false;
    for (let i = 0; i < key.length; i++) if (key[i] !== this.out[start + i]) return false;
    return true;
  }

  // ── scalars ───────────────────────────────────────────────────────────────────────────────────────────────────

  private plainValue(): Kind {
    const from = this.at;
    const start = this.size;
    if (!this.plain() || (this.at < this.end && this.bytes[this.at] === COLON)) return FAIL;
    const to = from + this.plainLength;
    const kind = classify(this.bytes, from, to);
    if (kind === FAIL || !this.endLine()) return FAIL;
    if (kind === LITERAL_JSON) {
      // true, false, null or a number: the same without quotes.
      this.out.copyWithin(start, start + 1, this.size - 1);
      this.size -= 2;
    }
    return kind;
  }

  /** Bytes of the file in the last plain scalar, without the space behind it. */
  private plainLength = 0;

  /** Copies a plain scalar of one line, in quotes; stops at the colon of a key, before a comment, or at the line's end. */
  private plain(): boolean {
    const { bytes, end, out } = this;
    const from = this.at;
    let i = from;
    let o = this.size;
    out[o++] = QUOTE;
    let textEnd = from;
    let outEnd = o;
    this.verbatim = true;
    scan: while (i < end) {
      let byte = bytes[i] ?? 0;
      if (TEXT[byte] === TEXT_ORDINARY) {
        do {
          out[o++] = byte;
          byte = bytes[++i] ?? 0;
        } while (TEXT[byte] === TEXT_ORDINARY && i < end);
        textEnd = i;
        outEnd = o;
        continue;
      }
      switch (TEXT[byte]) {
        case TEXT_COLON: {
          const next = i + 1 < end ? bytes[i + 1] : LINE_FEED;
          if (next === SPACE || next === LINE_FEED) {
            if (textEnd !== i) return false;
            break scan;
          }
          break;
        }
        case TEXT_HASH:
          if (textEnd !== i) break scan;
          break;
        case TEXT_SPACE:
          out[o++] = byte;
          i++;
          continue;
        case TEXT_BREAK:
          break scan;
        case TEXT_ESCAPED:
          out[o++] = BACKSLASH;
          this.verbatim = false;
          break;
        case TEXT_UNICODE: {
          const length = printableLength(bytes, i, end);
          if (length === 0) return false;
          this.verbatim = false;
          for (let n = 1; n < length; n++) out[o++] = bytes[i++] ?? 0;
          out[o++] = bytes[i++] ?? 0;
          textEnd = i;
          outEnd = o;
          continue;
        }
        default:
          return false;
      }
      out[o++] = byte;
      textEnd = ++i;
      outEnd = o;
    }
    this.at = i;
    this.plainLength = textEnd - from;
    out[outEnd] = QUOTE;
    this.size = outEnd + 1;
    return textEnd > from;
  }

  /** The escapes that YAML and JSON share are copied as they are. */
  private doubleQuoted(): boolean {
    const { bytes, end, out } = this;
    let i = this.at + 1;
    let o = this.size;
    out[o++] = QUOTE;
    this.verbatim = true;
    while (i < end) {
      const byte = bytes[i] ?? 0;
      switch (TEXT[byte]) {
        case TEXT_UNICODE: {
          const length = printableLength(bytes, i, end);
          if (length === 0) return false;
          this.verbatim = false;
          for (let n = 0; n < length; n++) out[o++] = bytes[i++] ?? 0;
          continue;
        }
        case TEXT_ESCAPED:
          out[o++] = byte;
          i++;
          if (byte === QUOTE) {
            this.at = i;
            this.size = o;
            return true;
          }
          if (i < end && isSharedEscape(bytes[i] ?? 0)) {
            this.verbatim = false;
            out[o++] = bytes[i++] ?? 0;
            continue;
          }
          return false;
        case TEXT_ORDINARY:
        case TEXT_COLON:
        case TEXT_HASH:
        case TEXT_SPACE:
          out[o++] = byte;
          i++;
          continue;
        default:
          return false;
      }
    }
    return false;
  }

  private singleQuoted(): boolean {
    const { bytes, end, out } = this;
    let i = this.at + 1;
    let o = this.size;
    out[o++] = QUOTE;
    this.verbatim = true;
    while (i < end) {
      const byte = bytes[i] ?? 0;
      switch (TEXT[byte]) {
        case TEXT_UNICODE: {
          const length = printableLength(bytes, i, end);
          if (length === 0) return false;
          this.verbatim = false;
          for (let n = 0; n < length; n++) out[o++] = bytes[i++] ?? 0;
          continue;
        }
        case TEXT_ESCAPED:
          out[o++] = BACKSLASH;
          this.verbatim = false;
          break;
        case TEXT_ORDINARY:
          if (byte !== APOSTROPHE) break;
          if (i + 1 < end && bytes[i + 1] === APOSTROPHE) {
            i++;
            break;
          }
          out[o++] = QUOTE;
          this.at = i + 1;
          this.size = o;
          return true;
        case TEXT_COLON:
        case TEXT_HASH:
        case TEXT_SPACE:
          break;
        default:
          return false;
      }
      out[o++] = byte;
      i++;
    }
    return false;
  }

  /** A literal block, `|` or `|-`, whose first line sets the indentation. */
  private literal(parent: number): Kind {
    const { bytes, end, out } = this;
    let i = this.at + 1;
    const strip = bytes[i] === DASH;
    if (strip) i++;
    if (i >= end || bytes[i++] !== LINE_FEED) return FAIL;
    let indent = 0;
    while (i + indent < end && bytes[i + indent] === SPACE) indent++;
    if (indent <= parent || i + indent >= end || bytes[i + indent] === LINE_FEED) return FAIL;
    let o = this.size;
    out[o++] = QUOTE;
    this.verbatim = false;
    let breaks = 0;
    let spaces = 0;
    for (;;) {
      spaces = 0;
      while (spaces < indent && i + spaces < end && bytes[i + spaces] === SPACE) spaces++;
      if (i + spaces < end && bytes[i + spaces] === LINE_FEED) {
        // Whether space on an empty line counts is where parsers part.
        if (spaces > 0) return FAIL;
        breaks++;
        i++;
        continue;
      }
      if (spaces < indent || i + spaces >= end) break;
      i += indent;
      for (; breaks > 0; breaks--) {
        out[o++] = BACKSLASH;
        out[o++] = LETTER_N;
      }
      let blank = true;
      for (;;) {
        // Without a line feed at the end of the file, parsers differ on whether there is one in the text.
        if (i >= end) return FAIL;
        const byte = bytes[i] ?? 0;
        const kind = TEXT[byte];
        if (kind === TEXT_BREAK) break;
        if (kind === TEXT_UNICODE) {
          const length = printableLength(bytes, i, end);
          if (length === 0) return FAIL;
          for (let n = 0; n < length; n++) out[o++] = bytes[i++] ?? 0;
          blank = false;
          continue;
        }
        if (kind === TEXT_ESCAPED) out[o++] = BACKSLASH;
        else if (kind === undefined || kind > TEXT_SPACE) return FAIL;
        if (byte !== SPACE) blank = false;
        out[o++] = byte;
        i++;
      }
      if (blank) return FAIL;
      i++;
      breaks = 1;
    }
    if (spaces > parent || (i + spaces >= end && spaces > 0)) return FAIL;
    if (!strip) {
      out[o++] = BACKSLASH;
      out[o++] = LETTER_N;
    }
    out[o++] = QUOTE;
    this.size = o;
    this.at = i;
    this.nextLine();
    return this.column === FAILED_LINE ? FAIL : KIND_STRING;
  }

  // ── lines ─────────────────────────────────────────────────────────────────────────────────────────────────────

  private isDash(): boolean {
    const { bytes, at, end } = this;
    if (at >= end || bytes[at] !== DASH) return false;
    return at + 1 === end || bytes[at + 1] === SPACE || bytes[at + 1] === LINE_FEED;
  }

  private skipSpaces(): void {
    while (this.at < this.end && this.bytes[this.at] === SPACE) this.at++;
  }

  /** Whether nothing but a comment follows; `at` is behind the space. */
  private isAtLineEnd(): boolean {
    if (this.at >= this.end) return true;
    const byte = this.bytes[this.at];
    return byte === LINE_FEED || (byte === HASH && this.bytes[this.at - 1] === SPACE);
  }

  /** Ends the line and goes to the next that holds something; false when this one holds something else. */
  private endLine(): boolean {
    this.skipSpaces();
    if (!this.isAtLineEnd()) return false;
    if (this.at < this.end) {
      if (this.bytes[this.at] === HASH && !this.comment()) return false;
      this.at++;
    }
    this.nextLine();
    return this.column !== FAILED_LINE;
  }

  /** From a line's start, over empty lines and comments, to the first text; sets `column`. */
  private nextLine(): void {
    const { bytes, end } = this;
    while (this.at < end) {
      const start = this.at;
      this.skipSpaces();
      if (this.at >= end) break;
      const byte = bytes[this.at];
      if (byte === HASH) {
        if (!this.comment()) {
          this.column = FAILED_LINE;
          return;
        }
      } else if (byte !== LINE_FEED) {
        this.column = this.at - start;
        return;
      }
      this.at++;
    }
    this.column = END;
  }

  /** Goes to the end of a comment; false when it holds what a parser may refuse. */
  private comment(): boolean {
    const { bytes, end } = this;
    let i = this.at;
    while (i < end) {
      const kind = TEXT[bytes[i] ?? 0] ?? 0;
      if (kind === TEXT_BREAK) break;
      if (kind === TEXT_UNICODE) {
        const length = printableLength(bytes, i, end);
        if (length === 0) return false;
        i += length;
      } else if (kind > TEXT_BREAK) {
        return false;
      } else {
        i++;
      }
    }
    this.at = i;
    return true;
  }

  private write(json: string): void {
    for (let i = 0; i < json.length; i++) this.out[this.size++] = json.charCodeAt(i);
  }
}

/** No column matches it, and none is below it. */
const FAILED_LINE = 1e9;

function isSharedEscape(byte: number): boolean {
  return byte === QUOTE || byte === BACKSLASH || byte === LETTER_N || byte === LETTER_T;
}

function field(key: string): Field {
  return { key: Buffer.from(JSON.stringify(key).slice(1, -1)), start: 0, end: 0, kind: FAIL, verbatim: true };
}

/** Both runtimes have it; their types leave it out. */
type Latin1Buffer = Buffer & { latin1Slice(start: number, end: number): string };

function allocate(bytes: number): Latin1Buffer {
  return Buffer.alloc(bytes) as Latin1Buffer;
}

const recognizer = new Recognizer();

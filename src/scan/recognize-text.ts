/**
 * Lines and scalars of the common form. Each scalar is written, as JSON, while it is read; what is not surely read the same
 * by every parser is refused, and ends the attempt.
 */
import {
  FAIL,
  KIND_STRING,
  type Kind,
  printableLength,
  TEXT,
  TEXT_BREAK,
  TEXT_COLON,
  TEXT_ESCAPED,
  TEXT_HASH,
  TEXT_ORDINARY,
  TEXT_REFUSED,
  TEXT_SPACE,
  TEXT_UNICODE,
} from "./recognize-scalar.ts";

export const LINE_FEED = 0x0a;
export const SPACE = 0x20;
export const QUOTE = 0x22;
export const HASH = 0x23;
export const APOSTROPHE = 0x27;
export const COMMA = 0x2c;
export const DASH = 0x2d;
export const COLON = 0x3a;
export const OPEN_BRACKET = 0x5b;
export const BACKSLASH = 0x5c;
export const CLOSE_BRACKET = 0x5d;
export const UNDERSCORE = 0x5f;
export const OPEN_BRACE = 0x7b;
export const BAR = 0x7c;
export const CLOSE_BRACE = 0x7d;
const LETTER_N = 0x6e;
const LETTER_T = 0x74;

/** The column behind the last line. */
export const END = -1;
/** The column of a line that is refused: no other equals it, and none lies deeper. */
export const REFUSED = 1e9;

/** Both runtimes have it; their types leave it out. */
export type Latin1Buffer = Buffer & { latin1Slice(start: number, end: number): string };

/** Files up to 64 KiB share one buffer for their JSON. */
const shared = Buffer.alloc(4 * 64 * 1024 + 16) as Latin1Buffer;

export class TextReader {
  protected bytes: Uint8Array = shared;
  protected end = 0;
  protected at = 0;
  /** Where the text of the line begins that `at` is on; {@link END} or {@link REFUSED}. */
  protected column = 0;
  /** The JSON, and how much of it there is. */
  protected out = shared;
  protected size = 0;
  /** Whether the last scalar stands in JSON as it reads: ASCII, without escapes. */
  protected verbatim = true;
  /** Where in the file the last plain scalar lies, without the space behind it; nowhere after another scalar. */
  protected plainFrom = 0;
  protected plainTo = 0;

  protected open(bytes: Uint8Array, length: number): void {
    this.bytes = bytes;
    this.end = length;
    this.at = 0;
    this.size = 0;
    // A byte of the file becomes at most three of JSON: `a:` and a line feed, `"a":null,`.
    const room = length * 4 + 16;
    this.out = room <= shared.length ? shared : (Buffer.alloc(room) as Latin1Buffer);
  }

  // ── lines ─────────────────────────────────────────────────────────────────────────────────────────────────────

  /** From a line's start, over empty lines and comments, to the first text. */
  protected nextLine(): void {
    const { bytes, end } = this;
    while (this.at < end) {
      const start = this.at;
      this.skipSpaces();
      if (this.at >= end) break;
      const byte = bytes[this.at];
      if (byte === HASH) {
        if (!this.comment()) {
          this.column = REFUSED;
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

  /** Ends the line, and goes to the next that holds something; false when this one does still, or that one is refused. */
  protected endLine(): boolean {
    this.skipSpaces();
    if (!this.isAtLineEnd()) return false;
    if (this.at < this.end) {
      if (this.bytes[this.at] === HASH && !this.comment()) return false;
      this.at++;
    }
    this.nextLine();
    return this.column !== REFUSED;
  }

  /** Whether nothing but a comment follows; `at` is behind the space. */
  protected isAtLineEnd(): boolean {
    if (this.at >= this.end) return true;
    const byte = this.bytes[this.at];
    return byte === LINE_FEED || (byte === HASH && this.bytes[this.at - 1] === SPACE);
  }

  protected skipSpaces(): void {
    while (this.at < this.end && this.bytes[this.at] === SPACE) this.at++;
  }

  /** Whether an item of a sequence begins here. */
  protected isDash(): boolean {
    const { bytes, at, end } = this;
    if (at >= end || bytes[at] !== DASH) return false;
    return at + 1 === end || bytes[at + 1] === SPACE || bytes[at + 1] === LINE_FEED;
  }

  private comment(): boolean {
    const { bytes, end } = this;
    let i = this.at;
    while (i < end) {
      const kind = TEXT[bytes[i] ?? 0] ?? TEXT_REFUSED;
      if (kind === TEXT_BREAK) break;
      const length = kind <= TEXT_ESCAPED ? 1 : kind === TEXT_UNICODE ? printableLength(bytes, i, end) : 0;
      if (length === 0) return false;
      i += length;
    }
    this.at = i;
    return true;
  }

  // ── scalars ───────────────────────────────────────────────────────────────────────────────────────────────────

  /** Copies a plain scalar of one line, in quotes; stops at the colon of a key, before a comment, or at the line's end. */
  protected plain(): boolean {
    const { bytes, end, out } = this;
    const from = this.at;
    let i = from;
    let o = this.size;
    out[o++] = QUOTE;
    this.verbatim = true;
    let textEnd = from;
    let outEnd = o;
    while (i < end) {
      const byte = bytes[i] ?? 0;
      const kind = TEXT[byte] ?? TEXT_REFUSED;
      if (kind === TEXT_ORDINARY) {
        do out[o++] = bytes[i++] ?? 0;
        while (i < end && TEXT[bytes[i] ?? 0] === TEXT_ORDINARY);
      } else if (kind === TEXT_SPACE) {
        out[o++] = byte;
        i++;
        continue;
      } else if (kind === TEXT_BREAK) {
        break;
      } else if (kind === TEXT_COLON && this.isBlank(i + 1)) {
        if (textEnd !== i) return false;
        break;
      } else if (kind === TEXT_HASH && textEnd !== i) {
        break;
      } else if (kind === TEXT_UNICODE) {
        const length = this.character(i, o);
        if (length === 0) return false;
        i += length;
        o += length;
      } else if (kind === TEXT_REFUSED) {
        return false;
      } else {
        if (kind === TEXT_ESCAPED) {
          out[o++] = BACKSLASH;
          this.verbatim = false;
        }
        out[o++] = byte;
        i++;
      }
      textEnd = i;
      outEnd = o;
    }
    this.plainFrom = from;
    this.plainTo = textEnd;
    out[outEnd] = QUOTE;
    this.at = i;
    this.size = outEnd + 1;
    return textEnd > from;
  }

  private startQuoted(): void {
    this.verbatim = true;
    this.plainFrom = 0;
    this.plainTo = 0;
  }

  private isBlank(at: number): boolean {
    return at >= this.end || this.bytes[at] === SPACE || this.bytes[at] === LINE_FEED;
  }

  /** The escapes that YAML and JSON share are copied as they are. */
  protected doubleQuoted(): boolean {
    const { bytes, end, out } = this;
    let i = this.at + 1;
    let o = this.size;
    out[o++] = QUOTE;
    this.startQuoted();
    while (i < end) {
      const byte = bytes[i] ?? 0;
      const kind = TEXT[byte] ?? TEXT_REFUSED;
      if (kind <= TEXT_SPACE) {
        out[o++] = byte;
        i++;
      } else if (byte === QUOTE) {
        out[o++] = QUOTE;
        this.at = i + 1;
        this.size = o;
        return true;
      } else if (byte === BACKSLASH) {
        if (i + 1 >= end || !isSharedEscape(bytes[i + 1] ?? 0)) return false;
        this.verbatim = false;
        out[o++] = BACKSLASH;
        out[o++] = bytes[i + 1] ?? 0;
        i += 2;
      } else {
        const length = kind === TEXT_UNICODE ? this.character(i, o) : 0;
        if (length === 0) return false;
        i += length;
        o += length;
      }
    }
    return false;
  }

  protected singleQuoted(): boolean {
    const { bytes, end, out } = this;
    let i = this.at + 1;
    let o = this.size;
    out[o++] = QUOTE;
    this.startQuoted();
    while (i < end) {
      const byte = bytes[i] ?? 0;
      const kind = TEXT[byte] ?? TEXT_REFUSED;
      if (byte === APOSTROPHE) {
        if (i + 1 >= end || bytes[i + 1] !== APOSTROPHE) {
          out[o++] = QUOTE;
          this.at = i + 1;
          this.size = o;
          return true;
        }
        out[o++] = APOSTROPHE;
        i += 2;
      } else if (kind <= TEXT_ESCAPED) {
        if (kind === TEXT_ESCAPED) {
          out[o++] = BACKSLASH;
          this.verbatim = false;
        }
        out[o++] = byte;
        i++;
      } else {
        const length = kind === TEXT_UNICODE ? this.character(i, o) : 0;
        if (length === 0) return false;
        i += length;
        o += length;
      }
    }
    return false;
  }

  /** A literal block, `|` or `|-`, that belongs to something in column `parent`; its first line sets the indentation. */
  protected literal(parent: number): Kind {
    const { bytes, end, out } = this;
    let i = this.at + 1;
    const strip = bytes[i] === DASH;
    if (strip) i++;
    if (i >= end || bytes[i++] !== LINE_FEED) return FAIL;
    const indent = this.spacesAt(i);
    if (indent <= parent || i + indent >= end || bytes[i + indent] === LINE_FEED) return FAIL;
    out[this.size++] = QUOTE;
    this.startQuoted();
    this.verbatim = false;
    let breaks = 0;
    for (;;) {
      const spaces = Math.min(this.spacesAt(i), indent);
      if (i + spaces < end && bytes[i + spaces] === LINE_FEED) {
        // Whether space on an empty line counts is where parsers part.
        if (spaces > 0) return FAIL;
        breaks++;
        i++;
        continue;
      }
      if (spaces < indent || i + spaces >= end) {
        if (spaces > parent || (i + spaces >= end && spaces > 0)) return FAIL;
        break;
      }
      for (; breaks > 0; breaks--) this.writeLineFeed();
      i = this.literalLine(i + indent);
      if (i === FAILED) return FAIL;
      breaks = 1;
    }
    if (!strip) this.writeLineFeed();
    out[this.size++] = QUOTE;
    this.at = i;
    this.nextLine();
    return this.column === REFUSED ? FAIL : KIND_STRING;
  }

  /** Copies the line from `i` on; where the next one begins, or FAILED. */
  private literalLine(i: number): number {
    const { bytes, end, out } = this;
    let o = this.size;
    let isBlank = true;
    // Without a line feed at the end of the file, parsers differ on whether there is one in the text.
    while (i < end) {
      const byte = bytes[i] ?? 0;
      const kind = TEXT[byte] ?? TEXT_REFUSED;
      if (kind === TEXT_BREAK) {
        this.size = o;
        return isBlank ? FAILED : i + 1;
      }
      if (byte !== SPACE) isBlank = false;
      if (kind <= TEXT_ESCAPED) {
        if (kind === TEXT_ESCAPED) out[o++] = BACKSLASH;
        out[o++] = byte;
        i++;
      } else {
        const length = kind === TEXT_UNICODE ? this.character(i, o) : 0;
        if (length === 0) return FAILED;
        i += length;
        o += length;
      }
    }
    return FAILED;
  }

  /** Copies the character beyond ASCII at `i` to `o`; how many bytes it has, 0 when it is refused. */
  private character(i: number, o: number): number {
    const length = printableLength(this.bytes, i, this.end);
    for (let n = 0; n < length; n++) this.out[o + n] = this.bytes[i + n] ?? 0;
    this.verbatim = false;
    return length;
  }

  private spacesAt(at: number): number {
    let i = at;
    while (i < this.end && this.bytes[i] === SPACE) i++;
    return i - at;
  }

  private writeLineFeed(): void {
    this.out[this.size++] = BACKSLASH;
    this.out[this.size++] = LETTER_N;
  }

  protected write(json: string): void {
    for (let i = 0; i < json.length; i++) this.out[this.size++] = json.charCodeAt(i);
  }
}

const FAILED = -1;

function isSharedEscape(byte: number): boolean {
  return byte === QUOTE || byte === BACKSLASH || byte === LETTER_N || byte === LETTER_T;
}

/** What a byte may be in a scalar, and what a plain scalar means where every YAML schema agrees. */

/** Classes of bytes in text, so that up to a class they may be copied: up to TEXT_SPACE between double quotes … */
export const TEXT_ORDINARY = 0;
export const TEXT_COLON = 1;
export const TEXT_HASH = 2;
export const TEXT_SPACE = 3;
/** … and up to here, with a backslash before it in JSON, everywhere else. */
export const TEXT_ESCAPED = 4;
export const TEXT_BREAK = 5;
/** The first byte of a character beyond ASCII: see {@link printableLength}. */
export const TEXT_UNICODE = 6;
/** Control characters, tabs among them, and bytes that no character begins with. */
export const TEXT_REFUSED = 7;

export const TEXT: Uint8Array = new Uint8Array(256).fill(TEXT_REFUSED);
TEXT.fill(TEXT_ORDINARY, 0x21, 0x7f);
TEXT.fill(TEXT_UNICODE, 0xc2, 0xf5);
TEXT[0x3a] = TEXT_COLON;
TEXT[0x23] = TEXT_HASH;
TEXT[0x22] = TEXT_ESCAPED;
TEXT[0x5c] = TEXT_ESCAPED;
TEXT[0x20] = TEXT_SPACE;
TEXT[0x0a] = TEXT_BREAK;

/** What a scalar is: a string, or something that stands in JSON as it stands in the file. */
export type Kind = 0 | 1 | 2;
export const FAIL = 0;
export const KIND_STRING = 1;
export const LITERAL_JSON = 2;

const LETTER = 1;
const DIGIT = 2;
/** Other characters that may begin a plain string. */
const OPENER = 4;
/** In no number, date or time of any schema: one of them makes a string of what begins with a digit. */
const TELLING = 8;

const CLASS = new Uint8Array(256);
for (let byte = 0x30; byte <= 0x39; byte++) CLASS[byte] = DIGIT;
for (const letter of "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
  CLASS[letter.charCodeAt(0)] = LETTER | ("ghijklmnpqrsuvwy".includes(letter.toLowerCase()) ? TELLING : 0);
}
for (const opener of "_/($") CLASS[opener.charCodeAt(0)] = OPENER;
CLASS.fill(OPENER, 0xc2, 0xf5);
CLASS["/".charCodeAt(0)] = OPENER | TELLING;

const PLUS = 0x2b;
const DASH = 0x2d;
const DOT = 0x2e;
const SLASH = 0x2f;
const ZERO = 0x30;

/** What the plain scalar `bytes[from, to)` of printable text means; FAIL where schemas may differ. */
export function classify(bytes: Uint8Array, from: number, to: number): Kind {
  const first = bytes[from] ?? 0;
  const kind = CLASS[first] ?? 0;
  if ((kind & LETTER) !== 0) return classifyWord(bytes, from, to);
  if ((kind & OPENER) !== 0) return KIND_STRING;
  if ((kind & DIGIT) !== 0) return classifyDigits(bytes, from, to);
  if (first === DASH && to - from > 1)
    return isNumber(bytes, from + 1, to) && !isZero(bytes, from + 1, to) ? LITERAL_JSON : FAIL;
  if (first === DOT) {
    const second = bytes[from + 1] === DOT ? from + 2 : from + 1;
    return second < to && bytes[second] === SLASH ? KIND_STRING : FAIL;
  }
  return FAIL;
}

/** Whether the plain scalar `bytes[from, to)` is a string as a key, in every schema. */
export function isBareKey(bytes: Uint8Array, from: number, to: number): boolean {
  const kind = CLASS[bytes[from] ?? 0] ?? 0;
  if ((kind & LETTER) !== 0) return classifyWord(bytes, from, to) === KIND_STRING;
  return (kind & OPENER) !== 0;
}

/** YAML 1.1 has twenty-two ways to write a boolean; no word that some schema knows is longer than `infinity`. */
const LONGEST_AMBIGUOUS = 8;
const AMBIGUOUS: readonly (readonly Uint8Array[])[] = (() => {
  const byInitial: Uint8Array[][] = Array.from({ length: 256 }, () => []);
  for (const word of ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "inf", "nan", "infinity"]) {
    const bytes = new TextEncoder().encode(word);
    for (const initial of [word.charCodeAt(0), word.charCodeAt(0) - 0x20]) byInitial[initial]?.push(bytes);
  }
  return byInitial;
})();

function classifyWord(bytes: Uint8Array, from: number, to: number): Kind {
  const length = to - from;
  // `E3`: the exponent alone makes a number for some readers of YAML 1.1.
  if (((bytes[from] ?? 0) | 0x20) === 0x65 && isExponent(bytes, from + 1, to)) return FAIL;
  if (length > LONGEST_AMBIGUOUS) return KIND_STRING;
  for (const word of AMBIGUOUS[bytes[from] ?? 0] ?? []) {
    if (word.length === length && matches(bytes, from, word, 0x20)) {
      return length >= 4 && length <= 5 && matches(bytes, from, word, 0) ? LITERAL_JSON : FAIL;
    }
  }
  return KIND_STRING;
}

function matches(bytes: Uint8Array, from: number, word: Uint8Array, ignoredBit: number): boolean {
  for (let i = 0; i < word.length; i++) if (((bytes[from + i] ?? 0) | ignoredBit) !== word[i]) return false;
  return true;
}

function classifyDigits(bytes: Uint8Array, from: number, to: number): Kind {
  if (isNumber(bytes, from, to)) return LITERAL_JSON;
  if (isUuid(bytes, from, to) || isVersion(bytes, from, to)) return KIND_STRING;
  for (let i = from; i < to; i++) if (((CLASS[bytes[i] ?? 0] ?? 0) & TELLING) !== 0) return KIND_STRING;
  return FAIL;
}

function isExponent(bytes: Uint8Array, from: number, to: number): boolean {
  const sign = bytes[from] === DASH || bytes[from] === PLUS ? 1 : 0;
  for (let i = from + sign; i < to; i++) if (CLASS[bytes[i] ?? 0] !== DIGIT) return false;
  return from + sign < to;
}

/** Fifteen digits are kept by a double; a leading zero is an octal number to some. */
const MAX_DIGITS = 15;

/** `0`, `12`, `1.50`: decimal, without sign, exponent or leading zero. */
function isNumber(bytes: Uint8Array, from: number, to: number): boolean {
  let i = from;
  while (i < to && CLASS[bytes[i] ?? 0] === DIGIT) i++;
  if (i === from || to - from > MAX_DIGITS || (bytes[from] === ZERO && i - from > 1)) return false;
  if (i === to) return true;
  if (bytes[i] !== DOT || i + 1 === to) return false;
  for (i++; i < to; i++) if (CLASS[bytes[i] ?? 0] !== DIGIT) return false;
  return true;
}

function isZero(bytes: Uint8Array, from: number, to: number): boolean {
  for (let i = from; i < to; i++) if (bytes[i] !== ZERO && bytes[i] !== DOT) return false;
  return true;
}

/** `00000001-1111-4222-8333-000000000001`: never a date, whose first dash comes fifth. */
function isUuid(bytes: Uint8Array, from: number, to: number): boolean {
  if (to - from !== 36) return false;
  for (let i = 0; i < 36; i++) {
    const byte = bytes[from + i] ?? 0;
    if (i === 8 || i === 13 || i === 18 || i === 23) {
      if (byte !== DASH) return false;
    } else if (CLASS[byte] !== DIGIT && !isHexLetter(byte)) {
      return false;
    }
  }
  return true;
}

function isHexLetter(byte: number): boolean {
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66;
}

/** `2026.06.09.1`: digits in at least three parts. */
function isVersion(bytes: Uint8Array, from: number, to: number): boolean {
  let dots = 0;
  for (let i = from; i < to; i++) {
    if (bytes[i] !== DOT) {
      if (CLASS[bytes[i] ?? 0] !== DIGIT) return false;
    } else if (bytes[i - 1] === DOT || i + 1 === to) {
      return false;
    } else {
      dots++;
    }
  }
  return dots >= 2;
}

/**
 * The bytes of the character at `at`, which is beyond ASCII; 0 when it is not valid UTF-8, or is one that some reader
 * trims, breaks a line at or refuses: C1 controls with NEL, the spaces and marks of U+2000, U+3000, the byte order mark,
 * surrogates, U+FFF0 and up.
 */
export function printableLength(bytes: Uint8Array, at: number, end: number): 0 | 2 | 3 | 4 {
  const a = bytes[at] ?? 0;
  const b = at + 1 < end ? (bytes[at + 1] ?? 0) : 0;
  if ((b & 0xc0) !== 0x80) return 0;
  if (a < 0xe0) return a === 0xc2 && b <= 0xa0 ? 0 : 2;
  const c = at + 2 < end ? (bytes[at + 2] ?? 0) : 0;
  if ((c & 0xc0) !== 0x80) return 0;
  if (a < 0xf0) {
    const code = ((a & 0x0f) << 12) | ((b & 0x3f) << 6) | (c & 0x3f);
    return isPrintableBmp(code) ? 3 : 0;
  }
  const d = at + 3 < end ? (bytes[at + 3] ?? 0) : 0;
  if ((d & 0xc0) !== 0x80) return 0;
  const code = ((a & 0x07) << 18) | ((b & 0x3f) << 12) | ((c & 0x3f) << 6) | (d & 0x3f);
  return code >= 0x10000 && code <= 0x10ffff && (code & 0xfffe) !== 0xfffe ? 4 : 0;
}

function isPrintableBmp(code: number): boolean {
  if (code < 0x800 || (code >= 0xd800 && code < 0xe000) || code >= 0xfff0) return false;
  if (code >= 0x2000 && code < 0x2070) return (code >= 0x2010 && code < 0x2028) || (code >= 0x2030 && code < 0x205f);
  return code !== 0x1680 && code !== 0x180e && code !== 0x3000 && code !== 0xfeff;
}

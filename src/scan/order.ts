/** The order of everything that is listed: that of the UTF-8 bytes, which JavaScript's own is not beyond the BMP. */

/** As `memcmp` of the UTF-8 bytes: below 0, 0, above 0. For `sort`, and for merging two sorted listings. */
export function compareUtf8(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    // UTF-16 puts the surrogates before U+E000; by code point, and so by byte, they come after U+FFFF.
    if (x !== y) return rank(x) - rank(y);
  }
  return a.length - b.length;
}

/** Sorts in place, by {@link compareUtf8}. */
export function sortByBytes(names: string[]): string[] {
  // Without surrogates JavaScript's own order is the same, and four times as fast.
  return names.some(hasSurrogate) ? names.sort(compareUtf8) : names.sort();
}

function hasSurrogate(name: string): boolean {
  for (let i = 0; i < name.length; i++) if (name.charCodeAt(i) >= 0xd800 && name.charCodeAt(i) < 0xe000) return true;
  return false;
}

function rank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}

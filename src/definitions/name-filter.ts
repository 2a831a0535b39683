/**
 * Says of a text that it was never added, or that it may have been: a blocked Bloom filter (Putze, Sanders and Singler, 2007). One cache
 * line a question, 16 bits and 5 probes a text: about one in a thousand that were not added may have been.
 */
const BITS_PER_TEXT = 16;
const PROBES = 5;
/** A block is a cache line. */
const WORDS_PER_BLOCK = 16;
const BITS_PER_BLOCK = WORDS_PER_BLOCK * 32;

export class NameFilter {
  readonly #words: Uint32Array;
  readonly #blocks: number;
  readonly capacity: number;
  size = 0;

  /** `capacity`: for how many texts its answers are as good as said above. */
  constructor(capacity: number) {
    this.capacity = capacity;
    this.#blocks = Math.max(1, Math.ceil((capacity * BITS_PER_TEXT) / BITS_PER_BLOCK));
    this.#words = new Uint32Array(this.#blocks * WORDS_PER_BLOCK);
  }

  add(text: string): void {
    this.size++;
    const hash = hashOf(text);
    const block = (hash % this.#blocks) * WORDS_PER_BLOCK;
    let bits = scramble(hash);
    for (let probe = 0; probe < PROBES; probe++) {
      const at = block + ((bits >>> 5) & 15);
      this.#words[at] = (this.#words[at] ?? 0) | (1 << (bits & 31));
      bits = scramble(bits);
    }
  }

  mayHave(text: string): boolean {
    const hash = hashOf(text);
    const block = (hash % this.#blocks) * WORDS_PER_BLOCK;
    let bits = scramble(hash);
    for (let probe = 0; probe < PROBES; probe++) {
      if (((this.#words[block + ((bits >>> 5) & 15)] ?? 0) & (1 << (bits & 31))) === 0) return false;
      bits = scramble(bits);
    }
    return true;
  }
}

/** FNV-1a over UTF-16 units, then the finalizer of MurmurHash3. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

function scramble(bits: number): number {
  let x = (bits + 0x9e3779b9) | 0;
  x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
  return (x ^ (x >>> 15)) >>> 0;
}

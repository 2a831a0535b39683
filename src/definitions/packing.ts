/** Packing records one behind the other: none of them is an object that a collector must look at. */

/** Where a record is packed: it asks for the most that it may take, writes from `at` on, and moves `at` behind itself. */
export interface Packing {
  at: number;
  /** The buffer in which so many bytes follow `at`. */
  reserve(size: number): Buffer;
}

/** One piece of memory that grows. */
export class Scratch implements Packing {
  at = 0;
  #bytes: Buffer;

  constructor(bytes = 16 * 1024) {
    this.#bytes = Buffer.allocUnsafeSlow(bytes);
  }

  reserve(size: number): Buffer {
    if (this.at + size > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(2 * (this.at + size));
      this.#bytes.copy(larger, 0, 0, this.at);
      this.#bytes = larger;
    }
    return this.#bytes;
  }

  /** A copy of what was packed; the next record begins anew. */
  take(): Buffer {
    const packed = Buffer.from(this.#bytes.subarray(0, this.at));
    this.at = 0;
    return packed;
  }

  /** What was packed, in the memory where it lies: nothing may be packed after. */
  end(): Buffer {
    return this.#bytes.subarray(0, this.at);
  }
}

/** Many small records, one behind the other in few large buffers: none of them is an object that a collector must look at. */

/** Where a record is packed: it asks for the most that it may take, writes from `at` on, and moves `at` behind itself. */
export interface Packing {
  at: number;
  /** The buffer in which so many bytes follow `at`. */
  reserve(size: number): Buffer;
}

/** Room for one record at a time. */
export class Scratch implements Packing {
  at = 0;
  #bytes = Buffer.allocUnsafeSlow(16 * 1024);

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
}

const SLAB_BYTES = 4 * 1024 * 1024;

export class Arena implements Packing {
  at = 0;
  readonly #slabs: Buffer[] = [];
  #last = Buffer.alloc(0);

  reserve(size: number): Buffer {
    if (this.at + size > this.#last.length) {
      this.#last = Buffer.allocUnsafeSlow(Math.max(SLAB_BYTES, size));
      this.#slabs.push(this.#last);
      this.at = 0;
    }
    return this.#last;
  }

  /** The number of the buffer that was reserved from last. */
  get slab(): number {
    return this.#slabs.length - 1;
  }

  view(slab: number, start: number, end: number): Buffer {
    return (this.#slabs[slab] as Buffer).subarray(start, end);
  }

  /** Views of what was in it are no longer valid. */
  clear(): void {
    this.#slabs.length = 0;
    this.#last = Buffer.alloc(0);
    this.at = 0;
  }
}

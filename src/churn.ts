/**
 * Collections for what comes and goes with every call, in place of `Map` and `Set`, which keep garbage alive when they are
 * used so. As entries come and go, V8 replaces their hash table by a new one, again and again, and each points to its
 * successor (iterators find on by it). As soon as one has grown old enough for the old generation, it and through it all
 * its successors, with whatever was in them, survive until the next major collection: with 36 writers of leases each
 * scavenge moved 6 MB, and held the event loop for 12 ms; with these it moves 0.1 MB, in 1 ms.
 */
import { type Deferred, deferred } from "./abort.ts";

interface Entry<V> {
  readonly key: string;
  readonly hash: number;
  value: V;
  next: Entry<V> | null;
}

const FIRST_BUCKETS = 16;
/** Makes which keys share a bucket unforeseeable: somebody who chooses keys must not make lookups slow. */
const SEED = (Math.random() * 0x1_0000_0000) | 0;

/** Values by key. */
export class KeyTable<V> {
  #buckets: (Entry<V> | null)[] = emptyBuckets(FIRST_BUCKETS);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(key: string): V | undefined {
    return this.#find(key, hashOf(key))?.value;
  }

  set(key: string, value: V): void {
    const hash = hashOf(key);
    const entry = this.#find(key, hash);
    if (entry !== null) entry.value = value;
    else this.#insert(key, hash, value);
  }

  /** Sets the value of a key that is there; else does nothing. Whether it was there. */
  replace(key: string, value: V): boolean {
    const entry = this.#find(key, hashOf(key));
    if (entry === null) return false;
    entry.value = value;
    return true;
  }

  /** Whether it was there. */
  delete(key: string): boolean {
    const hash = hashOf(key);
    const at = hash & (this.#buckets.length - 1);
    let previous: Entry<V> | null = null;
    let entry = this.#buckets[at] ?? null;
    while (entry !== null && (entry.hash !== hash || entry.key !== key)) {
      previous = entry;
      entry = entry.next;
    }
    if (entry === null) return false;
    if (previous === null) this.#buckets[at] = entry.next;
    else previous.next = entry.next;
    entry.next = null;
    this.#size--;
    return true;
  }

  #find(key: string, hash: number): Entry<V> | null {
    let entry = this.#buckets[hash & (this.#buckets.length - 1)] ?? null;
    while (entry !== null && (entry.hash !== hash || entry.key !== key)) entry = entry.next;
    return entry;
  }

  #insert(key: string, hash: number, value: V): void {
    const at = hash & (this.#buckets.length - 1);
    this.#buckets[at] = { key, hash, value, next: this.#buckets[at] ?? null };
    if (++this.#size > this.#buckets.length) this.#grow();
  }

  #grow(): void {
    const buckets = emptyBuckets<V>(this.#buckets.length * 2);
    for (let entry of this.#buckets) {
      while (entry !== null) {
        const { next }: Entry<V> = entry;
        const at = entry.hash & (buckets.length - 1);
        entry.next = buckets[at] ?? null;
        buckets[at] = entry;
        entry = next;
      }
    }
    this.#buckets = buckets;
  }
}

function emptyBuckets<V>(count: number): (Entry<V> | null)[] {
  return new Array<Entry<V> | null>(count).fill(null);
}

/** FNV-1a over UTF-16 code units, from a seed. */
/** 32 bits, other ones in each process. */
export function hashOf(key: string): number {
  let hash = SEED;
  for (let at = 0; at < key.length; at++) hash = Math.imul(hash ^ key.charCodeAt(at), 0x0100_0193);
  return hash ^ (hash >>> 15);
}

/** A place in a {@link Roll}. */
export interface Seat<T> {
  readonly value: T;
  previous: Seat<T> | null;
  next: Seat<T> | null;
  taken: boolean;
}

/** Members in the order in which they came. */
export class Roll<T> {
  #first: Seat<T> | null = null;
  #last: Seat<T> | null = null;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** The one that has been here longest. */
  get first(): T | undefined {
    return this.#first?.value;
  }

  add(value: T): Seat<T> {
    const seat: Seat<T> = { value, previous: this.#last, next: null, taken: true };
    if (this.#last === null) this.#first = seat;
    else this.#last.next = seat;
    this.#last = seat;
    this.#size++;
    return seat;
  }

  /** Before all others: one that was here before them. */
  addFirst(value: T): Seat<T> {
    const seat: Seat<T> = { value, previous: null, next: this.#first, taken: true };
    if (this.#first === null) this.#last = seat;
    else this.#first.previous = seat;
    this.#first = seat;
    this.#size++;
    return seat;
  }

  /** Whether it was still taken. */
  remove(seat: Seat<T>): boolean {
    if (!seat.taken) return false;
    const { previous, next } = seat;
    if (previous === null) this.#first = next;
    else previous.next = next;
    if (next === null) this.#last = previous;
    else next.previous = previous;
    seat.taken = false;
    seat.previous = null;
    seat.next = null;
    this.#size--;
    return true;
  }

  /** Takes out the one that has been here longest. */
  shift(): T | undefined {
    const seat = this.#first;
    if (seat !== null) this.remove(seat);
    return seat?.value;
  }

  /** None may leave meanwhile. */
  *[Symbol.iterator](): IterableIterator<T> {
    for (let seat = this.#first; seat !== null; seat = seat.next) yield seat.value;
  }
}

/** How many calls are under way, for whoever has to wait until none is. */
export class Underway {
  #count = 0;
  #over: Deferred<void> | null = null;

  /** Counts `call` until it has settled. */
  track<T>(call: Promise<T>): Promise<T> {
    this.#count++;
    call.then(this.#settle, this.#settle);
    return call;
  }

  readonly #settle = (): void => {
    this.#count--;
    if (this.#count > 0) return;
    this.#over?.resolve();
    this.#over = null;
  };

  /** Resolves when none is under way any more. */
  over(): Promise<void> {
    if (this.#count === 0) return Promise.resolve();
    this.#over ??= deferred();
    return this.#over.promise;
  }
}

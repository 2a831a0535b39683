/**
 * Files of one directory differ in little but id and name. One that differs in nothing else from the last that was recognized
 * is known by comparing the rest, in a third of the time.
 */
import { classify, KIND_STRING, TEXT, TEXT_ORDINARY } from "./recognize-scalar.ts";

/** A plain scalar of nothing but ordinary characters: where it lies in the file, and in the JSON within its quotes. */
export interface Place {
  from: number;
  to: number;
  jsonFrom: number;
  jsonTo: number;
}

/** Longer files are not worth a copy. */
const MAX_BYTES = 4096;

export class Likeness {
  readonly #file = Buffer.alloc(MAX_BYTES);
  /** 0: nothing is remembered. */
  #length = 0;
  readonly #json = Buffer.alloc(4 * MAX_BYTES + 16);
  #jsonLength = 0;
  /** The two scalars in the order of the file. */
  #first: Place = NOWHERE;
  #second: Place = NOWHERE;
  /** What of the JSON lies around them; null until it is asked for. */
  #around: [string, string, string] | null = null;

  isIdFirst = false;
  /** Of the file that was compared last: its two scalars. */
  firstFrom = 0;
  firstTo = 0;
  secondFrom = 0;
  secondTo = 0;

  forget(): void {
    this.#length = 0;
  }

  /** Makes this file the one to compare with, where it is fit for that. */
  remember(file: Uint8Array, length: number, json: Uint8Array, jsonLength: number, id: Place, name: Place): void {
    this.#length = 0;
    this.isIdFirst = id.from < name.from;
    const first = this.isIdFirst ? id : name;
    const second = this.isIdFirst ? name : id;
    if (length > MAX_BYTES || second.from < first.to) return;
    if (!isOrdinary(file, first, length) || !isOrdinary(file, second, length)) return;
    this.#file.set(file.subarray(0, length));
    this.#json.set(json.subarray(0, jsonLength));
    this.#length = length;
    this.#jsonLength = jsonLength;
    this.#first = { ...first };
    this.#second = { ...second };
    this.#around = null;
  }

  /** Whether the file differs from the remembered one in its two scalars only, and these are strings. */
  matches(file: Uint8Array, length: number): boolean {
    const first = this.#first;
    const second = this.#second;
    if (this.#length === 0 || !this.#sameAt(0, first.from, file, 0, length)) return false;
    const firstTo = ordinaryEnd(file, first.from, length);
    if (!this.#sameAt(first.to, second.from, file, firstTo, length)) return false;
    const secondFrom = firstTo + second.from - first.to;
    const secondTo = ordinaryEnd(file, secondFrom, length);
    if (length - secondTo !== this.#length - second.to) return false;
    if (!this.#sameAt(second.to, this.#length, file, secondTo, length)) return false;
    if (classify(file, first.from, firstTo) !== KIND_STRING) return false;
    if (classify(file, secondFrom, secondTo) !== KIND_STRING) return false;
    this.firstFrom = first.from;
    this.firstTo = firstTo;
    this.secondFrom = secondFrom;
    this.secondTo = secondTo;
    return true;
  }

  #sameAt(from: number, to: number, file: Uint8Array, at: number, length: number): boolean {
    const remembered = this.#file;
    const shift = at - from;
    if (to + shift > length) return false;
    for (let i = from; i < to; i++) if (remembered[i] !== file[i + shift]) return false;
    return true;
  }

  /** The JSON of a file that matches, whose scalars are these. */
  json(first: string, second: string): string {
    this.#around ??= [
      this.#json.toString("utf8", 0, this.#first.jsonFrom),
      this.#json.toString("utf8", this.#first.jsonTo, this.#second.jsonFrom),
      this.#json.toString("utf8", this.#second.jsonTo, this.#jsonLength),
    ];
    const [before, between, after] = this.#around;
    return before + first + between + second + after;
  }

  /** The JSON's length in bytes, for scalars of these lengths. */
  jsonBytes(first: number, second: number): number {
    const a = this.#first;
    const b = this.#second;
    return this.#jsonLength - (a.to - a.from) - (b.to - b.from) + first + second;
  }
}

const NOWHERE: Place = { from: 0, to: 0, jsonFrom: 0, jsonTo: 0 };

function isOrdinary(file: Uint8Array, { from, to }: Place, length: number): boolean {
  return to > from && ordinaryEnd(file, from, length) === to;
}

function ordinaryEnd(bytes: Uint8Array, from: number, end: number): number {
  let i = from;
  while (i < end && TEXT[bytes[i] ?? 0] === TEXT_ORDINARY) i++;
  return i;
}

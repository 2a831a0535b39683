/** Secondary indexes: named functions from a record to the keys it is found by, and nothing about how entries are kept. */
import { InvalidArgumentError } from "../errors.ts";
import { checkKey, checkName, MAX_KEYS } from "./limits.ts";
import type { IndexFunction, StateRecord } from "./model.ts";
import { checksum, type RowDraft, type StoredRow } from "./row.ts";
import type { Next } from "./rules.ts";

/** Null in place of a function gives the index up: its entries are dropped. */
export type IndexFunctions<D, S extends string> = Readonly<Record<string, IndexFunction<D, S> | null>>;

/** How the store numbers its indexes; it changes when a process adds or drops one. */
export interface Registration {
  /** Counts those changes. What was made for another generation is refused. */
  readonly generation: number;
  /** Of the index itself. */
  readonly index: number;
  /** Of each secondary index that is stored, by name. */
  readonly secondary: ReadonlyMap<string, number>;
}

/** @throws InvalidArgumentError, KeyTooLongError */
export function checkFunctions<D, S extends string>(functions: IndexFunctions<D, S>): void {
  for (const [name, keys] of Object.entries(functions)) {
    checkName("indexes", name);
    if (keys !== null && typeof keys !== "function")
      throw new InvalidArgumentError(`indexes.${name}`, keys, "a function");
  }
}

/** A row but for what is made of its data. */
type RowPlace = Omit<RowDraft, "keys" | "data" | "sum">;

export class Keyer<D, S extends string> {
  readonly #functions: IndexFunctions<D, S>;

  constructor(functions: IndexFunctions<D, S>) {
    this.#functions = functions;
  }

  /** Whether this process has the function of every index that is stored. */
  knowsAll(registration: Registration): boolean {
    for (const name of registration.secondary.keys()) if (!this.#functions[name]) return false;
    return true;
  }

  /** The whole row to be stored, with its keys (as far as this process can tell them) and its checksum. */
  draft(next: Next, registration: Registration): RowDraft {
    return this.#complete(next, next.data, next.json, registration);
  }

  /** The same row with its keys computed anew. */
  rekeyed(row: StoredRow, registration: Registration): RowDraft {
    return this.#complete(row, JSON.parse(row.data), row.data, registration);
  }

  /** Each object is made once, with all its fields: this runs for every change, and its garbage holds up the event loop. */
  #complete(place: RowPlace, data: unknown, json: string, registration: Registration): RowDraft {
    const { id, state, since, createdAt, revision, epoch, origin } = place;
    const keys = this.#keys(place, data as D, registration);
    const row = { id, state, since, createdAt, revision, epoch, origin, keys, data: json, sum: 0, parsed: undefined };
    row.sum = checksum(registration.index, row);
    return row;
  }

  #keys({ id, state, since, createdAt, revision, epoch, origin }: RowPlace, data: D, registration: Registration) {
    if (!this.knowsAll(registration)) return null;
    if (registration.secondary.size === 0) return "[]";
    // Functions see the record without its cursor: a new one has none yet.
    const record: StateRecord<D, S> = { id, state: state as S, since, createdAt, revision, epoch, data, cursor: "" };
    if (origin !== null) record.origin = origin;
    const all: (string | number)[] = [];
    for (const [name, number] of registration.secondary) {
      const keys = this.#functions[name]?.(record);
      if (typeof keys === "string") all.push(number, checkKey(keys));
      else if (keys !== undefined) for (const key of distinct(keys, name)) all.push(number, checkKey(key));
    }
    return JSON.stringify(all);
  }
}

function distinct(keys: string[], name: string): Iterable<string> {
  if (!Array.isArray(keys))
    throw new InvalidArgumentError(`indexes.${name}`, keys, "a string, an array of strings or undefined");
  const set = new Set(keys);
  if (set.size > MAX_KEYS) throw new InvalidArgumentError(`indexes.${name}`, keys, `at most ${MAX_KEYS} keys`);
  return set;
}

/** Secondary indexes: named functions from a record to the keys it is found by, and nothing about how entries are kept. */
import { InvalidArgumentError } from "../errors.ts";
import { checkKey, checkName, MAX_KEYS } from "./limits.ts";
import type { IndexFunction } from "./model.ts";
import { checksum, type RowDraft, type StoredRow } from "./row.ts";
import type { Next } from "./rules.ts";

/** Null in place of a function gives the index up: its entries are dropped. */
export type IndexFunctions<D, S extends string> = Readonly<Record<string, IndexFunction<D, S> | null>>;

/** How the store numbers its indexes; it changes when a process adds or drops one. */
export interface Registration {
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
  draft({ data, json, ...rest }: Next, registration: Registration): RowDraft {
    return this.#complete({ ...rest, data: json, keys: null }, data, registration);
  }

  /** The same row with its keys computed anew. */
  rekeyed({ rec: _, sum: __, ...rest }: StoredRow, registration: Registration): RowDraft {
    return this.#complete(rest, JSON.parse(rest.data), registration);
  }

  #complete(row: Omit<RowDraft, "sum">, data: unknown, registration: Registration): RowDraft {
    const keyed = { ...row, keys: this.#keys(row, data as D, registration) };
    return { ...keyed, sum: checksum(registration.index, keyed) };
  }

  #keys(row: Omit<RowDraft, "sum">, data: D, registration: Registration): string | null {
    if (!this.knowsAll(registration)) return null;
    if (registration.secondary.size === 0) return "[]";
    const { id, state, since, createdAt, revision, epoch, origin } = row;
    // Functions see the record without its place: a new one has none yet.
    const rest = { since, createdAt, revision, epoch, data, cursor: "", ...(origin === null ? {} : { origin }) };
    const record = { id, state: state as S, ...rest };
    const all: (string | number)[] = [];
    for (const [name, number] of registration.secondary) {
      const keys = this.#functions[name]?.(record);
      if (keys === undefined) continue;
      for (const key of distinct(keys, name)) all.push(number, checkKey(key));
    }
    return JSON.stringify(all);
  }
}

function distinct(keys: string | string[], name: string): Iterable<string> {
  if (typeof keys === "string") return [keys];
  if (!Array.isArray(keys))
    throw new InvalidArgumentError(`indexes.${name}`, keys, "a string, an array of strings or undefined");
  const set = new Set(keys);
  if (set.size > MAX_KEYS) throw new InvalidArgumentError(`indexes.${name}`, keys, `at most ${MAX_KEYS} keys`);
  return set;
}

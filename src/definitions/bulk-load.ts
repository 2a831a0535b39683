/**
 * Writes the files of a directory that the index knows nothing of yet: gathered, and inserted in few transactions. One by
 * one they would read each key before writing it, and dirty the same pages again in every commit.
 */
import { fileKey, isWhole, mayShareKey, nameKey, relativePath } from "./keys.ts";
import { comparePlaces, listedName } from "./reconcile.ts";
import {
  candidatesIn,
  compareCandidates,
  type FileRecord,
  type IdPlace,
  packCandidate,
  packFile,
  packPlaces,
  placesIn,
} from "./records.ts";
import type { DefinitionStore, Table } from "./store.ts";
import type { SweepTarget } from "./sweep.ts";

/** 700 bytes a file wait in memory. */
const FILES_PER_COMMIT = 100_000;

export class BulkLoad {
  readonly #store: DefinitionStore;
  readonly #typeId: number;
  /** By path below the root, with the root in front. */
  readonly #files: [key: Buffer, value: Buffer][] = [];
  /** Files come in byte order of filename, and most are called after their names: so these are nearly in order, too. */
  readonly #names = new Map<string, Buffer | Buffer[]>();
  readonly #ids = new Map<string, IdPlace | IdPlace[]>();
  /** Nothing of this type lies in the tables yet. */
  #first: boolean;

  constructor(store: DefinitionStore, target: SweepTarget, first: boolean) {
    this.#store = store;
    this.#typeId = target.typeId;
    this.#first = first;
  }

  /** The file must not be in the index. */
  add(file: FileRecord): void {
    const { root, filename } = file;
    const relative = relativePath(file.type, filename);
    this.#files.push([fileKey(root, relative), packFile(file, isWhole(relative) ? null : relative)]);
    const name = listedName(file, filename);
    if (name !== null) addTo(this.#names, name, packCandidate(file));
    if (file.kind === "entry") addTo(this.#ids, file.id, { root, filename, name: file.name, id: file.id });
  }

  get isDue(): boolean {
    return this.#files.length >= FILES_PER_COMMIT;
  }

  /** One durable transaction. */
  commit(): void {
    if (this.#files.length === 0) return;
    const { files, names, ids } = this.#store;
    this.#store.transaction(() => {
      for (const [key, value] of this.#files) files.commit(key, value);
      for (const [name, candidates] of this.#names) {
        const key = nameKey(name, this.#typeId);
        names.commit(key, joinCandidates(candidates, this.#stored(names, key, name)));
      }
      for (const [id, places] of this.#ids) {
        const key = nameKey(id, this.#typeId);
        ids.commit(key, joinPlaces(places, this.#stored(ids, key, id)));
      }
    });
    this.#files.length = 0;
    this.#names.clear();
    this.#ids.clear();
    this.#first = false;
  }

  #stored(table: Table, key: Buffer, text: string): Buffer | undefined {
    // Two long names of one commit may share a key.
    return this.#first && !mayShareKey(text) ? undefined : table.get(key);
  }
}

function addTo<T>(map: Map<string, T | T[]>, key: string, value: T): void {
  const there = map.get(key);
  if (there === undefined) map.set(key, value);
  else if (Array.isArray(there)) there.push(value);
  else map.set(key, [there, value]);
}

function joinCandidates(added: Buffer | Buffer[], stored: Buffer | undefined): Buffer {
  if (stored === undefined && !Array.isArray(added)) return added;
  const values = stored === undefined ? [added].flat() : [added, stored].flat();
  const candidates = values.flatMap((value) => candidatesIn(value)).sort(compareCandidates);
  return Buffer.concat(candidates.map((candidate) => candidate.slice()));
}

function joinPlaces(added: IdPlace | IdPlace[], stored: Buffer | undefined): Buffer {
  const places = stored === undefined ? [added].flat() : [...[added].flat(), ...placesIn(stored)];
  return packPlaces(places.length === 1 ? places : places.sort(comparePlaces));
}

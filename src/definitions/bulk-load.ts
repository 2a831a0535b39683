/**
 * Writes the files of a directory that the index knows nothing of yet: gathered, and inserted in few transactions. One by
 * one they would read each key before writing it, and dirty the same pages again in every commit.
 */
import { fileKey, isWhole, mayShareKey, nameKey, relativePath } from "./keys.ts";
import { NameFilter } from "./name-filter.ts";
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

/**
 * Ids come in no order, so each commit writes nearly every page of their table anew: the more there is, the fewer commits.
 * 700 bytes a file wait in memory.
 */
const FEWEST_FILES_PER_COMMIT = 25_000;
const MOST_FILES_PER_COMMIT = 150_000;

export class BulkLoad {
  readonly #store: DefinitionStore;
  readonly #typeId: number;
  /** By path below the root, with the root in front. */
  readonly #files: [key: Buffer, value: Buffer][] = [];
  /** Files come in byte order of filename, and most are called after their names: so these are nearly in order, too. */
  readonly #names = new Map<string, Buffer | Buffer[]>();
  readonly #ids = new Map<string, IdPlace | IdPlace[]>();
  /** Every name and id of the type that lies in the tables; null where some may lie there that it does not have. */
  readonly #committed: NameFilter | null;
  #committedFiles = 0;

  /** `files`: how many will come. `alone`: nothing of this type lies in the tables yet. */
  constructor(store: DefinitionStore, target: SweepTarget, files: number, alone: boolean) {
    this.#store = store;
    this.#typeId = target.typeId;
    this.#committed = alone ? new NameFilter(2 * files) : null;
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
    const due = Math.max(FEWEST_FILES_PER_COMMIT, this.#committedFiles / 2);
    return this.#files.length >= Math.min(due, MOST_FILES_PER_COMMIT);
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
        ids.commit(key, joinPlaces(id, places, this.#stored(ids, key, id)));
      }
    });
    this.#committedFiles += this.#files.length;
    for (const text of this.#names.keys()) this.#committed?.add(text);
    for (const text of this.#ids.keys()) this.#committed?.add(text);
    this.#files.length = 0;
    this.#names.clear();
    this.#ids.clear();
  }

  #stored(table: Table, key: Buffer, text: string): Buffer | undefined {
    // Two long names of one commit may share a key.
    const isNew = this.#committed !== null && !mayShareKey(text) && !this.#committed.mayHave(text);
    return isNew ? undefined : table.get(key);
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

function joinPlaces(id: string, added: IdPlace | IdPlace[], stored: Buffer | undefined): Buffer {
  const places = stored === undefined ? [added].flat() : [...[added].flat(), ...placesIn(stored, id)];
  return packPlaces(places.length === 1 ? places : places.sort(comparePlaces));
}

/**
 * Writes the files of a directory that the index knows nothing of yet: gathered, put in key order and inserted in few
 * transactions. One by one they would read each key before writing it, and dirty the same pages again in every commit.
 */
import { fileKey, isWhole, nameKey, relativePath } from "./keys.ts";
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

interface Row<T> {
  key: Buffer;
  value: T;
}

export class BulkLoad {
  readonly #store: DefinitionStore;
  readonly #typeId: number;
  #files: Row<Buffer>[] = [];
  #names: Row<Buffer>[] = [];
  #ids: Row<IdPlace>[] = [];
  /** Nothing of this type lies in the tables yet. */
  #first: boolean;

  constructor(store: DefinitionStore, target: SweepTarget, first: boolean) {
    this.#store = store;
    this.#typeId = target.typeId;
    this.#first = first;
  }

  /** The file must not be in the index. */
  add(file: FileRecord): void {
    const relative = relativePath(file.type, file.filename);
    const whole = isWhole(relative);
    this.#files.push({ key: fileKey(file.root, relative), value: packFile(file, whole ? null : relative) });
    const name = listedName(file, file.filename);
    if (name !== null) this.#names.push({ key: nameKey(name, this.#typeId), value: packCandidate(file) });
    if (file.kind === "entry") {
      const { root, filename, id } = file;
      this.#ids.push({ key: nameKey(id, this.#typeId), value: { root, filename, name: file.name, id } });
    }
  }

  get isDue(): boolean {
    return this.#files.length >= FILES_PER_COMMIT;
  }

  /** One durable transaction. */
  commit(): void {
    if (this.#files.length === 0) return;
    const { files, names, ids } = this.#store;
    this.#store.transaction(() => {
      for (const { key, value } of sorted(this.#files)) files.commit(key, value);
      for (const { key, values } of this.#merged(names, this.#names)) {
        names.commit(key, values.length === 1 ? (values[0] ?? null) : joinCandidates(values));
      }
      for (const { key, values } of this.#merged(ids, this.#ids)) ids.commit(key, joinPlaces(values));
    });
    this.#files = [];
    this.#names = [];
    this.#ids = [];
    this.#first = false;
  }

  /** The rows of each key, with what the table holds under it already. */
  *#merged<T>(table: Table, rows: Row<T>[]): Iterable<{ key: Buffer; values: (T | Buffer)[] }> {
    const ordered = sorted(rows);
    for (let at = 0; at < ordered.length; ) {
      const { key } = ordered[at] as Row<T>;
      const values: (T | Buffer)[] = [];
      for (; at < ordered.length && ordered[at]?.key.equals(key); at++) values.push((ordered[at] as Row<T>).value);
      const stored = this.#first ? undefined : table.get(key);
      if (stored !== undefined) values.push(stored);
      yield { key, values };
    }
  }
}

function sorted<T>(rows: Row<T>[]): Row<T>[] {
  return rows.sort((a, b) => Buffer.compare(a.key, b.key));
}

function joinCandidates(values: readonly Buffer[]): Buffer {
  const candidates = values.flatMap((value) => candidatesIn(value)).sort(compareCandidates);
  return Buffer.concat(candidates.map((candidate) => candidate.slice()));
}

function joinPlaces(values: readonly (IdPlace | Buffer)[]): Buffer {
  const places = values.flatMap((value) => (Buffer.isBuffer(value) ? placesIn(value) : [value]));
  return packPlaces(places.length === 1 ? places : places.sort(comparePlaces));
}

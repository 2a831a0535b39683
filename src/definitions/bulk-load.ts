/**
 * Writes the files of a directory that the index knows nothing of yet: gathered, and inserted in few transactions. One by
 * one they would read each key before writing it, and dirty the same pages again in every commit.
 */
import { Arena } from "./arena.ts";
import { isWhole, mayShareKey, nameKey, relativePath, WrittenFileKey, WrittenNameKey } from "./keys.ts";
import { NameFilter } from "./name-filter.ts";
import { comparePlaces, listedName } from "./reconcile.ts";
import {
  candidatesIn,
  compareCandidates,
  type FileRecord,
  mostBytes,
  packPlaces,
  placesIn,
  writeCandidate,
  writeFile,
  writePlace,
} from "./records.ts";
import type { DefinitionStore, Table } from "./store.ts";

/**
 * Ids come in no order, so each commit writes nearly every page of their table anew: the more there is, the fewer commits.
 * 700 bytes a file wait in memory.
 */
const FEWEST_FILES_PER_COMMIT = 25_000;
const MOST_FILES_PER_COMMIT = 150_000;

/** Where the three records of each gathered file lie in the arena, one behind the other: five numbers a file. */
const SLAB = 0;
const FILE = 1;
const CANDIDATE = 2;
const PLACE = 3;
const NUMBERS_PER_FILE = 5;

export class BulkLoad {
  readonly #store: DefinitionStore;
  readonly #typeId: number;
  readonly #root: number;
  readonly #type: string;
  readonly #arena = new Arena();
  readonly #places: number[] = [];
  /** In byte order, and most are called after their names: so names are nearly in order, too. */
  readonly #filenames: string[] = [];
  readonly #names = new Gathered();
  readonly #ids = new Gathered();
  /** Every name and id of the type that lies in the tables; null where some may lie there that it does not have. */
  readonly #committed: NameFilter | null;
  #committedFiles = 0;

  /** `files`: how many will come. `alone`: nothing of this type lies in the tables yet. */
  constructor(
    store: DefinitionStore,
    o: { root: number; type: string; typeId: number; files: number; alone: boolean },
  ) {
    this.#store = store;
    this.#root = o.root;
    this.#type = o.type;
    this.#typeId = o.typeId;
    this.#committed = o.alone ? new NameFilter(2 * o.files) : null;
  }

  /** The file must not be in the index. */
  add(file: FileRecord): void {
    const arena = this.#arena;
    const { filename } = file;
    const number = this.#filenames.push(filename) - 1;
    const relative = relativePath(this.#type, filename);
    // All three lie in one slab: it is reserved for them at once.
    arena.reserve(mostBytes(file, relative));
    const start = arena.at;
    writeFile(arena, file, isWhole(relative) ? null : relative);
    const candidate = arena.at;
    const name = listedName(file, filename);
    if (name !== null) {
      writeCandidate(arena, file);
      this.#names.add(name, number);
    }
    const place = arena.at;
    if (file.kind === "entry") {
      writePlace(arena, file.root, filename, file.name, file.id);
      this.#ids.add(file.id, number);
    }
    this.#places.push(arena.slab, start, candidate, place, arena.at);
  }

  get isDue(): boolean {
    const due = Math.max(FEWEST_FILES_PER_COMMIT, this.#committedFiles / 2);
    return this.#filenames.length >= Math.min(due, MOST_FILES_PER_COMMIT);
  }

  /** One durable transaction. */
  commit(): void {
    if (this.#filenames.length === 0) return;
    this.#store.transaction(() => {
      this.#commitFiles();
      this.#commitGathered(this.#store.names, this.#names, CANDIDATE, joinCandidates);
      this.#commitGathered(this.#store.ids, this.#ids, PLACE, joinPlaces);
    });
    this.#committedFiles += this.#filenames.length;
    for (const text of this.#names.first.keys()) this.#committed?.add(text);
    for (const text of this.#ids.first.keys()) this.#committed?.add(text);
    this.#arena.clear();
    this.#places.length = 0;
    this.#filenames.length = 0;
    this.#names.clear();
    this.#ids.clear();
  }

  #commitFiles(): void {
    const { files } = this.#store;
    const key = new WrittenFileKey();
    key.root = this.#root;
    for (const [number, filename] of this.#filenames.entries()) {
      key.relative = relativePath(this.#type, filename);
      files.commit(key, this.#record(number, FILE));
    }
  }

  #commitGathered(
    table: Table,
    gathered: Gathered,
    part: typeof CANDIDATE | typeof PLACE,
    join: (records: Buffer[], text: string) => Buffer,
  ): void {
    const key = new WrittenNameKey();
    key.typeId = this.#typeId;
    for (const [text, first] of gathered.first) {
      let record = this.#record(first, part);
      const stored = this.#stored(table, text);
      const others = gathered.others.get(first);
      if (stored !== undefined || others !== undefined) {
        const records = [record, ...(others ?? []).map((number) => this.#record(number, part))];
        record = join(stored === undefined ? records : [...records, stored], text);
      }
      key.name = text;
      table.commit(key, record);
    }
  }

  #record(number: number, part: typeof FILE | typeof CANDIDATE | typeof PLACE): Buffer {
    const at = number * NUMBERS_PER_FILE;
    const [slab, start, end] = [this.#places[at + SLAB], this.#places[at + part], this.#places[at + part + 1]];
    return this.#arena.view(slab as number, start as number, end as number);
  }

  #stored(table: Table, text: string): Buffer | undefined {
    // Two long names of one commit may share a key.
    const isNew = this.#committed !== null && !mayShareKey(text) && !this.#committed.mayHave(text);
    return isNew ? undefined : table.get(nameKey(text, this.#typeId));
  }
}

/** Which files have a name or id; nearly always one. */
class Gathered {
  readonly first = new Map<string, number>();
  /** By the first of them. */
  readonly others = new Map<number, number[]>();

  add(text: string, number: number): void {
    const first = this.first.get(text);
    if (first === undefined) {
      this.first.set(text, number);
      return;
    }
    const others = this.others.get(first);
    if (others === undefined) this.others.set(first, [number]);
    else others.push(number);
  }

  clear(): void {
    this.first.clear();
    this.others.clear();
  }
}

function joinCandidates(records: Buffer[]): Buffer {
  const candidates = records.flatMap((record) => candidatesIn(record)).sort(compareCandidates);
  return Buffer.concat(candidates.map((candidate) => candidate.slice()));
}

function joinPlaces(records: Buffer[], id: string): Buffer {
  return packPlaces(records.flatMap((record) => placesIn(record, id)).sort(comparePlaces));
}

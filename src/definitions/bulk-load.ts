/**
 * Puts the files of a directory that the index knows nothing of yet, as they come: nothing is looked for that need not be there,
 * and keys that come in order are put behind the last one, which fills each page.
 */
import { isWholeLength, nameKey, type WrittenKey, writeTypeId } from "./keys.ts";
import { CANDIDATE, countOf, endOf, FILE, KEY, type PackedFiles, PLACE, startOf } from "./packed-files.ts";
import { comparePlaces } from "./reconcile.ts";
import {
  candidatesIn,
  compareCandidates,
  idLengthIn,
  idStartIn,
  nameLengthIn,
  nameStartIn,
  packPlaces,
  placesIn,
} from "./records.ts";
import type { DefinitionStore, Table } from "./store.ts";

/** How a file's record in a table is found among its records, and joined with another's of the same name or id. */
interface Kind {
  part: typeof CANDIDATE | typeof PLACE;
  /** Where the text of the record's key lies: in the candidate of the same file. */
  startIn(bytes: Buffer, candidate: number): number;
  lengthIn(bytes: Buffer, candidate: number): number;
  join(records: Buffer[], text: string): Buffer;
}

const NAMES: Kind = {
  part: CANDIDATE,
  startIn: nameStartIn,
  lengthIn: nameLengthIn,
  join(records) {
    const candidates = records.flatMap((record) => candidatesIn(record)).sort(compareCandidates);
    return Buffer.concat(candidates.map((candidate) => candidate.slice()));
  },
};

const IDS: Kind = {
  part: PLACE,
  startIn: idStartIn,
  lengthIn: idLengthIn,
  join(records, id) {
    return packPlaces(records.flatMap((record) => placesIn(record, id)).sort(comparePlaces));
  },
};

export class BulkLoad {
  readonly #store: DefinitionStore;
  readonly #typeId: number;
  readonly #fileKey = new WrittenBytes();
  readonly #textKey: WrittenText;

  constructor(store: DefinitionStore, typeId: number) {
    this.#store = store;
    this.#typeId = typeId;
    this.#textKey = new WrittenText(typeId);
  }

  /** Inside a transaction. None of them may be in the index. */
  put(packed: PackedFiles): void {
    if (countOf(packed) === 0) return;
    this.#putFiles(packed);
    this.#putTexts(this.#store.names, NAMES, packed);
    this.#putTexts(this.#store.ids, IDS, packed);
  }

  #putFiles(packed: PackedFiles): void {
    const { files } = this.#store;
    const { bytes } = packed;
    const key = this.#fileKey;
    let isBehind: boolean | undefined;
    for (let file = 0; file < countOf(packed); file++) {
      key.take(bytes, startOf(packed, file, KEY), endOf(packed, file, KEY));
      const record = bytes.subarray(startOf(packed, file, FILE), endOf(packed, file, FILE));
      isBehind ??= files.isBehindAll(key);
      if (!isBehind || !files.append(key, record)) files.commit(key, record);
    }
  }

  #putTexts(table: Table, { part, startIn, lengthIn, join }: Kind, packed: PackedFiles): void {
    const { bytes } = packed;
    const key = this.#textKey;
    let isBehind: boolean | undefined;
    for (let file = 0; file < countOf(packed); file++) {
      const start = startOf(packed, file, part);
      const end = endOf(packed, file, part);
      if (start === end) continue;
      const candidate = startOf(packed, file, CANDIDATE);
      const textStart = startIn(bytes, candidate);
      const textEnd = textStart + lengthIn(bytes, candidate);
      const record = bytes.subarray(start, end);
      if (isWholeLength(textEnd - textStart)) {
        key.take(bytes, textStart, textEnd);
        isBehind ??= table.isBehindAll(key);
        if ((isBehind && table.append(key, record)) || table.insert(key, record)) continue;
      }
      const text = bytes.toString("utf8", textStart, textEnd);
      const shared = nameKey(text, this.#typeId);
      const stored = table.get(shared);
      table.commit(shared, stored === undefined ? record : join([record, stored], text));
    }
  }
}

/** A key that lies in memory already. */
class WrittenBytes implements WrittenKey {
  #bytes: Buffer = Buffer.alloc(0);
  #start = 0;
  #end = 0;

  take(bytes: Buffer, start: number, end: number): void {
    this.#bytes = bytes;
    this.#start = start;
    this.#end = end;
  }

  writeTo(target: Buffer, at: number): number {
    const bytes = this.#bytes;
    const end = this.#end;
    let to = at;
    for (let from = this.#start; from < end; ) target[to++] = bytes[from++] as number;
    return to;
  }
}

/** The key of a name or an id whose text lies in memory already. */
class WrittenText extends WrittenBytes {
  readonly #typeId: number;

  constructor(typeId: number) {
    super();
    this.#typeId = typeId;
  }

  override writeTo(target: Buffer, at: number): number {
    return writeTypeId(target, super.writeTo(target, at), this.#typeId);
  }
}

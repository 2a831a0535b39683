/** The index's four tables, and what of them is not written yet. */
import type { Database, PutOptions, RootDatabase } from "lmdb";
import { compareUtf8 } from "../scan/order.ts";
import {
  fileKey,
  filePrefix,
  isWhole,
  keyEncoder,
  LONG_TEXT_KEPT,
  nameKey,
  nameRange,
  relativePath,
  typeIdOf,
  WrittenFileKey,
  type WrittenKey,
  WrittenNameKey,
} from "./keys.ts";
import { longPathOf } from "./records.ts";

/** One write that waits for its commit: table, key, value (null removes). */
export type PendingPut = [table: TableName, key: Uint8Array, value: Uint8Array | null];
export type TableName = "names" | "ids" | "files" | "types";

export const TABLES: readonly TableName[] = ["names", "ids", "files", "types"];

/**
 * A table whose writes are seen at once and committed later. The index is a cache: what a crash keeps from being
 * committed is read again, so a write need not wait for the disk, and a lookup never waits for a commit.
 */
export class Table {
  readonly name: TableName;
  readonly #db: Database<Buffer, Buffer>;
  readonly #sought = new WrittenNameKey();
  readonly #soughtFile = new WrittenFileKey();
  readonly #waiting = new Map<string, Buffer | null>();

  constructor(name: TableName, root: RootDatabase) {
    this.name = name;
    const options = { name, encoding: "binary" as const, keyEncoder };
    this.#db = root.openDB<Buffer, Buffer>(options);
  }

  /** The value under a name key, valid until the next get: {@link copyOf} what must live longer. */
  peekName(name: string, typeId: number): Buffer | undefined {
    if (this.#waiting.size !== 0) return this.peek(nameKey(name, typeId));
    this.#sought.name = name;
    this.#sought.typeId = typeId;
    return this.#db.getBinaryFast(asKey(this.#sought));
  }

  /** The same under a file's key. */
  peekFile(root: number, relative: string): Buffer | undefined {
    if (this.#waiting.size !== 0) return this.peek(fileKey(root, relative));
    this.#soughtFile.root = root;
    this.#soughtFile.relative = relative;
    return this.#db.getBinaryFast(asKey(this.#soughtFile));
  }

  /** As {@link peekName}, of any key. */
  peek(key: Buffer): Buffer | undefined {
    const waiting = this.#waiting.get(key.toString("latin1"));
    return waiting === undefined ? this.#db.getBinaryFast(key) : (waiting ?? undefined);
  }

  get(key: Buffer): Buffer | undefined {
    const value = this.peek(key);
    return value === undefined ? undefined : copyOf(value);
  }

  put(key: Buffer, value: Buffer | null): void {
    this.#waiting.set(key.toString("latin1"), value);
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  takeWaiting(into: PendingPut[]): void {
    for (const [key, value] of this.#waiting) into.push([this.name, Buffer.from(key, "latin1"), value]);
  }

  /** These were committed; what has been written over since still waits. */
  dropCommitted(key: Uint8Array, value: Uint8Array | null): void {
    const text = Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString("latin1");
    if (this.#waiting.get(text) === value) this.#waiting.delete(text);
  }

  /** Inside a transaction. */
  commit(key: Uint8Array | WrittenKey, value: Uint8Array | null): void {
    if (value === null) this.#db.removeSync(asKey(key));
    else this.#db.putSync(asKey(key), value as Buffer);
  }

  /** Inside a transaction, of a key that nothing may lie under. False, and nothing is written, where something does. */
  insert(key: WrittenKey, value: Uint8Array): boolean {
    return this.#put(key, value, { noOverwrite: true });
  }

  /** As {@link insert}, and sooner, of a key that comes behind all others: it fills each page. False where it does not. */
  append(key: WrittenKey, value: Uint8Array): boolean {
    return this.#put(key, value, { append: true });
  }

  #put(key: WrittenKey, value: Uint8Array, options: PutOptions): boolean {
    // Its types say that it returns nothing; it returns whether it has written.
    const isWritten: unknown = this.#db.putSync(asKey(key), value as Buffer, options);
    return isWritten === true;
  }

  /** Whether the key would come behind all that are committed. */
  isBehindAll(key: WrittenKey): boolean {
    const end = key.writeTo(behind, 0);
    for (const last of this.#db.getKeys({ reverse: true, limit: 1 }))
      return behind.compare(last, 0, last.length, 0, end) > 0;
    return true;
  }

  /** How many committed records lie in the range. */
  count(start: Buffer, end: Buffer): number {
    return this.#db.getKeysCount({ start, end });
  }

  /** What lies in the range, and what waits to; in no order. For ranges that hold few. */
  all(start: Buffer, end: Buffer): Map<string, Buffer | null> {
    const found = new Map<string, Buffer | null>();
    for (const { key, value } of this.range(start, end)) found.set(key.toString("latin1"), value);
    const [first, behind] = [start.toString("latin1"), end.toString("latin1")];
    for (const [key, value] of this.#waiting) if (key >= first && key < behind) found.set(key, value);
    return found;
  }

  /** Committed records only: have everything committed first. `end` is exclusive. What it gives are copies. */
  range(start: Buffer, end: Buffer, limit?: number): Iterable<{ key: Buffer; value: Buffer }> {
    return this.#db.getRange({ start, end, ...(limit === undefined ? {} : { limit }) });
  }
}

/** LMDB's longest key. */
const behind = Buffer.alloc(1978);

/** {@link keyEncoder} knows them all; lmdb's types do not. */
function asKey(key: Uint8Array | WrittenKey): Buffer {
  return key as Buffer;
}

/** lmdb lends one large buffer, of which only the first `length` bytes are the value. */
export function copyOf(value: Buffer): Buffer {
  return Buffer.from(value.subarray(0, value.length));
}

/** A file of the index with the path below its root. */
export interface StoredFile {
  key: Buffer;
  relative: string;
  value: Buffer;
}

export class DefinitionStore {
  readonly root: RootDatabase;
  readonly names: Table;
  readonly ids: Table;
  readonly files: Table;
  readonly types: Table;

  constructor(root: RootDatabase) {
    this.root = root;
    this.names = new Table("names", root);
    this.ids = new Table("ids", root);
    this.files = new Table("files", root);
    this.types = new Table("types", root);
  }

  get waiting(): number {
    return this.names.waiting + this.ids.waiting + this.files.waiting + this.types.waiting;
  }

  takeWaiting(): PendingPut[] {
    const puts: PendingPut[] = [];
    for (const table of TABLES) this[table].takeWaiting(puts);
    return puts;
  }

  /** Commits in one durable transaction; a throw rolls all of it back. What is read after it is read anew. */
  commit(puts: readonly PendingPut[]): void {
    this.transaction(() => {
      for (const [table, key, value] of puts) this[table].commit(key, value);
    });
  }

  transaction(write: () => void): void {
    this.root.transactionSync(() => {
      write();
    });
    this.readAnew();
  }

  /** A reader goes on seeing what it saw in this turn, whatever this or another thread has committed since. */
  readAnew(): void {
    this.root.resetReadTxn();
  }

  dropCommitted(puts: readonly PendingPut[]): void {
    this.readAnew();
    for (const [table, key, value] of puts) this[table].dropCommitted(key, value);
  }

  peekName(name: string, typeId: number): Buffer | undefined {
    return this.names.peekName(name, typeId);
  }

  getId(id: string, typeId: number): Buffer | undefined {
    const value = this.ids.peekName(id, typeId);
    return value === undefined ? undefined : copyOf(value);
  }

  getFile(root: number, type: string, filename: string): Buffer | undefined {
    return this.files.get(fileKey(root, relativePath(type, filename)));
  }

  /** All types that hold this name (or id, over `ids`). */
  *ofAllTypes(table: "names" | "ids", text: string): Iterable<{ typeId: number; value: Buffer }> {
    const { start, end } = nameRange(text);
    for (const [key, value] of this[table].all(start, end)) {
      if (value !== null) yield { typeId: typeIdOf(Buffer.from(key, "latin1")), value };
    }
  }

  /** The types seen so far and their numbers. */
  *knownTypes(): Iterable<{ type: string; id: number }> {
    for (const { key, value } of this.types.range(Buffer.of(0), Buffer.of(255, 255, 255, 255, 255))) {
      yield { id: key.readUInt32BE(0), type: value.toString("utf8") };
    }
  }

  /** Null: there is no type of this number any more. */
  putType(id: number, type: string | null): void {
    const key = Buffer.alloc(4);
    key.writeUInt32BE(id);
    this.types.put(key, type === null ? null : Buffer.from(type, "utf8"));
  }

  /** Committed files of one root whose path begins with `prefix`, all below included. */
  countFilesUnder(root: number, prefix: string): number {
    const start = filePrefix(root, prefix);
    return this.files.count(start, successor(start));
  }

  /**
   * Files of one root whose path begins with `prefix`, in byte order of path, from behind `after` on; at most about `limit`.
   * With `nested: false`, only files of the directory itself (`prefix` ends in `/` or is empty).
   */
  filesUnder(root: number, prefix: string, o: { after?: string; limit: number; nested: boolean }): StoredFile[] {
    const found: StoredFile[] = [];
    let start = filePrefix(root, prefix);
    const end = successor(start);
    if (o.after !== undefined && isWhole(o.after)) {
      start = Buffer.concat([fileKey(root, o.after), Buffer.of(0)]);
    } else if (o.after !== undefined) {
      start = filePrefix(root, o.after);
    }
    for (;;) {
      let jump: Buffer | null = null;
      let last: Buffer | null = null;
      for (const { key, value } of this.files.range(start, end)) {
        // A group of long paths comes whole, so that it can be put in order.
        if (found.length >= o.limit && !(last !== null && isOneGroup(last, key))) break;
        last = key;
        const relative = longPathOf(value) ?? key.toString("utf8", 1);
        if (!relative.startsWith(prefix)) continue;
        if (o.after !== undefined && compareUtf8(relative, o.after) <= 0) continue;
        const slash = o.nested ? -1 : relative.indexOf("/", prefix.length);
        if (slash >= 0) {
          if (!isWhole(relative)) continue;
          // Skips a sub-directory in one step: "0" follows "/".
          jump = filePrefix(root, `${relative.slice(0, slash)}0`);
          break;
        }
        found.push({ key, relative, value });
      }
      if (jump === null) break;
      start = jump;
    }
    return inPathOrder(found);
  }
}

/** Both keys are shortened, and differ only in their hashes: their order is not that of their paths. */
function isOneGroup(a: Buffer, b: Buffer): boolean {
  const kept = 1 + LONG_TEXT_KEPT;
  return a.length > kept && b.length > kept && a.compare(b, 0, kept, 0, kept) === 0;
}

function successor(prefix: Buffer): Buffer {
  const next = Buffer.from(prefix);
  for (let at = next.length - 1; at >= 0; at--) {
    const byte = next[at] ?? 0;
    if (byte < 255) {
      next[at] = byte + 1;
      return next.subarray(0, at + 1);
    }
  }
  return Buffer.alloc(1978, 255);
}

/** Keys are in path order but for those that were shortened. */
function inPathOrder(files: StoredFile[]): StoredFile[] {
  return files.some((file) => longPathOf(file.value) !== null)
    ? files.sort((a, b) => compareUtf8(a.relative, b.relative))
    : files;
}

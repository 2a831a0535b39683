/**
 * The three kinds of value in the index, packed.
 *
 * - `names`: (name, type) → every file of every root whose content has this name, and the broken files that are called
 *   so, with all that a hit or a miss needs: one get answers.
 * - `ids`: (id, type) → where the files with this id lie, and their names.
 * - `files`: (root, path) → the file's stamp and what it was found to hold, to tell what a change has changed.
 */

import type { ProblemKind } from "../errors.ts";
import { compareUtf8 } from "../scan/order.ts";
import { STAMP_BYTES, setUint32, uint32 } from "../scan/stamp.ts";
import { mayShareKey } from "./keys.ts";
import { type Packing, Scratch } from "./packing.ts";

/** A file as it was last read. */
export type FileRecord = EntryRecord | ProblemRecord;

interface FileFacts {
  root: number;
  type: string;
  filename: string;
  stamp: Uint8Array;
  symlink: boolean;
  /** Its stamp was too young to be trusted when it was read. */
  racy: boolean;
}

export interface EntryRecord extends FileFacts {
  kind: "entry";
  id: string;
  name: string;
  declaredType: string | null;
  documentJson: string | null;
}

export interface ProblemRecord extends FileFacts {
  kind: "problem";
  problemKind: ProblemKind;
  message: string;
  line: number;
  column: number;
}

const scratch = new Scratch();

const SYMLINK = 1;
const RACY = 2;
const HAS_DOCUMENT = 4;
const DECLARES_NO_TYPE = 8;
const DECLARES_ITS_DIRECTORY = 16;
const BROKEN = 32;
const LONG_PATH = 64;
/** In a candidate: the file is called after its name. */
const NAMED = 128;

// ── names: a list of candidates ─────────────────────────────────────────────────────────────────────

const CANDIDATE_HEADER = 20 + STAMP_BYTES;
const STAMP_AT = 20;

/** Sizes and places within one packed candidate; the text is decoded only where it is asked for. */
export class PackedCandidate {
  readonly bytes: Buffer;
  readonly at: number;
  readonly end: number;
  readonly #flags: number;
  readonly #idAt: number;
  readonly #nameAt: number;
  readonly #declaredAt: number;
  readonly #documentAt: number;

  constructor(bytes: Buffer, at: number) {
    this.bytes = bytes;
    this.at = at;
    this.#flags = bytes[at + 1] ?? 0;
    this.#idAt = idStartIn(bytes, at);
    this.#nameAt = this.#idAt + idLengthIn(bytes, at);
    this.#declaredAt = this.#nameAt + nameLengthIn(bytes, at);
    this.#documentAt = this.#declaredAt + uint32(bytes, at + 12);
    this.end = this.#documentAt + uint32(bytes, at + 16);
  }

  get root(): number {
    return this.bytes[this.at] ?? 0;
  }

  get symlink(): boolean {
    return (this.#flags & SYMLINK) !== 0;
  }

  get racy(): boolean {
    return (this.#flags & RACY) !== 0;
  }

  /** The file called after this name is a problem: it is no match, but it stands in the name's way. */
  get broken(): boolean {
    return (this.#flags & BROKEN) !== 0;
  }

  /** The file is called `{name}.yaml`. */
  get named(): boolean {
    return (this.#flags & NAMED) !== 0;
  }

  get stampAt(): number {
    return this.at + STAMP_AT;
  }

  get filename(): string {
    return this.named ? `${this.name}.yaml` : this.bytes.toString("utf8", this.at + CANDIDATE_HEADER, this.#idAt);
  }

  get id(): string {
    return this.bytes.toString("utf8", this.#idAt, this.#nameAt);
  }

  get name(): string {
    return this.bytes.toString("utf8", this.#nameAt, this.#declaredAt);
  }

  declaredType(directory: string): string | null {
    if (this.#flags & DECLARES_ITS_DIRECTORY) return directory;
    if (this.#flags & DECLARES_NO_TYPE) return null;
    return this.bytes.toString("utf8", this.#declaredAt, this.#documentAt);
  }

  get documentJson(): string | null {
    return this.#flags & HAS_DOCUMENT ? this.bytes.toString("utf8", this.#documentAt, this.end) : null;
  }

  slice(): Buffer {
    return this.bytes.subarray(this.at, this.end);
  }
}

/** Of a packed candidate: where its id and its name lie, in bytes. */
export function idStartIn(bytes: Buffer, at: number): number {
  return at + CANDIDATE_HEADER + ((bytes[at + 2] ?? 0) | ((bytes[at + 3] ?? 0) << 8));
}

export function idLengthIn(bytes: Buffer, at: number): number {
  return uint32(bytes, at + 4);
}

export function nameStartIn(bytes: Buffer, at: number): number {
  return idStartIn(bytes, at) + idLengthIn(bytes, at);
}

export function nameLengthIn(bytes: Buffer, at: number): number {
  return uint32(bytes, at + 8);
}

export function candidatesIn(value: Buffer): PackedCandidate[] {
  const candidates: PackedCandidate[] = [];
  for (let at = 0; at < value.length; ) {
    const candidate = new PackedCandidate(value, at);
    candidates.push(candidate);
    at = candidate.end;
  }
  return candidates;
}

export function packCandidate(file: FileRecord): Buffer {
  writeCandidate(scratch, file);
  return scratch.take();
}

/** Packs a file for the list of its name; a broken file stands in the list of the name that it is called after. */
export function writeCandidate(to: Packing, file: FileRecord): void {
  const entry = file.kind === "entry" ? file : null;
  const sameType = entry !== null && entry.declaredType === file.type;
  const declared = entry === null || sameType ? "" : (entry.declaredType ?? "");
  const document = entry?.documentJson ?? "";
  const id = entry?.id ?? "";
  const name = entry?.name ?? nameCalledBy(file.filename);
  const named = file.filename === `${name}.yaml`;
  const filename = named ? "" : file.filename;
  const bytes = to.reserve(
    CANDIDATE_HEADER + 3 * (filename.length + id.length + name.length + declared.length + document.length),
  );
  const start = to.at;
  bytes[start] = file.root;
  bytes[start + 1] =
    (file.symlink ? SYMLINK : 0) |
    (file.racy ? RACY : 0) |
    (entry !== null && entry.documentJson !== null ? HAS_DOCUMENT : 0) |
    (entry !== null && entry.declaredType === null ? DECLARES_NO_TYPE : 0) |
    (sameType ? DECLARES_ITS_DIRECTORY : 0) |
    (entry === null ? BROKEN : 0) |
    (named ? NAMED : 0);
  bytes.set(file.stamp, start + STAMP_AT);
  to.at = start + CANDIDATE_HEADER;
  bytes.writeUInt16LE(writeText(to, bytes, filename), start + 2);
  setUint32(bytes, start + 4, writeText(to, bytes, id));
  setUint32(bytes, start + 8, writeText(to, bytes, name));
  setUint32(bytes, start + 12, writeText(to, bytes, declared));
  setUint32(bytes, start + 16, writeText(to, bytes, document));
}

/** Its length in bytes. */
function writeText(to: Packing, bytes: Buffer, text: string): number {
  const written = text === "" ? 0 : bytes.write(text, to.at, "utf8");
  to.at += written;
  return written;
}

/** The name that `{name}.yaml` is called after. */
export function nameCalledBy(filename: string): string {
  return filename.slice(0, -".yaml".length);
}

/** By root, then the file called after its name, then byte order of filename. */
export function compareCandidates(a: PackedCandidate, b: PackedCandidate): number {
  if (a.root !== b.root) return a.root - b.root;
  if (a.broken !== b.broken) return a.broken ? 1 : -1;
  if (a.named !== b.named) return a.named ? -1 : 1;
  return compareUtf8(a.filename, b.filename);
}

// ── ids: a list of places ───────────────────────────────────────────────────────────────────────────

/** Where a file with this id lies. */
export interface IdPlace {
  root: number;
  filename: string;
  name: string;
  id: string;
}

/**
 * Each: root (1), lengths of filename (2), name (4) and id (4), then the three. A name that the filename tells is left
 * out; so is the id, but for one whose key is shortened.
 */
const PLACE_HEADER = 11;

export function packPlaces(places: readonly IdPlace[]): Buffer {
  for (const { root, filename, name, id } of places) writePlace(scratch, root, filename, name, id);
  return scratch.take();
}

export function writePlace(to: Packing, root: number, filename: string, name: string, id: string): void {
  const bytes = to.reserve(PLACE_HEADER + 3 * (filename.length + name.length + id.length));
  const start = to.at;
  bytes[start] = root;
  to.at = start + PLACE_HEADER;
  bytes.writeUInt16LE(writeText(to, bytes, filename), start + 1);
  setUint32(bytes, start + 3, writeText(to, bytes, filename === `${name}.yaml` ? "" : name));
  setUint32(bytes, start + 7, writeText(to, bytes, mayShareKey(id) ? id : ""));
}

/** `id`: the one that the value was got by. */
export function placesIn(value: Buffer, id: string): IdPlace[] {
  const places: IdPlace[] = [];
  for (let at = 0; at < value.length; ) {
    const nameAt = at + PLACE_HEADER + value.readUInt16LE(at + 1);
    const idAt = nameAt + value.readUInt32LE(at + 3);
    const end = idAt + value.readUInt32LE(at + 7);
    const filename = value.toString("utf8", at + PLACE_HEADER, nameAt);
    places.push({
      root: value[at] ?? 0,
      filename,
      name: nameAt === idAt ? nameCalledBy(filename) : value.toString("utf8", nameAt, idAt),
      id: idAt === end ? id : value.toString("utf8", idAt, end),
    });
    at = end;
  }
  return places;
}

// ── files ───────────────────────────────────────────────────────────────────────────────────────────

const KINDS: readonly (ProblemKind | "entry")[] = [
  "entry",
  "syntax",
  "invalid",
  "too-large",
  "outside-boundary",
  "dangling-symlink",
  "bad-filename",
];
const FILE_HEADER = 2 + STAMP_BYTES;
/** Where a packed file's stamp lies. */
export const FILE_STAMP_AT = 2;

/** A file without its document, as it lies in `files`. */
export type PackedFile =
  | { kind: "entry"; symlink: boolean; racy: boolean; id: string; name: string; relative: string | null }
  | {
      kind: "problem";
      symlink: boolean;
      racy: boolean;
      problemKind: ProblemKind;
      message: string;
      line: number;
      column: number;
      relative: string | null;
    };

export function packFile(file: FileRecord, longPath: string | null): Buffer {
  writeFile(scratch, file, longPath);
  return scratch.take();
}

/** `longPath` is the path below the root where the key cannot hold it, else null. */
export function writeFile(to: Packing, file: FileRecord, longPath: string | null): void {
  const first = file.kind === "entry" ? file.id : file.message;
  const second = file.kind === "entry" ? file.name : `${file.line}:${file.column}`;
  const third = longPath ?? "";
  const bytes = to.reserve(FILE_HEADER + 12 + 3 * (first.length + second.length + third.length));
  const start = to.at;
  bytes[start] = KINDS.indexOf(file.kind === "entry" ? "entry" : file.problemKind);
  bytes[start + 1] = (file.symlink ? SYMLINK : 0) | (file.racy ? RACY : 0) | (longPath === null ? 0 : LONG_PATH);
  bytes.set(file.stamp, start + FILE_STAMP_AT);
  to.at = start + FILE_HEADER;
  writeSized(to, bytes, first);
  writeSized(to, bytes, second);
  writeSized(to, bytes, third);
}

/** The most that all records of a file take together, its path below the root included. */
export function mostBytes(file: FileRecord, relative: string): number {
  const texts =
    file.kind === "entry"
      ? 3 * (file.id.length + file.name.length) + (file.declaredType?.length ?? 0) + (file.documentJson?.length ?? 0)
      : file.message.length + 2 * file.filename.length + LINE_AND_COLUMN;
  return FILE_HEADER + 12 + CANDIDATE_HEADER + PLACE_HEADER + 3 * (texts + 2 * file.filename.length + relative.length);
}

const LINE_AND_COLUMN = 40;

function writeSized(to: Packing, bytes: Buffer, text: string): void {
  const start = to.at;
  to.at = start + 4;
  setUint32(bytes, start, writeText(to, bytes, text));
}

export function isRacyFile(value: Uint8Array): boolean {
  return ((value[1] ?? 0) & RACY) !== 0;
}

export function isSymlinkFile(value: Uint8Array): boolean {
  return ((value[1] ?? 0) & SYMLINK) !== 0;
}

export function isEntryFile(value: Uint8Array): boolean {
  return value[0] === 0;
}

/** The path below the root where the key could not hold it. */
export function longPathOf(value: Buffer): string | null {
  return (value[1] ?? 0) & LONG_PATH ? (textsOf(value)[2] ?? null) : null;
}

export function unpackFile(value: Buffer): PackedFile {
  const [first = "", second = "", third = ""] = textsOf(value);
  const flags = value[1] ?? 0;
  const facts = {
    symlink: (flags & SYMLINK) !== 0,
    racy: (flags & RACY) !== 0,
    relative: flags & LONG_PATH ? third : null,
  };
  const kind = KINDS[value[0] ?? 0] ?? "invalid";
  if (kind === "entry") return { kind, ...facts, id: first, name: second };
  const [line = 0, column = 0] = second.split(":").map(Number);
  return { kind: "problem", ...facts, problemKind: kind, message: first, line, column };
}

function textsOf(value: Buffer): string[] {
  const texts: string[] = [];
  for (let at = FILE_HEADER; at < value.length; ) {
    const length = value.readUInt32LE(at);
    texts.push(value.toString("utf8", at + 4, at + 4 + length));
    at += 4 + length;
  }
  return texts;
}

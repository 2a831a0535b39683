/** Brings the index in line with one file as it was just found. The only place that writes `names`, `ids` and `files`. */
import { compareUtf8 } from "../scan/order.ts";
import { fileKey, isWhole, nameKey, relativePath } from "./keys.ts";
import {
  candidatesIn,
  compareCandidates,
  type FileRecord,
  type IdPlace,
  nameCalledBy,
  type PackedCandidate,
  packCandidate,
  packFile,
  packPlaces,
  placesIn,
  unpackFile,
} from "./records.ts";
import type { DefinitionStore } from "./store.ts";

/** Where a file lies. */
export interface FilePlace {
  root: number;
  type: string;
  typeId: number;
  filename: string;
}

/** What a file's change did to the number of valid definitions. */
export type CountChange = -1 | 0 | 1;

/** `found` is null when there is no such file any more. */
export function reconcile(store: DefinitionStore, place: FilePlace, found: FileRecord | null): CountChange {
  const relative = relativePath(place.type, place.filename);
  const key = fileKey(place.root, relative);
  const stored = store.files.get(key);
  const before = stored === undefined ? null : unpackFile(stored);

  const nameBefore = before === null ? null : listedName(before, place.filename);
  const nameNow = found === null ? null : listedName(found, place.filename);
  if (nameBefore !== null && nameBefore !== nameNow) changeCandidates(store, place, nameBefore, null);
  if (found !== null && nameNow !== null) changeCandidates(store, place, nameNow, packCandidate(found));

  const idBefore = before?.kind === "entry" ? before.id : null;
  const entry = found?.kind === "entry" ? found : null;
  if (idBefore !== null && idBefore !== entry?.id) changePlaces(store, place, idBefore, null);
  if (entry !== null && !(before?.kind === "entry" && idBefore === entry.id && nameBefore === entry.name)) {
    changePlaces(store, place, entry.id, entry.name);
  }

  if (found !== null) store.files.put(key, packFile(found, isWhole(relative) ? null : relative));
  else if (stored !== undefined) store.files.put(key, null);
  return ((entry === null ? 0 : 1) - (idBefore === null ? 0 : 1)) as CountChange;
}

/** The name in whose list a file stands: its own, or the one that a broken file is called after. */
export function listedName(
  file: { kind: "entry"; name: string } | { kind: "problem"; problemKind: string },
  filename: string,
): string | null {
  if (file.kind === "entry") return file.name;
  return file.problemKind === "bad-filename" ? null : nameCalledBy(filename);
}

function changeCandidates(store: DefinitionStore, place: FilePlace, name: string, candidate: Buffer | null): void {
  const key = nameKey(name, place.typeId);
  const stored = store.names.get(key);
  if (stored === undefined) {
    if (candidate !== null) store.names.put(key, candidate);
    return;
  }
  const others = candidatesIn(stored).filter((other) => !liesAt(other, place, name));
  const list = candidate === null ? others : [...others, ...candidatesIn(candidate)].sort(compareCandidates);
  store.names.put(key, list.length === 0 ? null : Buffer.concat(list.map((c) => c.slice())));
}

function liesAt(candidate: PackedCandidate, place: FilePlace, name: string): boolean {
  // Names that share a shortened key share a list, too.
  return candidate.root === place.root && candidate.filename === place.filename && candidate.name === name;
}

/** `name` null: the id no longer lies there. */
function changePlaces(store: DefinitionStore, place: FilePlace, id: string, name: string | null): void {
  const key = nameKey(id, place.typeId);
  const stored = store.ids.get(key);
  const others =
    stored === undefined
      ? []
      : placesIn(stored, id).filter((p) => !(p.root === place.root && p.filename === place.filename && p.id === id));
  if (name === null && stored === undefined) return;
  const list =
    name === null ? others : [...others, { root: place.root, filename: place.filename, name, id }].sort(comparePlaces);
  store.ids.put(key, list.length === 0 ? null : packPlaces(list));
}

/** By root, then `{id}.yaml`, then byte order of filename. */
export function comparePlaces(a: IdPlace, b: IdPlace): number {
  if (a.root !== b.root) return a.root - b.root;
  const aNamed = a.filename === `${a.id}.yaml`;
  const bNamed = b.filename === `${b.id}.yaml`;
  if (aNamed !== bNamed) return aNamed ? -1 : 1;
  return compareUtf8(a.filename, b.filename);
}

/** The files that the index knows, as entries, documents and problems. */
import type { DefinitionProblem } from "../errors.ts";
import { documentOf, type ExaminedEntry, type ExamineOptions, examineFile } from "../scan/examine.ts";
import { type DefinitionEntry, namingOf } from "../scan/model.ts";
import { readStamp, STAMP_BYTES, sameStamp, unpackStamp } from "../scan/stamp.ts";
import type { Candidate, DefinitionRoot, Occupant } from "./model.ts";
import { candidatesIn, type IdPlace, type PackedCandidate, placesIn, unpackFile } from "./records.ts";
import { copyOf, type DefinitionStore } from "./store.ts";
import { baseOf, type TypeState } from "./type-state.ts";
import type { TypeTree } from "./type-tree.ts";

export class IndexedFiles {
  readonly roots: readonly DefinitionRoot[];
  readonly #store: DefinitionStore;
  readonly #tree: TypeTree;
  readonly #examine: ExamineOptions;
  readonly #scratch = new Uint8Array(STAMP_BYTES);
  /** Told of each file that was opened for its document. */
  readonly #onRead: () => void;

  constructor(store: DefinitionStore, tree: TypeTree, examine: ExamineOptions, onRead: () => void) {
    this.#store = store;
    this.#tree = tree;
    this.#examine = { ...examine, documents: true };
    this.#onRead = onRead;
    this.roots = tree.roots.map(({ name, dir }) => ({ name, dir }));
  }

  pathOf(state: TypeState, root: number, filename: string): string {
    return this.#tree.prefixOf(state, root) + filename;
  }

  /** Every file of the type that has this name, broken ones left out. */
  named(state: TypeState, name: string): PackedCandidate[] {
    const value = this.#store.peekName(name, state.id);
    return value === undefined ? [] : candidatesIn(copyOf(value)).filter((c) => !c.broken && c.name === name);
  }

  /** Where the files of the type lie that have this id. */
  identified(state: TypeState, id: string): IdPlace[] {
    const value = this.#store.getId(id, state.id);
    return value === undefined ? [] : placesIn(value, id).filter((place) => place.id === id);
  }

  candidateAt(state: TypeState, root: number, filename: string, name: string): PackedCandidate | null {
    return this.named(state, name).find((c) => c.root === root && c.filename === filename) ?? null;
  }

  isUnchanged(path: string, candidate: PackedCandidate): boolean {
    const kind = readStamp(path, candidate.symlink, this.#scratch, 0);
    return kind === "file" && sameStamp(candidate.bytes, candidate.stampAt, this.#scratch, 0);
  }

  handOut(state: TypeState, candidate: PackedCandidate, filename: string, path: string, name: string): Candidate {
    const { id } = candidate;
    const entry: DefinitionEntry = {
      id,
      name,
      type: state.type,
      declaredType: candidate.declaredType(state.type),
      root: this.roots[candidate.root]?.name ?? "",
      path,
      naming: candidate.named ? "name" : namingOf(filename, id, name),
      stamp: unpackStamp(candidate.bytes, candidate.stampAt),
    };
    return { entry, document: () => this.#documentOf(candidate, path) };
  }

  #documentOf(candidate: PackedCandidate, path: string): unknown {
    const kept = candidate.documentJson;
    if (kept !== null) return JSON.parse(kept);
    this.#onRead();
    const examined = examineFile(path, this.#examine);
    return examined.kind === "entry" ? documentOf(examined) : undefined;
  }

  problemOf(stored: Buffer, root: number, path: string): DefinitionProblem | null {
    const file = unpackFile(stored);
    if (file.kind !== "problem") return null;
    const place = file.line > 0 ? { line: file.line, column: file.column } : {};
    return { path, root: this.roots[root]?.name ?? "", kind: file.problemKind, message: file.message, ...place };
  }

  /** What lies at a path at this moment, whatever the index says. */
  examine(path: string, root: string, type: string): Occupant {
    const examined = examineFile(path, this.#examine);
    switch (examined.kind) {
      case "entry":
        this.#onRead();
        return { kind: "entry", entry: entryFrom(examined, root, type, path), document: documentOf(examined) };
      case "problem": {
        const { problemKind, message, line, column } = examined;
        const place = line > 0 ? { line, column } : {};
        return { kind: "problem", problem: { path, root, kind: problemKind, message, ...place } };
      }
      default:
        return { kind: "absent" };
    }
  }

  /**
   * What lies on the way from the root to the type at this moment: directories alone, something that ends it, or something
   * else, a symbolic link above all, behind which no type is looked for.
   */
  wayTo(root: number, type: string): "plain" | "absent" | "other" {
    let dir = this.roots[root]?.dir ?? "";
    if (readStamp(dir, true, this.#scratch, 0) === "absent") return "absent";
    for (const part of type === "" ? [] : type.split("/")) {
      dir = `${dir}/${part}`;
      const kind = readStamp(dir, false, this.#scratch, 0);
      if (kind !== "directory") return kind === "absent" ? "absent" : "other";
    }
    return "plain";
  }
}

function entryFrom(examined: ExaminedEntry, root: string, type: string, path: string): DefinitionEntry {
  const { id, name, declaredType, stamp } = examined;
  const naming = namingOf(baseOf(path), id, name);
  return { id, name, type, declaredType, root, path, naming, stamp: unpackStamp(stamp, 0) };
}

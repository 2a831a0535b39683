/** What can be told by looking at stamps: of links always, of everything where the kernel does not tell. */
import { readStamp, STAMP_BYTES, sameStamp } from "../scan/stamp.ts";
import { fileKey, relativePath } from "./keys.ts";
import { FILE_STAMP_AT, isRacyFile } from "./records.ts";
import type { DefinitionStore } from "./store.ts";
import type { TypeState } from "./type-state.ts";
import type { TypeTree } from "./type-tree.ts";

export class StampChecks {
  readonly #store: DefinitionStore;
  readonly #tree: TypeTree;
  readonly #scratch = new Uint8Array(STAMP_BYTES);

  constructor(store: DefinitionStore, tree: TypeTree) {
    this.#store = store;
    this.#tree = tree;
  }

  /** Marks the links of a type whose targets have changed: no watch of ours tells of those. */
  checkLinks(state: TypeState): void {
    for (const [root, names] of state.symlinks.entries()) {
      for (const filename of names) {
        if (!this.#isAsStored(state, root, filename, true)) state.pending[root]?.add(filename);
      }
    }
  }

  /**
   * Whether the stamps of the type's directories, and of those above, are the ones that they were listed with: then no
   * file has come, gone or been renamed. Where they are not, a sweep is called for. One that began after the observation
   * `since` needs no proof.
   */
  checkDirectories(leaf: TypeState, since: number): boolean {
    for (let state: TypeState | null = leaf; state !== null; state = state.parent) {
      if (state.boundedBecause !== null && state.sweptAt <= since && !this.#hold(state)) return false;
    }
    return true;
  }

  #hold(state: TypeState): boolean {
    for (const root of this.#tree.roots) {
      if (!root.present) continue;
      const listed = state.dirs[root.index] ?? null;
      const kind = readStamp(this.#tree.dirOf(state, root.index), state.parent === null, this.#scratch, 0);
      const isThere = kind === "directory";
      if (listed === null ? !isThere : isThere && !listed.racy && sameStamp(listed.stamp, 0, this.#scratch, 0))
        continue;
      // A directory that came or went stands in its parent's listing.
      if ((listed !== null) !== isThere) state.parent?.invalidate();
      state.invalidate();
      return false;
    }
    return true;
  }

  /** Marks the files of this name where their stamps have changed: a file called as it should be is never missed. */
  checkFiles(state: TypeState, filename: string): void {
    for (const { index } of this.#tree.roots) {
      if (state.dirs[index] === null || this.#isAsStored(state, index, filename, false)) continue;
      state.pending[index]?.add(filename);
    }
  }

  /** Whether the file's stamp is the one that it was read with, and proves something. */
  #isAsStored(state: TypeState, root: number, filename: string, follow: boolean): boolean {
    const path = `${this.#tree.dirOf(state, root)}/${filename}`;
    let kind = readStamp(path, follow, this.#scratch, 0);
    // A link that leads nowhere is kept by its own stamp.
    if (kind === "absent" && follow) kind = readStamp(path, false, this.#scratch, 0);
    const stored = this.#store.files.peek(fileKey(root, relativePath(state.type, filename)));
    // A link to a directory is none of ours.
    if (stored === undefined) return kind === "absent" || kind === "directory";
    return kind !== "absent" && !isRacyFile(stored) && sameStamp(stored, FILE_STAMP_AT, this.#scratch, 0);
  }
}

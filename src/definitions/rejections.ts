/** What a caller's codec refused: problems for as long as the file stays as it was refused. */
import { type DefinitionProblem, DefinitionReadError } from "../errors.ts";
import type { DefinitionEntry, FileStamp } from "../scan/model.ts";
import { readStamp, STAMP_BYTES, unpackStamp } from "../scan/stamp.ts";

export class Rejections {
  readonly #byPath = new Map<string, { problem: DefinitionProblem; stamp: FileStamp }>();
  readonly #scratch = new Uint8Array(STAMP_BYTES);

  /** With each that comes, two old ones are looked at: no more are kept of what is gone than of what is there. */
  add({ path, root, stamp }: DefinitionEntry, message: string): void {
    let left = Math.min(2, this.#byPath.size);
    for (const [old, rejected] of this.#byPath) {
      if (left-- === 0) break;
      this.#byPath.delete(old);
      if (this.#isThere(old, rejected.stamp)) this.#byPath.set(old, rejected);
    }
    this.#byPath.set(path, { problem: { path, root, kind: "invalid", message }, stamp });
  }

  get size(): number {
    return this.#byPath.size;
  }

  at(path: string): DefinitionProblem | null {
    const rejected = this.#byPath.get(path);
    if (rejected === undefined) return null;
    if (this.#isUnchanged(path, rejected.stamp)) return rejected.problem;
    this.#byPath.delete(path);
    return null;
  }

  /** What cannot be looked at may be there; it is no business of whoever asks for another file. */
  #isThere(path: string, stamp: FileStamp): boolean {
    try {
      return this.#isUnchanged(path, stamp);
    } catch (error) {
      if (!(error instanceof DefinitionReadError)) throw error;
      return true;
    }
  }

  #isUnchanged(path: string, stamp: FileStamp): boolean {
    if (readStamp(path, true, this.#scratch, 0) !== "file") return false;
    const now = unpackStamp(this.#scratch, 0);
    return (
      now.ctimeNs === stamp.ctimeNs &&
      now.mtimeNs === stamp.mtimeNs &&
      now.inode === stamp.inode &&
      now.size === stamp.size
    );
  }
}

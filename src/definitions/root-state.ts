/** One root's own directory: whether it is there, and whether it still is the one that was looked at. */
import { realpathSync } from "node:fs";
import { DefinitionReadError } from "../errors.ts";
import { readStamp, STAMP_BYTES } from "../scan/stamp.ts";

const INODE_AT = 32;

export class RootState {
  readonly index: number;
  readonly name: string;
  readonly dir: string;
  /** Why changes below it are not reported (a network file system …); null when they are. */
  unwatchable: string | null = null;
  present = false;
  realDir: string;
  /** Every directory above it is watched for moving away. */
  ancestorsWatched = false;
  /** While it is absent: whether an event would tell of its coming, as far as that has been tried. */
  absence: "untried" | "watched" | "unwatchable" = "untried";
  #throughLink = false;
  #inode = "";
  readonly #scratch = new Uint8Array(STAMP_BYTES);

  constructor(index: number, name: string, dir: string) {
    this.index = index;
    this.name = name;
    this.dir = dir;
    this.realDir = dir;
  }

  /** No event would tell that it has become another directory, or one at all: it must be looked at in each lookup. */
  get mustBeLookedAt(): boolean {
    return this.present ? !this.ancestorsWatched || this.#throughLink : this.absence !== "watched";
  }

  forget(): void {
    this.present = false;
    this.absence = "untried";
    this.ancestorsWatched = false;
    this.#inode = "";
  }

  /**
   * Looks at the directory; true when it is not the one that it was.
   * @throws DefinitionReadError when it is not a directory, or cannot be looked at
   */
  lookAgain(): boolean {
    const kind = readStamp(this.dir, true, this.#scratch, 0);
    if (kind === "absent") return this.present;
    if (kind !== "directory") throw new DefinitionReadError(this.dir, "ENOTDIR");
    const inode = this.#inodeSeen();
    return !this.present || inode !== this.#inode;
  }

  /** Takes the directory as it is now for the one that is known. */
  adopt(): void {
    const kind = readStamp(this.dir, true, this.#scratch, 0);
    this.present = kind === "directory";
    if (!this.present) return;
    this.#inode = this.#inodeSeen();
    try {
      this.realDir = realpathSync(this.dir);
      this.#throughLink = this.realDir !== this.dir;
    } catch {
      this.present = false;
    }
  }

  #inodeSeen(): string {
    return Buffer.from(this.#scratch.buffer, INODE_AT, 8).toString("latin1");
  }
}

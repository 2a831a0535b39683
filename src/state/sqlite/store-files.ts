/**
 * The files that make up an open store. SQLite knows them by descriptors, everybody who opens the store later by their names:
 * when another file has one of these names, or none, the two no longer speak of the same.
 */
import { statSync } from "node:fs";

export class StoreFiles {
  readonly #inodes = new Map<string, number>();

  /** Of a database that is open, and held: its WAL and the WAL's index are there by then. */
  constructor(database: string) {
    for (const path of [database, ...besides(database)]) {
      const inode = inodeOf(path);
      if (inode !== null) this.#inodes.set(path, inode);
    }
  }

  /** One whose name leads elsewhere by now, or nowhere. */
  moved(): string | null {
    for (const [path, inode] of this.#inodes) if (inodeOf(path) !== inode) return path;
    return null;
  }

  /** Whether somebody has made another WAL, or another index of it, in the place of ours. */
  get isReplaced(): boolean {
    return [...this.#inodes].slice(1).some(([path, inode]) => ![null, inode].includes(inodeOf(path)));
  }

  /** Whether what SQLite keeps beside an open database is there. */
  static areBeside(database: string): boolean {
    return besides(database).every((path) => inodeOf(path) !== null);
  }
}

function besides(database: string): string[] {
  return [`${database}-wal`, `${database}-shm`];
}

function inodeOf(path: string): number | null {
  return statSync(path, { throwIfNoEntry: false })?.ino ?? null;
}

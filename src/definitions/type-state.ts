/** What this process knows about one type: which directories it has, since when, and what has changed since. */
import type { DefinitionReadError } from "../errors.ts";

/** One root's directory of a type, while it exists. */
export interface TypeDirectory {
  /** The watch descriptor; -1 where the directory could not be watched. */
  wd: number;
  stamp: Uint8Array;
  racy: boolean;
  /** Names of its sub-directories, kept by events. */
  directories: Set<string>;
}

export class TypeState {
  readonly type: string;
  readonly id: number;
  readonly parent: TypeState | null;
  readonly children = new Map<string, TypeState>();
  /** Per root; null where the type has no directory. */
  readonly dirs: (TypeDirectory | null)[];
  /** The path of each root's directory with a slash behind it, once somebody has asked. */
  readonly prefixes: string[] = [];
  /** Valid definitions per root, as of the last sweep and what was applied since. */
  readonly counts: number[];
  /** Files that may have changed, per root. */
  readonly pending: Set<string>[];
  /**
   * Of those, the files that were written to in place: the kernel gives them their time before it copies what is written, so
   * that one that was looked at in between has the right stamp and the old content.
   */
  readonly written: Set<string>[];
  /** Links change where no directory watch looks: each is looked at in every lookup. */
  readonly symlinks: Set<string>[];
  /** What takes a parser to judge: too long for a lookup to do by the way. */
  readonly deferred: Set<string>[];
  /** Files that the disk refused, by path. */
  readonly unreadable = new Map<string, { root: number; filename: string; error: DefinitionReadError }>();
  /** Somebody has had an answer for it. */
  asked = false;
  /** Listed and stat-swept in this process, and nothing has happened since that calls for it again. */
  swept = false;
  /** The observation with which the last sweep began. */
  sweptAt = 0;
  /** The observation with which links, and files that could not be read, were last looked at. */
  checkedAt = 0;
  /** Rises whenever something calls for a sweep, so that one under way knows that it came too early. */
  generation = 0;
  /** Why the kernel cannot be asked about it; null while it can. */
  boundedBecause: string | null = null;
  /** Directories that came or went, in order, since the sweep under way began: its listing may be older or newer. */
  meanwhile: { root: number; name: string; came: boolean }[] | null = null;
  /** A sweep or a large pass under way: the type's records are nobody else's to write. */
  busy: Promise<void> | null = null;

  constructor(type: string, id: number, parent: TypeState | null, roots: number) {
    this.type = type;
    this.id = id;
    this.parent = parent;
    const each = <T>(make: () => T): T[] => Array.from({ length: roots }, make);
    this.dirs = each(() => null);
    this.counts = each(() => 0);
    this.pending = each(() => new Set<string>());
    this.written = each(() => new Set<string>());
    this.symlinks = each(() => new Set<string>());
    this.deferred = each(() => new Set<string>());
  }

  get pendingFiles(): number {
    return sizeOf(this.pending);
  }

  get deferredFiles(): number {
    return sizeOf(this.deferred);
  }

  get hasSymlinks(): boolean {
    return sizeOf(this.symlinks) > 0;
  }

  /** Calls for a sweep of this type. Those below it keep what they know. */
  invalidate(): void {
    this.swept = false;
    this.generation++;
  }

  /** The same for everything below as well: an ancestor of theirs may have become another directory. */
  invalidateTree(): void {
    this.invalidate();
    for (const child of this.children.values()) child.invalidateTree();
  }
}

function sizeOf(sets: readonly Set<string>[]): number {
  let size = 0;
  for (const set of sets) size += set.size;
  return size;
}

/** `a/b/c` → `a/b`; null for the root itself. */
export function parentOf(type: string): string | null {
  if (type === "") return null;
  const slash = type.lastIndexOf("/");
  return slash < 0 ? "" : type.slice(0, slash);
}

export function baseOf(type: string): string {
  return type.slice(type.lastIndexOf("/") + 1);
}

/** Whether a string can be a type at all: the path of a directory below its root. */
export function isTypePath(type: string): boolean {
  if (type === "") return true;
  if (type.includes("\0")) return false;
  return type.split("/").every((part) => part !== "" && part !== "." && part !== "..");
}

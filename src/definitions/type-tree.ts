/**
 * The directories of all roots as this process knows them, kept by the kernel's events. It decides what a change calls
 * for (a file to look at again, a type to sweep again); it reads no file and no directory itself.
 */

import { EMFILE, ENOENT, ENOSPC } from "../ffi/libc.ts";
import { isLargeDirectory } from "../scan/list.ts";
import { readStamp, STAMP_BYTES } from "../scan/stamp.ts";
import {
  ARRIVALS,
  DIRECTORY_CHANGES,
  DIRECTORY_MOVES,
  IN_DELETE,
  IN_DELETE_SELF,
  IN_DONT_FOLLOW,
  IN_IGNORED,
  IN_ISDIR,
  IN_MASK_ADD,
  IN_MODIFY,
  IN_MOVE_SELF,
  IN_MOVED_FROM,
  IN_ONLYDIR,
  IN_Q_OVERFLOW,
  IN_UNMOUNT,
  type KernelQueue,
} from "../watch/kernel-queue.ts";
import type { RootState } from "./root-state.ts";
import type { ListedDirectory, SweepResult, SweepTarget } from "./sweep.ts";
import { baseOf, isTypePath, parentOf, TypeState } from "./type-state.ts";

/** Where the locks of names lie; it holds no definitions. */
export const LOCK_DIRECTORY = ".auto-definition-create";

type Owner =
  | { kind: "type"; state: TypeState; root: number }
  | { kind: "ancestor"; root: number }
  /** The last directory on the way to a root that is not there, and what is missing in it. */
  | { kind: "gap"; root: number; missing: string };

const ENOTDIR = 20;
const PATH_MAX = 4096;

/** The directory itself is no longer where it was. */
const GONE = IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED;

export class TypeTree {
  readonly roots: readonly RootState[];
  readonly top: TypeState;
  readonly types = new Map<string, TypeState>();
  overflows = 0;
  /** Something has called for a sweep since this was last set to false. */
  hasChanged = false;
  #queue: KernelQueue | null;
  readonly #reopenQueue: () => KernelQueue | null;
  readonly #owners = new Map<number, Owner[]>();
  /** Of the watches without an owner, the one that was ended last. */
  #lastUnwanted = -1;
  readonly #onNewType: (state: TypeState) => void;
  readonly #onForgotten: (state: TypeState) => void;
  readonly #scratch = new Uint8Array(STAMP_BYTES);
  #nextId = 1;
  /** Why nothing at all can be watched; null while the queue works. */
  unwatchable: string | null;

  constructor(o: {
    roots: readonly RootState[];
    queue: KernelQueue | null;
    reopenQueue: () => KernelQueue | null;
    unwatchable: string | null;
    known: Iterable<{ type: string; id: number }>;
    onNewType: (state: TypeState) => void;
    onForgotten: (state: TypeState) => void;
  }) {
    this.roots = o.roots;
    this.#queue = o.queue;
    this.#reopenQueue = o.reopenQueue;
    this.unwatchable = o.unwatchable;
    this.#onNewType = o.onNewType;
    this.#onForgotten = o.onForgotten;
    const known = [...o.known].sort((a, b) => a.type.length - b.type.length);
    for (const { id } of known) this.#nextId = Math.max(this.#nextId, id + 1);
    const top = known.find(({ type }) => type === "");
    this.top = this.#adopt("", top?.id ?? this.#nextId++, null, top === undefined);
    for (const { type, id } of known) if (type !== "") this.#adoptKnown(type, id);
  }

  #adoptKnown(type: string, id: number): void {
    const parent = parentOf(type) ?? "";
    this.#adopt(type, id, this.types.get(parent) ?? this.ensure(parent), false);
  }

  #adopt(type: string, id: number, parent: TypeState | null, isNew: boolean): TypeState {
    const state = new TypeState(type, id, parent, this.roots.length);
    this.types.set(type, state);
    parent?.children.set(baseOf(type), state);
    if (isNew) this.#onNewType(state);
    return state;
  }

  /** The state of a type that is known to exist, or has to be swept to know. */
  ensure(type: string): TypeState {
    const known = this.types.get(type);
    if (known !== undefined) return known;
    return this.#adopt(type, this.#nextId++, this.ensure(parentOf(type) ?? ""), true);
  }

  /** Forgets a type of which no root has a directory any more. */
  forget(state: TypeState): void {
    if (state.parent === null || state.children.size > 0) return;
    this.types.delete(state.type);
    state.parent.children.delete(baseOf(state.type));
    this.#onForgotten(state);
  }

  dirOf(state: TypeState, root: number): string {
    const dir = this.roots[root]?.dir ?? "";
    return state.type === "" ? dir : `${dir}/${state.type}`;
  }

  /** The same, for a file's name to be put behind it. */
  prefixOf(state: TypeState, root: number): string {
    const known = state.prefixes[root];
    if (known !== undefined) return known;
    const prefix = `${this.dirOf(state, root)}/`;
    state.prefixes[root] = prefix;
    return prefix;
  }

  /** Whether the type has a directory in this root, as far as its parent's listing and the events since tell. */
  exists(state: TypeState, root: number): boolean {
    if (state.parent === null) return this.roots[root]?.present === true;
    return state.parent.dirs[root]?.directories.has(baseOf(state.type)) === true;
  }

  /** A directory may lie deeper than any path leads: it is there when it is listed, and gone when it is looked at. */
  #isReachable(state: TypeState, root: number, name: string): boolean {
    const { length } = this.dirOf(state, root);
    if (3 * (length + 1 + name.length) < PATH_MAX) return true;
    return Buffer.byteLength(`${this.dirOf(state, root)}/${name}`) < PATH_MAX;
  }

  get watched(): number {
    return this.#owners.size;
  }

  /** Takes everything that the kernel has queued. Never waits. */
  drain(): number {
    if (this.#queue === null) return 0;
    const events = this.#queue.drain(this.#onEvent);
    if (events < 0) this.#reopen();
    return events;
  }

  readonly #onEvent = (wd: number, mask: number, name: string): void => {
    if (mask & IN_Q_OVERFLOW) {
      this.overflows++;
      this.#startOver();
      return;
    }
    const owners = this.#owners.get(wd);
    if (owners === undefined) {
      // Left from before an overflow, and not wanted since.
      if ((mask & IN_IGNORED) === 0 && wd !== this.#lastUnwanted) this.#queue?.unwatch(wd);
      this.#lastUnwanted = wd;
      return;
    }
    if (mask & IN_IGNORED) this.#owners.delete(wd);
    // Whoever loses one puts a new list in the place of this.
    for (const owner of owners) {
      if (owner.kind !== "type") {
        // The same directory may also be a type's, which is told of its files.
        if (mask & GONE || (owner.kind === "gap" && name === owner.missing)) this.loseRoot(owner.root);
      } else if (name === "") this.#onOwnEvent(owner.state, owner.root, mask);
      else if (mask & IN_ISDIR) this.#onDirectory(owner.state, owner.root, mask, name);
      else if (name.endsWith(".yaml")) this.#onFile(owner.state, owner.root, mask, name);
    }
  };

  #onOwnEvent(state: TypeState, root: number, mask: number): void {
    if (mask & GONE) {
      if (state.parent === null) this.loseRoot(root);
      else {
        this.#lose(state, root);
        state.invalidateTree();
      }
    } else state.invalidate();
    this.hasChanged = true;
  }

  #onDirectory(state: TypeState, root: number, mask: number, name: string): void {
    const dir = state.dirs[root];
    if (dir === null || dir === undefined || (state.parent === null && name === LOCK_DIRECTORY)) return;
    if (!this.#isReachable(state, root, name)) return;
    const came = (mask & ARRIVALS) !== 0;
    if (!came && (mask & (IN_DELETE | IN_MOVED_FROM)) === 0) return;
    if (came) dir.directories.add(name);
    else dir.directories.delete(name);
    state.meanwhile?.push({ root, name, came });
    const child = came ? this.ensure(join(state.type, name)) : state.children.get(name);
    if (child === undefined) return;
    this.#lose(child, root);
    child.invalidateTree();
    this.hasChanged = true;
  }

  #onFile(state: TypeState, root: number, mask: number, name: string): void {
    // Not UTF-8, perhaps: only a listing can tell what it is.
    if (name.includes("\ufffd")) {
      state.invalidate();
      return;
    }
    state.pending[root]?.add(name);
    if (mask & IN_MODIFY) state.written[root]?.add(name);
  }

  /** The directory of this type in this root, and all below it, is no longer what was watched. */
  #lose(state: TypeState, root: number): void {
    const dir = state.dirs[root];
    if (dir !== null && dir !== undefined) this.#disown(dir.wd, state, root);
    state.dirs[root] = null;
    state.counts[root] = 0;
    state.pending[root]?.clear();
    state.written[root]?.clear();
    state.symlinks[root]?.clear();
    state.deferred[root]?.clear();
    for (const child of state.children.values()) this.#lose(child, root);
  }

  #disown(wd: number, state: TypeState, root: number): void {
    const owners = this.#owners.get(wd);
    if (owners === undefined) return;
    const left = owners.filter((o) => !(o.kind === "type" && o.state === state && o.root === root));
    if (left.length > 0) this.#owners.set(wd, left);
    else {
      this.#owners.delete(wd);
      this.#queue?.unwatch(wd);
    }
  }

  /** The root is, or may be, another directory than before. */
  loseRoot(root: number): void {
    this.#lose(this.top, root);
    this.top.invalidateTree();
    this.roots[root]?.forget();
    this.hasChanged = true;
    for (const [wd, owners] of this.#owners) {
      const left = owners.filter((o) => o.kind === "type" || o.root !== root);
      if (left.length === owners.length) continue;
      if (left.length > 0) this.#owners.set(wd, left);
      else {
        this.#owners.delete(wd);
        this.#queue?.unwatch(wd);
      }
    }
  }

  /** The queue itself has failed. */
  #reopen(): void {
    void this.#queue?.close();
    this.#queue = this.#reopenQueue();
    if (this.#queue === null) this.unwatchable = "the kernel's queue failed and no new one could be had";
    this.#startOver();
  }

  /**
   * Events were lost: nothing that was known by them is known any more. The watches stay in the kernel, which takes tens of
   * milliseconds to end them all; a directory that is watched again has the same one.
   */
  #startOver(): void {
    this.#owners.clear();
    for (let root = 0; root < this.roots.length; root++) {
      this.#lose(this.top, root);
      this.roots[root]?.forget();
    }
    this.top.invalidateTree();
    this.hasChanged = true;
  }

  /** Watches what a root's own directory cannot tell: that one of its ancestors was moved or removed. */
  watchAncestors(root: RootState): void {
    root.ancestorsWatched = this.#queue !== null;
    if (this.#queue === null) return;
    for (let dir = dirname(root.realDir); dir !== "/"; dir = dirname(dir)) {
      const wd = this.#queue.watch(dir, DIRECTORY_MOVES | IN_ONLYDIR | IN_MASK_ADD);
      if (typeof wd !== "number") {
        root.ancestorsWatched = false;
        return;
      }
      this.#own(wd, { kind: "ancestor", root: root.index });
    }
  }

  /**
   * Watches for a root that is not there: the directory in which it, or one above it, is missing, and those above that. From
   * the top, so that none of them can be exchanged unnoticed while the next is looked for. It must be looked at in each
   * lookup where a symbolic link is on the way, since no watch follows one.
   */
  watchAbsence(root: RootState): void {
    root.absence = "unwatchable";
    let dir = "";
    for (const part of root.dir.split("/").filter((part) => part !== "")) {
      const path = `${dir}/${part}`;
      const kind = readStamp(path, false, this.#scratch, 0);
      if (kind === "absent") {
        if (!this.#watchAbove(dir, ARRIVALS, { kind: "gap", root: root.index, missing: part })) return;
        // It may have come before the watch stood.
        root.absence = readStamp(path, false, this.#scratch, 0) === "absent" ? "watched" : "untried";
        return;
      }
      if (kind !== "directory" || !this.#watchAbove(path, 0, { kind: "ancestor", root: root.index })) return;
      dir = path;
    }
    root.absence = "untried";
  }

  #watchAbove(dir: string, mask: number, owner: Owner): boolean {
    const flags = IN_ONLYDIR | IN_DONT_FOLLOW | IN_MASK_ADD;
    const wd = this.#queue?.watch(dir || "/", DIRECTORY_MOVES | mask | flags, owner.kind === "gap");
    if (typeof wd !== "number") return false;
    this.#own(wd, owner);
    return true;
  }

  #own(wd: number, owner: Owner): void {
    const owners = this.#owners.get(wd);
    if (owners === undefined) this.#owners.set(wd, [owner]);
    else owners.push(owner);
  }

  /**
   * Has the kernel prepare what {@link TypeTree.prepareSweep} is going to watch, off the event loop. Call what it resolves
   * with when that is done.
   */
  async prepareWatches(state: TypeState): Promise<() => Promise<void>> {
    const queue = this.#queue;
    if (queue === null) return async () => {};
    const unwatched = this.roots.filter(
      ({ index, unwatchable }) =>
        unwatchable === null && this.exists(state, index) && (state.dirs[index]?.wd ?? -1) < 0,
    );
    return prepareAll(
      queue,
      unwatched.map(({ index }) => this.dirOf(state, index)),
    );
  }

  /** The same of a type that may turn out not to be there, where its directories are large. */
  async foreseeWatches(type: string): Promise<() => Promise<void>> {
    const queue = this.#queue;
    if (queue === null || !isTypePath(type)) return async () => {};
    const dirs = this.roots.filter(({ unwatchable }) => unwatchable === null).map(({ dir }) => `${dir}/${type}`);
    return prepareAll(
      queue,
      dirs.filter((dir) => isLargeDirectory(dir, false)),
    );
  }

  /** Watches the type's directories, so that what happens during the sweep is known after it, and says where they lie. */
  prepareSweep(state: TypeState): SweepTarget {
    let bounded: string | null = this.unwatchable;
    const dirs = this.roots.map((root) => {
      if (!this.exists(state, root.index)) {
        this.#lose(state, root.index);
        return null;
      }
      const dir = this.dirOf(state, root.index);
      const known = state.dirs[root.index] ?? null;
      if (known === null || known.wd < 0) {
        const wd = this.#watchDirectory(state, root, dir);
        if (typeof wd === "string") bounded = wd;
        if (known === null) {
          const stamp = new Uint8Array(STAMP_BYTES);
          state.dirs[root.index] = { wd: typeof wd === "number" ? wd : -1, stamp, racy: true, directories: new Set() };
        } else known.wd = typeof wd === "number" ? wd : -1;
      }
      return dir;
    });
    state.boundedBecause = bounded;
    for (const names of state.deferred) names.clear();
    // A sweep goes by stamps.
    for (const [root, names] of state.pending.entries()) {
      names.clear();
      for (const name of state.written[root] ?? []) names.add(name);
    }
    state.unreadable.clear();
    state.meanwhile = [];
    return { type: state.type, typeId: state.id, dirs };
  }

  /** The watch descriptor, or why there is none. */
  #watchDirectory(state: TypeState, root: RootState, dir: string): number | string {
    if (this.#queue === null) return this.unwatchable ?? "not watched";
    if (root.unwatchable !== null) return root.unwatchable;
    const follow = state.parent === null ? 0 : IN_DONT_FOLLOW;
    const wd = this.#queue.watch(dir, DIRECTORY_CHANGES | IN_ONLYDIR | follow);
    if (typeof wd === "number") {
      this.#own(wd, { kind: "type", state, root: root.index });
      return wd;
    }
    if (wd.errno === ENOENT || wd.errno === ENOTDIR) return "it vanished while it was to be watched";
    if (wd.errno === ENOSPC) return "the kernel's limit of watches is reached (fs.inotify.max_user_watches)";
    if (wd.errno === EMFILE) return "the process has no file descriptor left for the kernel's queue";
    return `the directory could not be watched (errno ${wd.errno})`;
  }

  /** Takes in what a sweep saw. False when something happened meanwhile that calls for another. */
  finishSweep(state: TypeState, sweep: { generation: number; at: number }, result: SweepResult): boolean {
    if (state.generation !== sweep.generation) return false;
    for (const names of state.symlinks) names.clear();
    for (const { root, filename } of result.symlinks) state.symlinks[root]?.add(filename);
    for (const { root, filename } of result.deferred) state.deferred[root]?.add(filename);
    for (const [root, listed] of result.dirs.entries()) this.#takeListing(state, root, listed);
    state.swept = true;
    state.sweptAt = sweep.at;
    state.checkedAt = sweep.at;
    return true;
  }

  #takeListing(state: TypeState, root: number, listed: ListedDirectory | null): void {
    const dir = state.dirs[root] ?? null;
    if (listed === null || dir === null) {
      this.#lose(state, root);
      // Something was there when the parent was listed: the parent must be asked again.
      if (dir !== null) state.parent?.invalidate();
      return;
    }
    dir.stamp = listed.stamp;
    dir.racy = listed.racy;
    dir.directories = new Set(listed.directories.filter((name) => this.#isReachable(state, root, name)));
    for (const { root: lies, name, came } of state.meanwhile ?? []) {
      if (lies !== root) continue;
      if (came) dir.directories.add(name);
      else dir.directories.delete(name);
    }
    if (state.parent === null) dir.directories.delete(LOCK_DIRECTORY);
    state.counts[root] = listed.count;
    for (const name of dir.directories) {
      const child = this.ensure(join(state.type, name));
      // It was looked for while it was away.
      if (child.swept && child.dirs[root] === null) child.invalidate();
    }
    for (const [name, child] of state.children) {
      if (dir.directories.has(name) || child.dirs[root] === null) continue;
      this.#lose(child, root);
      child.invalidateTree();
    }
  }

  async close(): Promise<void> {
    const queue = this.#queue;
    this.#queue = null;
    this.#owners.clear();
    await queue?.close();
  }
}

async function prepareAll(queue: KernelQueue, dirs: readonly string[]): Promise<() => Promise<void>> {
  const prepared = await Promise.all(dirs.map((dir) => queue.prepare(dir)));
  return async () => {
    await Promise.all(prepared.map((release) => release()));
  };
}

function join(type: string, name: string): string {
  return type === "" ? name : `${type}/${name}`;
}

function dirname(path: string): string {
  const slash = path.lastIndexOf("/");
  return slash <= 0 ? "/" : path.slice(0, slash);
}

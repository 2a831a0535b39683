/** Storing a definition so that no byte of any other is lost, wherever the process, or another one, stops or steps in. */
import fs from "node:fs";
import { dirname } from "node:path";
import { type AbortOptions, abortable } from "../abort.ts";
import { DefinitionWriteError, NameLockLostError } from "../errors.ts";
import type { NameLock } from "../lock/index.ts";
import { errnoOf } from "../permissions.ts";
import type { DefinitionChange, RepositoryContext } from "./context.ts";
import { flushDirectory, hasTypeDirectory, makeTypeDirectory } from "./directories.ts";
import { type Holder, holderOf, otherOfName, refuseCopies, refuseShadowed } from "./holders.ts";
import { withId, withName } from "./locks.ts";
import { nameConflict, placeForMoved, placeForNew } from "./placement.ts";
import { type Manuscript, proofread } from "./prepare.ts";
import { untilSettled } from "./settle.ts";
import { inDraftTurn, inodeAt, linkInto, remove, replace, writeDraft } from "./write.ts";

/** What a save did. */
interface Placed {
  kind: "created" | "updated";
  path: string;
}

/**
 * Stores the definition in the write root. Point of no return: the temporary file is begun; aborted before, nothing has
 * been touched.
 */
export async function save<T>(
  context: RepositoryContext<T>,
  manuscript: Manuscript,
  options: AbortOptions,
): Promise<void> {
  const { signal } = options;
  const attempt = async (): Promise<Placed | null> => {
    const holder = await holderOf(context, manuscript.type, manuscript.id, options);
    if (holder?.entry.name === manuscript.name) return replaceAndMove(context, manuscript, holder, null, options);
    // It claims a name that it does not have yet.
    const claim = (held: NameLock): Promise<Placed | null> =>
      holder === null
        ? storeNew(context, manuscript, held, options)
        : replaceAndMove(context, manuscript, holder, held, options);
    return withName(context, manuscript.name, claim, signal);
  };
  await untilSettled(context, manuscript, async () => {
    signal?.throwIfAborted();
    try {
      return await withId(context, manuscript.id, attempt, signal);
    } catch (error) {
      if (error instanceof NameLockLostError) return null;
      throw error;
    }
  });
}

/**
 * Stores a definition whose id lies nowhere in the write root yet; the caller holds the lock of its name. Null when the
 * place or the id was taken meanwhile: look again.
 */
export async function storeNew<T>(
  context: RepositoryContext<T>,
  manuscript: Manuscript,
  held: NameLock,
  options: AbortOptions,
): Promise<Placed | null> {
  const { index, writeRoot } = context;
  if ((await holderOf(context, manuscript.type, manuscript.id, options)) !== null) return null;
  await refuseShadowed(context, manuscript, options);
  const other = await otherOfName(context, manuscript, options);
  if (other !== null) throw nameConflict(other, manuscript.name);
  const typeDir = `${writeRoot.dir}/${manuscript.type}`;
  hasTypeDirectory(writeRoot.dir, manuscript.type);
  const path = placeForNew(context, typeDir, manuscript);
  if (path === null) return null;
  await announce(context, [path], options);

  const { dir, changed, draft } = await inDraftTurn(options.signal, async () => {
    const made = makeTypeDirectory(writeRoot.dir, manuscript.type);
    return { ...made, draft: await writeDraft(made.dir, manuscript.text, { flush: context.flush }) };
  });
  try {
    proofread(context, draft, manuscript);
    held.verify();
    if (!hasTypeDirectory(writeRoot.dir, manuscript.type)) return null;
    const linked = linkInto(draft.path, path);
    index.noteWritten([path]);
    if (!linked) return null;
  } finally {
    draft.discard();
  }
  return finish(context, manuscript, { kind: "created", path }, [...changed, dir]);
}

/**
 * Replaces the file that holds the id, where it lies; then, where it should be called otherwise, links it to its new
 * name, and unlinks the old one last. The caller holds the lock of the id, and, where the name is a new one, that of the
 * name. Null when the file changed hands meanwhile: look again.
 */
async function replaceAndMove<T>(
  context: RepositoryContext<T>,
  manuscript: Manuscript,
  holder: Holder,
  held: NameLock | null,
  options: AbortOptions,
): Promise<Placed | null> {
  refuseCopies(holder);
  const { index, writeRoot } = context;
  const { type, id, name } = manuscript;
  const dir = `${writeRoot.dir}/${type}`;
  if (!hasTypeDirectory(writeRoot.dir, type)) return null;

  const named = `${dir}/${name}.yaml`;
  const aliases = [holder.entry.path, ...holder.aliases];
  const from = aliases.includes(named) ? named : holder.entry.path;
  const surplus = aliases.filter((alias) => alias !== from);
  let to = placeForMoved(context, from, dir, manuscript);
  if (held !== null || to !== from) {
    const other = await otherOfName(context, manuscript, options);
    if (other !== null && held !== null) throw nameConflict(other, name);
    // Two have had this name before; which of them a lookup finds must not change by a save.
    if (other?.root === writeRoot.name) to = from;
  }
  await announce(context, [...new Set([...surplus, from, to])], options);

  const like = fs.statSync(from, { throwIfNoEntry: false });
  const inode = inodeAt(from);
  if (like === undefined) return null;
  const draft = await inDraftTurn(options.signal, () =>
    writeDraft(dir, manuscript.text, { like, flush: context.flush }),
  );
  let moved = false;
  try {
    proofread(context, draft, manuscript);
    held?.verify();
    if (!hasTypeDirectory(writeRoot.dir, type)) return null;
    const now = index.examine(from, writeRoot.name, type);
    if (now.kind !== "entry" || now.entry.id !== id || (to !== from && inodeAt(to) !== null)) {
      index.noteWritten([from, to]);
      return null;
    }
    for (const alias of surplus) if (inodeAt(alias) === inode) remove(alias);
    replace(draft.path, from);
    // Should the link fail, the definition is stored and found where it lies; the next save tries again.
    moved = to !== from && tried(() => linkInto(from, to));
    if (moved && inodeAt(to) !== draft.inode) {
      // Somebody put a file of his in the old place in this very instant, and that one got our new name.
      remove(to);
      moved = false;
    }
    index.noteWritten([...surplus, from, to]);
  } finally {
    draft.discard();
  }
  if (!moved) return finish(context, manuscript, { kind: "updated", path: from }, [dir]);
  return finish(context, manuscript, { kind: "updated", path: to }, [dir], () => {
    // Whoever has stepped in meanwhile without a lock keeps his file: it is not the one that was moved.
    if (inodeAt(from) !== draft.inode || inodeAt(to) !== draft.inode) return;
    // Should it fail, two names hold one file, and the next save finishes the move.
    tried(() => remove(from));
    index.noteWritten([from]);
  });
}

/** Whether it succeeded. */
function tried(act: () => boolean): boolean {
  try {
    return act();
  } catch {
    return false;
  }
}

/** Tells the hook which paths may change, and gives up when the caller does; the last moment to do so. */
async function announce<T>(
  context: RepositoryContext<T>,
  paths: readonly string[],
  { signal }: AbortOptions,
): Promise<void> {
  signal?.throwIfAborted();
  await abortable(context.onWillWrite(paths), signal);
  signal?.throwIfAborted();
}

/** It is in place. Brings it to the disk, cleans up behind it, tells who wants to know. */
async function finish<T>(
  context: RepositoryContext<T>,
  { type, id, name }: Manuscript,
  placed: Placed,
  dirs: readonly string[],
  cleanUp?: () => void,
): Promise<Placed> {
  const change: DefinitionChange = { kind: placed.kind, type, id, name, path: placed.path };
  try {
    if (context.flush) await flushAll(dirs, placed.path);
    if (cleanUp !== undefined) {
      cleanUp();
      if (context.flush) await flushAll([dirname(placed.path)], placed.path);
    }
  } finally {
    await context.onChange(change);
  }
  return placed;
}

export async function flushAll(dirs: readonly string[], path: string): Promise<void> {
  const outcomes = await Promise.allSettled([...new Set(dirs)].map((dir) => flushDirectory(dir)));
  for (const outcome of outcomes) {
    if (outcome.status === "rejected") {
      throw new DefinitionWriteError(path, errnoOf(outcome.reason), {
        cause: outcome.reason,
        outcome: "The change is in place, but a power failure may undo it",
      });
    }
  }
}

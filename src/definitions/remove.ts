/** Removing a definition, and the directories that it leaves empty. */
import { join } from "node:path";
import { type AbortOptions, abortable } from "../abort.ts";
import { checkOptions } from "../arguments.ts";
import type { RepositoryContext } from "./context.ts";
import { hasTypeDirectory, removeEmptyDirectories } from "./directories.ts";
import { holderOf } from "./holders.ts";
import { withId } from "./locks.ts";
import { flushAll } from "./save.ts";
import { untilSettled } from "./settle.ts";
import { writeTurns } from "./turns.ts";
import { type TypeRef, writableType } from "./type-path.ts";
import { inodeAt, remove } from "./write.ts";

/**
 * Removes the file found for the id in the write root; nothing when there is none. Point of no return: the first file is
 * removed; aborted before, nothing has been touched.
 */
export async function removeDefinition<T>(
  context: RepositoryContext<T>,
  typeRef: TypeRef,
  id: string,
  options: AbortOptions,
): Promise<void> {
  checkOptions(options);
  options.signal?.throwIfAborted();
  const type = writableType(typeRef);
  if ((await holderOf(context, type, id, options)) === null) return;
  await writeTurns.take(options.signal);
  await untilSettled(context, { type, id, name: "" }, () =>
    withId(context, id, () => removeHeld(context, type, id, options), options.signal),
  );
}

/** The caller holds the lock of the id. Null when another file lies in the place meanwhile: look again. */
async function removeHeld<T>(
  context: RepositoryContext<T>,
  type: string,
  id: string,
  options: AbortOptions,
): Promise<true | null> {
  const { index, writeRoot, flush } = context;
  const holder = await holderOf(context, type, id, options);
  if (holder === null) return true;
  const { entry } = holder;
  // Its links go first: should we be stopped here, the file itself is still found.
  const paths = [...holder.followers, ...holder.aliases, entry.path];
  const inode = inodeAt(entry.path);
  await abortable(context.onWillWrite(paths), options.signal);
  options.signal?.throwIfAborted();

  if (!hasTypeDirectory(writeRoot.dir, type)) return null;
  const now = index.examine(entry.path, writeRoot.name, type);
  if (inodeAt(entry.path) !== inode || now.kind !== "entry" || now.entry.id !== id) {
    index.noteWritten([entry.path]);
    return null;
  }
  for (const path of paths) if (holder.followers.includes(path) || inodeAt(path) === inode) remove(path);
  const remaining = removeEmptyDirectories(join(writeRoot.dir, type), writeRoot.dir);
  index.noteWritten(paths);
  try {
    if (flush) await flushAll([remaining], entry.path);
  } finally {
    await context.onChange({ kind: "deleted", type, id, name: entry.name, path: entry.path });
  }
  return true;
}

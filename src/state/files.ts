/** Writing plain files so that they are there after a loss of power. */
import { open } from "node:fs/promises";
import { dirname } from "node:path";

/**
 * Creates the file with this content; on disk when it resolves, where `flush` says so. Its name is not: {@link
 * flushDirectory}.
 */
export async function writeNewFile(path: string, data: Uint8Array | string, flush = true): Promise<void> {
  const file = await open(path, "wx");
  try {
    await file.writeFile(data);
    if (flush) await file.sync();
  } finally {
    await file.close();
  }
}

/** Puts on disk which names the directory holds. */
export async function flushDirectory(dir: string): Promise<void> {
  const handle = await open(dir, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** The same for `dir` and the directories above it, up to and including `root`: for one that may be new. */
export async function flushDirectories(dir: string, root: string): Promise<void> {
  for (let at = dir; ; at = dirname(at)) {
    await flushDirectory(at);
    if (at === root || at === dirname(at)) return;
  }
}

/** Whether the system refused to write because there is no space, or none left for this user. */
export function isStorageFull(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === "ENOSPC" || code === "EDQUOT";
}

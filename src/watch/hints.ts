/**
 * Hints of changes, where the kernel's own queue is not to be had: chokidar, which is late, may lose events under
 * bursts and does not say so. They shorten the time until a change is noticed; they prove nothing.
 */
import type { FSWatcher } from "chokidar";

export interface ChangeHints {
  /** Leaves no watcher and no descriptor. */
  close(): Promise<void>;
}

/** `onChange` gets the path of a definition file, or of a directory that came or went. */
export async function openChangeHints(dirs: readonly string[], onChange: (path: string) => void): Promise<ChangeHints> {
  const { watch } = await import("chokidar");
  const watcher: FSWatcher = watch([...dirs], {
    ignoreInitial: true,
    followSymlinks: false,
    persistent: false,
    ignored: (path, stats) => stats?.isFile() === true && !path.endsWith(".yaml"),
  });
  watcher.on("all", (_, path) => onChange(path));
  // ENOSPC, EMFILE, a directory that vanished: the answers do not rest on it.
  watcher.on("error", () => {});
  return { close: () => watcher.close() };
}

/** swamp's control-plane records: which store keeps them, and what every store takes as a key. */
import type { AbortOptions } from "../abort.ts";
import { InvalidArgumentError } from "../errors.ts";
import { openFileControlPlane } from "./control-plane-files.ts";
import type { ControlPlaneStore } from "./model.ts";

export interface ControlPlaneOptions extends AbortOptions {
  /** Where the records lie as plain files. Made when it is not there; must be used for nothing else. */
  dir: string;
}

/**
 * Opens the control-plane records under `dir`, for any number of processes at once: the server and the CLI. Each record
 * is a file that is replaced whole and is on disk when a write resolves. Keys are text of 1 to 1,024 bytes of UTF-8
 * without NUL, with `/` between their segments; any segment will do (`..`, an empty one, one longer than a file name).
 *
 * Point of no return: the call, which makes the directory; aborted later, it settles with what happened.
 *
 * @throws InvalidArgumentError without a directory
 * @throws StateStoreUnavailableError, StorageFullError when it cannot be made
 */
export async function openControlPlaneStore(options: ControlPlaneOptions): Promise<ControlPlaneStore> {
  const { dir, signal } = options;
  signal?.throwIfAborted();
  if (typeof dir !== "string" || dir === "") throw new InvalidArgumentError("dir", dir, "a directory");
  return openFileControlPlane(dir);
}

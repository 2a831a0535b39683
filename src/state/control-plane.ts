/** swamp's control-plane records: which store keeps them, and what every store takes as a key. */
import type { AbortOptions } from "../abort.ts";
import { checkObject, checkOptions } from "../arguments.ts";
import { openFileControlPlane } from "./control-plane-files.ts";
import type { ControlPlaneStore } from "./model.ts";
import type { PostgresSource } from "./postgres/source.ts";
import { checkWhere } from "./where.ts";

export interface ControlPlaneOptions extends AbortOptions {
  /** Where the records lie as plain files. Made when it is not there; must be used for nothing else. */
  dir?: string | undefined;
  /** In place of `dir`: a database that servers on several machines share. Needs the package `postgres`. */
  postgres?: PostgresSource | undefined;
}

/**
 * Opens the control-plane records under `dir`, for any number of processes at once: the server and the CLI; or those in a
 * PostgreSQL database, for servers on several machines. Each record is replaced whole and is on disk when a write resolves.
 * Keys are text of 1 to 1,024 bytes of UTF-8 without NUL, with `/` between their segments; any segment will do (`..`, an
 * empty one, one longer than a file name).
 *
 * Point of no return: with `dir` the call, which makes the directory; aborted later, it settles with what happened. With
 * `postgres` there is none: aborted before it is open, nothing of it stays open; a schema that it made stays.
 *
 * @throws InvalidArgumentError unless there is exactly one of `dir` and `postgres`
 * @throws StateStoreUnavailableError, StorageFullError when it cannot be made
 * @throws SchemaVersionError when a newer version has made it, in PostgreSQL
 */
export async function openControlPlaneStore(options: ControlPlaneOptions): Promise<ControlPlaneStore> {
  checkObject("options", options);
  checkOptions(options);
  const { signal } = options;
  signal?.throwIfAborted();
  const where = checkWhere(options);
  if ("dir" in where) return openFileControlPlane(where.dir);
  const { openPostgresControlPlane } = await import("./postgres/control-plane.ts");
  return openPostgresControlPlane(where.postgres, signal);
}

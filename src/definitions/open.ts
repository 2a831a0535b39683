/** The door to the index. What is behind it is loaded when somebody opens one: importing the library is to cost little. */
import type { DefinitionIndex, DefinitionIndexOptions } from "./model.ts";

/**
 * Opens the index over `roots`. Reads no definition: a type is looked through when it is first asked for, and all of
 * them in the background.
 *
 * The cache in `indexDir` belongs to one process at a time; each takes a slot of its own, and a process that finds none
 * works with a temporary one. Whatever is damaged, foreign or of an older form is set aside and built anew.
 *
 * Aborted before the cache is open, it rejects with the signal's reason and leaves nothing open.
 *
 * @throws InvalidArgumentError, DefinitionReadError (a root that is not a directory or cannot be read),
 *   UnsupportedFileSystemError (`indexDir` on a network file system), IndexUnavailableError
 */
export async function openDefinitionIndex(options: DefinitionIndexOptions): Promise<DefinitionIndex> {
  const { openIndexOn, THIS_PLATFORM } = await import("./assemble.ts");
  return openIndexOn(options, THIS_PLATFORM);
}

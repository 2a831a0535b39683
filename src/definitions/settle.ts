/** Trying again while the world changes between the look and the act. */
import { join } from "node:path";
import { DefinitionConflictError, DefinitionWriteError } from "../errors.ts";
import type { RepositoryContext } from "./context.ts";

const MOST_ATTEMPTS = 100;

/**
 * What `attempt` first returns other than null.
 *
 * @throws DefinitionConflictError when it never does: each time, somebody else was a little faster.
 */
export async function untilSettled<T, R>(
  { writeRoot }: RepositoryContext<T>,
  { type, id, name }: { type: string; id: string; name: string },
  attempt: () => Promise<R | null>,
): Promise<R> {
  for (let left = MOST_ATTEMPTS; left > 0; left--) {
    const settled = await attempt().catch((error) => {
      // A directory that was made for this file has been removed again, being empty.
      if (error instanceof DefinitionWriteError && error.errno === "ENOENT") return null;
      throw error;
    });
    if (settled !== null) return settled;
  }
  const dir = join(writeRoot.dir, type);
  throw new DefinitionConflictError(
    dir,
    { id, name, type },
    `the files of "${name || id}" in ${dir} keep changing. Retry.`,
  );
}

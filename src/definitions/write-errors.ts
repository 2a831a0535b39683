/** What the system says against a write, in the library's words. */
import { DefinitionWriteError, StorageFullError, TussockError, UnsafePathError } from "../errors.ts";
import { errnoOf, missingPermission } from "../permissions.ts";

export function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException | null)?.code ?? "";
}

/** Runs `work`, and names what the system says against it. */
export function writing<R>(path: string, work: () => R): R;
export function writing<R>(path: string, work: () => Promise<R>): Promise<R>;
export function writing<R>(path: string, work: () => R | Promise<R>): R | Promise<R> {
  try {
    const result = work();
    return result instanceof Promise ? result.catch((error) => Promise.reject(named(path, error))) : result;
  } catch (error) {
    throw named(path, error);
  }
}

/** The library's error for what the system says; anything else as it is. */
export function named(path: string, error: unknown): unknown {
  if (error instanceof TussockError) return error;
  if (missingPermission(error) !== null) return new DefinitionWriteError(path, errnoOf(error), { cause: error });
  const code = codeOf(error);
  if (!/^E[A-Z0-9]+$/.test(code)) return error;
  if (code === "ENOSPC" || code === "EDQUOT") return new StorageFullError(path, { cause: error });
  if (code === "ENAMETOOLONG") return new UnsafePathError(path, "the path is too long");
  return new DefinitionWriteError(path, code, { cause: error });
}

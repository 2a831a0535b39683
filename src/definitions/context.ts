/** What the parts of one repository share, and how they ask the index. */
import type { AbortOptions } from "../abort.ts";
import { DefinitionProblemError } from "../errors.ts";
import type { NameLockOptions } from "../lock/index.ts";
import type { DefinitionEntry, DefinitionProblem } from "../scan/model.ts";
import type { DefinitionCodec } from "./codec.ts";
import type { Candidate, DefinitionRoot, IndexInternals, Query } from "./model.ts";
import { normalizeType } from "./type-path.ts";

/** What has become of a definition. */
export interface DefinitionChange {
  kind: "created" | "updated" | "deleted";
  /** Normalized. */
  type: string;
  id: string;
  name: string;
  /** Where it lies now, or lay. */
  path: string;
}

export interface RepositoryContext<T> {
  readonly index: IndexInternals;
  readonly codec: DefinitionCodec<T>;
  readonly writeRoot: DefinitionRoot;
  /** Names, in order of precedence; the write root is among them. */
  readonly lookupRoots: readonly string[];
  readonly stringify: (document: Record<string, unknown>) => string;
  /** Flush files and directories to the disk. */
  readonly flush: boolean;
  readonly lockDir: string;
  readonly lock: NameLockOptions;
  onWillWrite(paths: readonly string[]): Promise<void>;
  onChange(change: DefinitionChange): Promise<void>;
}

/** A definition that the codec accepts, and where it lies. */
export interface Found<T> {
  definition: T;
  entry: DefinitionEntry;
}

/** The type that a file declares, normalized, or else its directory. */
export function typeOfEntry({ declaredType, type }: DefinitionEntry): string {
  return (declaredType === null ? "" : normalizeType(declaredType)) || type;
}

export type Decoded<T> = { found: Found<T> } | { refused: DefinitionProblem };

/** Asks the codec. What it refuses is listed as a problem from now on. */
export function decode<T>(context: RepositoryContext<T>, candidate: Candidate): Decoded<T> {
  const { entry } = candidate;
  const document = candidate.document();
  try {
    return { found: { definition: context.codec.decode(document, entry), entry } };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    context.index.reject(entry, message);
    return { refused: { path: entry.path, root: entry.root, kind: "invalid", message } };
  }
}

/**
 * The index's `select` over what the codec accepts: what `accept` first returns, or null.
 *
 * @throws DefinitionProblemError when nothing was accepted and the file called after the name is a problem, be it for
 * the index or for the codec.
 */
export async function select<T, R>(
  context: RepositoryContext<T>,
  query: Query,
  accept: (found: Found<T>) => R | undefined,
  options: AbortOptions = {},
): Promise<R | null> {
  let problem: DefinitionProblem | undefined;
  const selected = await context.index.select(
    { roots: context.lookupRoots, ...query },
    (candidate) => {
      const decoded = decode(context, candidate);
      if ("found" in decoded) return accept(decoded.found);
      if (query.by === "name" && candidate.entry.naming === "name") problem ??= decoded.refused;
      return undefined;
    },
    options,
  );
  if (selected === null && problem !== undefined) throw new DefinitionProblemError(problem);
  return selected;
}

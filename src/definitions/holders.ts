/** The files that hold an id already. */
import fs from "node:fs";
import type { AbortOptions } from "../abort.ts";
import { DefinitionProblemError } from "../errors.ts";
import type { DefinitionEntry } from "../scan/model.ts";
import { decode, type RepositoryContext, select } from "./context.ts";
import type { Candidate } from "./model.ts";
import { conflict } from "./placement.ts";
import { untilSettled } from "./settle.ts";
import { codeOf } from "./write-errors.ts";

/** The file in the write root that is found for an id, and what else there holds the id. */
export interface Holder {
  entry: DefinitionEntry;
  /** Further names of the same file: a save that was cut off between its link and its unlink leaves one. */
  aliases: string[];
  /** Symbolic links to it: they show whatever it holds. */
  followers: string[];
  /** Other files with the same id, each with bytes of its own. */
  copies: string[];
}

/** Null when no file holds the id. @throws DefinitionProblemError when the codec refuses the one that does. */
export async function holderOf<T>(
  context: RepositoryContext<T>,
  type: string,
  id: string,
  options: AbortOptions,
): Promise<Holder | null> {
  const files = await untilSettled(context, { type, id, name: "" }, () => {
    options.signal?.throwIfAborted();
    return holdingFiles(context, type, id, options);
  });
  const isFollower = (file: HoldingFile): boolean =>
    file.isLink && files.some((other) => !other.isLink && other.realPath === file.realPath);
  const winner = files.find((file) => !isFollower(file));
  if (winner === undefined) return null;
  const decoded = decode(context, winner.candidate);
  if ("refused" in decoded) throw new DefinitionProblemError(decoded.refused);
  const pathsOf = (which: (file: HoldingFile) => boolean): string[] =>
    files.filter((file) => file !== winner && which(file)).map((file) => file.candidate.entry.path);
  const isAlias = (file: HoldingFile): boolean => !file.isLink && file.identity === winner.identity;
  return {
    entry: winner.candidate.entry,
    aliases: pathsOf(isAlias),
    followers: pathsOf(isFollower),
    copies: pathsOf((file) => !isAlias(file) && !isFollower(file)),
  };
}

/** Null when one of them has changed since it was found: a file that moves is missed by who looks at its old place. */
async function holdingFiles<T>(
  context: RepositoryContext<T>,
  type: string,
  id: string,
  options: AbortOptions,
): Promise<HoldingFile[] | null> {
  // A search that the disk belies begins again, and offers again: the last word on each path counts.
  const candidates = new Map<string, Candidate>();
  await context.index.select(
    { by: "id", key: id, type, roots: [context.writeRoot.name] },
    (candidate) => {
      candidates.delete(candidate.entry.path);
      candidates.set(candidate.entry.path, candidate);
      return undefined;
    },
    options,
  );
  const files: HoldingFile[] = [];
  for (const candidate of candidates.values()) {
    const file = lookAt(context, candidate);
    if (file === null) {
      context.index.noteWritten([candidate.entry.path]);
      return null;
    }
    files.push(file);
  }
  return files;
}

interface HoldingFile {
  candidate: Candidate;
  isLink: boolean;
  /** Device and inode of what the path itself names. */
  identity: string;
  realPath: string;
}

/** Null when it has gone, or holds another id since. */
function lookAt<T>(context: RepositoryContext<T>, candidate: Candidate): HoldingFile | null {
  const { path, root, type, id } = candidate.entry;
  const stat = fs.lstatSync(path, { bigint: true, throwIfNoEntry: false });
  const now = stat === undefined ? undefined : context.index.examine(path, root, type);
  if (stat === undefined || now?.kind !== "entry" || now.entry.id !== id) return null;
  try {
    const realPath = fs.realpathSync(path);
    return { candidate, isLink: stat.isSymbolicLink(), identity: `${stat.dev}:${stat.ino}`, realPath };
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  }
}

/** @throws DefinitionConflictError: nobody can tell which of several files a caller has loaded. */
export function refuseCopies({ entry, copies }: Holder): void {
  const copy = copies[0];
  if (copy === undefined) return;
  throw conflict(
    copy,
    entry,
    entry.type,
    `two files hold the id ${entry.id}: ${entry.path} and ${copy}. Remove one, or give it another id.`,
  );
}

/** A definition with this name and another id: the first that a lookup would find. */
export function otherOfName<T>(
  context: RepositoryContext<T>,
  { type, id, name }: { type: string; id: string; name: string },
  options: AbortOptions,
): Promise<DefinitionEntry | null> {
  return select(
    context,
    { by: "name", key: name, type },
    ({ entry }) => (entry.id === id ? undefined : entry),
    options,
  );
}

/**
 * @throws DefinitionConflictError when a root that is looked up before the write root holds this id: what would be
 * written behind it could not be seen.
 */
export async function refuseShadowed<T>(
  context: RepositoryContext<T>,
  { type, id }: { type: string; id: string },
  options: AbortOptions,
): Promise<void> {
  const { lookupRoots, writeRoot } = context;
  const before = lookupRoots.slice(0, lookupRoots.indexOf(writeRoot.name));
  if (before.length === 0) return;
  const other = await select(context, { by: "id", key: id, type, roots: before }, ({ entry }) => entry, options);
  if (other === null) return;
  throw conflict(
    other.path,
    other,
    other.type,
    `the id ${id} lies in the root "${other.root}" (${other.path}), which is looked up before "${writeRoot.name}". Save it through a repository that writes there.`,
  );
}

/** Where a definition's file belongs, given what lies there already. Synchronous: true at the moment it is asked. */
import fs from "node:fs";
import { DefinitionConflictError, DefinitionProblemError } from "../errors.ts";
import type { DefinitionEntry } from "../scan/model.ts";
import { decode, type RepositoryContext } from "./context.ts";
import type { Manuscript } from "./prepare.ts";
import { filenameOfId, isFilenameSafe, isIdForFilename } from "./type-path.ts";

/**
 * The path for a definition that lies nowhere yet: `{name}.yaml`, or `{id}.yaml` where the name is not filename-safe or
 * its file is some other definition's. Null when this very definition has appeared in one of them meanwhile.
 *
 * @throws DefinitionProblemError where a problem stands in either place (somebody may be editing it);
 * DefinitionConflictError where another id has the name.
 */
export function placeForNew<T>(context: RepositoryContext<T>, dir: string, manuscript: Manuscript): string | null {
  const { name, id, type } = manuscript;
  let free: string | undefined;
  let taken: DefinitionEntry | undefined;
  for (const path of placesFor(dir, manuscript)) {
    const occupant = occupantOf(context, path, manuscript);
    if (occupant === "itself") {
      // The index did not know: it should look there.
      context.index.noteWritten([path]);
      return null;
    }
    if (occupant === "nothing") free ??= path;
    else if (occupant !== "something else") taken ??= occupant;
  }
  if (free !== undefined) return free;
  const path = `${dir}/${filenameOfId(id)}`;
  const message = `every filename for "${name}" (${id}) in ${dir} is taken by another definition. Rename one of them.`;
  throw conflict(path, taken ?? manuscript, type, message);
}

/** The path to which a definition that lies at `current` should move, or `current` where it should, or must, stay. */
export function placeForMoved<T>(
  context: RepositoryContext<T>,
  current: string,
  dir: string,
  manuscript: Manuscript,
): string {
  for (const path of placesFor(dir, manuscript)) {
    if (path === current) return current;
    const occupant = occupantOf(context, path, manuscript);
    if (occupant === "nothing") return path;
    if (occupant === "itself") return current;
  }
  return current;
}

/** In order of preference; the second is used where the first is taken by some other definition. */
function placesFor(dir: string, { name, id }: Manuscript): string[] {
  const named = isFilenameSafe(name) ? [`${dir}/${name}.yaml`] : [];
  return isIdForFilename(id) ? [...named, `${dir}/${filenameOfId(id)}`] : named;
}

type PlaceOccupant = "nothing" | "itself" | "something else" | DefinitionEntry;

function occupantOf<T>(context: RepositoryContext<T>, path: string, manuscript: Manuscript): PlaceOccupant {
  const { index, writeRoot } = context;
  if (fs.lstatSync(path, { throwIfNoEntry: false }) === undefined) return "nothing";
  const stat = fs.statSync(path, { throwIfNoEntry: false });
  if (stat !== undefined && !stat.isFile()) return "something else";
  const occupant = index.examine(path, writeRoot.name, manuscript.type);
  if (occupant.kind === "absent") return "nothing";
  if (occupant.kind === "problem") throw new DefinitionProblemError(occupant.problem);
  const { entry, document } = occupant;
  if (entry.id === manuscript.id) return "itself";
  if (entry.name !== manuscript.name) return entry;
  const decoded = decode(context, { entry, document: () => document });
  if ("refused" in decoded) throw new DefinitionProblemError(decoded.refused);
  throw nameConflict(entry, manuscript.name);
}

export function nameConflict(entry: DefinitionEntry, name: string): DefinitionConflictError {
  return conflict(
    entry.path,
    entry,
    entry.type,
    `"${name}" exists with another id (${entry.id}, ${entry.path}). Choose another name, or load and change that definition.`,
  );
}

export function conflict(
  path: string,
  existing: { id: string; name: string },
  type: string,
  message: string,
): DefinitionConflictError {
  return new DefinitionConflictError(path, { id: existing.id, name: existing.name, type }, message);
}

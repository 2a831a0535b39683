/** What a scan finds, and the words that the index and its users share. */
import type { DefinitionProblem } from "../errors.ts";

export type { DefinitionProblem, ProblemKind } from "../errors.ts";

/** Under which keys of the document its id, name and type lie. Default: `id`, `name`, `type`. */
export interface DefinitionKeys {
  id: string;
  name: string;
  type: string;
}

export const DEFAULT_KEYS: DefinitionKeys = { id: "id", name: "name", type: "type" };

/**
 * When and what a file was, as far as its metadata tells. Two equal stamps of one path mean unchanged content, unless
 * the stamp was taken within `granularityNs` of the change (git's "racy index").
 */
export interface FileStamp {
  /** Nanoseconds since the epoch; cut to `granularityNs`. */
  mtimeNs: bigint;
  ctimeNs: bigint;
  /** Bytes. */
  size: number;
  inode: bigint;
  /** How far apart two changes must lie to get different times, in nanoseconds; 0 when every change gets its own. */
  granularityNs: number;
}

/** How a file is called: after its name, after its id, or otherwise. */
export type Naming = "name" | "uuid" | "mismatched";

/** A valid definition, as it lies. */
export interface DefinitionEntry {
  id: string;
  name: string;
  /** The directory below the root, with `/` between its parts. */
  type: string;
  /** The type that the file itself names, verbatim. */
  declaredType: string | null;
  root: string;
  /** Absolute. */
  path: string;
  naming: Naming;
  stamp: FileStamp;
}

export type ScanResult =
  | { ok: true; entry: DefinitionEntry; document?: unknown }
  | { ok: false; problem: DefinitionProblem };

/** `filename` without its directory. A file may be called after both its name and its id; then it counts as named. */
export function namingOf(filename: string, id: string, name: string): Naming {
  if (filename === `${name}.yaml`) return "name";
  if (filename === `${id}.yaml`) return "uuid";
  return "mismatched";
}

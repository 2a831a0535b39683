/** The definitions of a root as the caller's own objects: found through the index, stored without losing a byte. */
import { join } from "node:path";
import type { AbortOptions } from "../abort.ts";
import { checkObject, checkOptions } from "../arguments.ts";
import { InvalidArgumentError, UnsafePathError } from "../errors.ts";
import type { NameLockOptions } from "../lock/index.ts";
import { parser } from "../scan/parse.ts";
import { checkCodec, type DefinitionCodec } from "./codec.ts";
import { type DefinitionChange, decode, type Found, type RepositoryContext, select, typeOfEntry } from "./context.ts";
import { type DefinitionIndex, type IndexInternals, internalsOf } from "./model.ts";
import { prepare } from "./prepare.ts";
import { removeDefinition } from "./remove.ts";
import { type Resolved, type ResolveOptions, resolveOrCreate } from "./resolve-or-create.ts";
import { save } from "./save.ts";
import { writeTurns } from "./turns.ts";
import { filenameOfId, normalizeType, type TypeRef } from "./type-path.ts";

export type { DefinitionCodec, DefinitionIdentity } from "./codec.ts";
export type { DefinitionChange } from "./context.ts";
export { noticeChanges } from "./notice-changes.ts";
export type { Resolved, ResolveOptions } from "./resolve-or-create.ts";
export { normalizeType, type TypeRef } from "./type-path.ts";

/** Where the lock files of names and ids lie, below the write root. */
export const LOCK_DIRECTORY = ".auto-definition-create";

export interface DefinitionRepositoryOptions<T, Type extends TypeRef = string> {
  codec: DefinitionCodec<T>;
  /** The name of the root in which definitions are saved and deleted. */
  writeRoot: string;
  /** Names of the roots to look in, in order of precedence; the write root must be among them. Default: all. */
  lookupRoots?: readonly string[];
  /** Names of the roots whose definitions `findAll` lists. Default: the write root. */
  listRoots?: readonly string[];
  /** Makes the caller's type of a normalized one. Default: the string itself. */
  typeOf?: (normalized: string) => Type;
  /** Default: YAML, one key a line. */
  stringify?: (document: Record<string, unknown>) => string;
  lock?: Omit<NameLockOptions, "signal">;
  /**
   * `flushed`: a save or delete has reached the disk when it resolves, and survives a power failure. `written`: it survives
   * the end of the process only. Default: `flushed`.
   */
  durability?: "flushed" | "written";
  /** Awaited before any file changes; throwing keeps it from changing. Paths may be told that then stay as they are. */
  onWillWrite?: (paths: readonly string[]) => void | Promise<void>;
  /** Awaited after a change. What it throws is a warning of the process: the change has happened. */
  onChange?: (change: DefinitionChange) => void | Promise<void>;
}

/** The lookups see every change that was complete before they began, as far as the index's freshness reaches. */
export interface DefinitionRepository<T, Type extends TypeRef = string> {
  findById(type: Type, id: string, options?: AbortOptions): Promise<T | null>;
  /** Of the list roots, in byte order of path. */
  findAll(type: Type, options?: AbortOptions): Promise<T[]>;
  /** @throws DefinitionProblemError when nothing has the name and `{name}.yaml` cannot be read as a definition. */
  findByName(type: Type, name: string, options?: AbortOptions): Promise<T | null>;
  findByNameGlobal(name: string, options?: AbortOptions): Promise<{ definition: T; type: Type } | null>;
  findByIdGlobal(id: string, options?: AbortOptions): Promise<{ definition: T; type: Type } | null>;
  /** Of the list roots, in byte order of path. */
  findAllGlobal(options?: AbortOptions): Promise<{ definition: T; type: Type }[]>;
  /**
   * Stores the definition in the write root: over the file that holds its id, or as a new one. It is called `{name}.yaml`
   * afterwards, or `{id}.yaml` where the name is not filename-safe or its file is another definition's.
   *
   * Aborted before its temporary file is begun (the point of no return), it rejects and nothing was touched.
   *
   * @throws DefinitionConflictError when the name belongs to another id, or several files hold this id, or it lies in a
   * root that is looked up before the write root; DefinitionProblemError when its place is taken by a file that cannot be
   * read; UnsafePathError, KeyTooLongError, InvalidArgumentError; StorageFullError, DefinitionWriteError; nothing was
   * changed then.
   */
  save(type: Type, definition: T, options?: AbortOptions): Promise<void>;
  /**
   * Removes the file found for the id in the write root, if there is one, and its parent directories as far as they are
   * empty. Point of no return: the removal of the file.
   */
  delete(type: Type, id: string, options?: AbortOptions): Promise<void>;
  nextId(): string;
  /** Synchronous, for messages: the path last known, unchecked, or else where a file called after the id would lie. */
  getPath(type: Type, id: string): string;
  /** Where the definition that `findById` finds lies. */
  findPath(type: Type, id: string, options?: AbortOptions): Promise<string | null>;
  /**
   * The definition of this name; on a miss, the one that `create` returns, saved. Racing callers, in one process and in
   * many, all get one and the same.
   *
   * Point of no return: the save's temporary file is begun. Aborted before, nothing is left (`create` is told by its
   * signal, and what it returns is dropped); after, the call settles with what happened. Neither `create` nor a hook may
   * save or resolve the same name: it would wait for itself.
   *
   * @throws DefinitionTypeError with `scope: "global"`, when the name exists under another type; NameLockTimeoutError; what
   * `create` and `save` throw.
   */
  resolveOrCreate(
    type: Type,
    name: string,
    create: (signal: AbortSignal) => T | Promise<T>,
    options?: ResolveOptions,
  ): Promise<Resolved<T>>;
}

/** @throws InvalidArgumentError for an index that `openDefinitionIndex` did not make, or a root that it does not have. */
export function createDefinitionRepository<T, Type extends TypeRef = string>(
  index: DefinitionIndex,
  options: DefinitionRepositoryOptions<T, Type>,
): DefinitionRepository<T, Type> {
  const context = contextOf(index, options);
  const listRoots = rootNames(context.index, "listRoots", options.listRoots ?? [options.writeRoot]);
  const typeOf = options.typeOf ?? ((normalized: string) => normalized as unknown as Type);

  const typed = ({ definition, entry }: Found<T>): { definition: T; type: Type } => ({
    definition,
    type: typeOf(typeOfEntry(entry)),
  });
  const same = (found: Found<T>): Found<T> => found;
  const find = (by: "id" | "name", type: Type, key: string, o?: AbortOptions): Promise<Found<T> | null> =>
    select(context, { by, key, type: normalizeType(type) }, same, o);
  const list = async (type: string | undefined, o: AbortOptions = {}): Promise<Found<T>[]> => {
    const all: Found<T>[] = [];
    checkOptions(o);
    for await (const candidate of context.index.list({
      ...o,
      roots: listRoots,
      ...(type === undefined ? {} : { type }),
    })) {
      const decoded = decode(context, candidate);
      if ("found" in decoded) all.push(decoded.found);
    }
    return all;
  };

  return {
    findById: async (type, id, o) => (await find("id", type, id, o))?.definition ?? null,
    findByName: async (type, name, o) => (await find("name", type, name, o))?.definition ?? null,
    findPath: async (type, id, o) => (await find("id", type, id, o))?.entry.path ?? null,
    findAll: async (type, o) => (await list(normalizeType(type), o)).map(({ definition }) => definition),
    findByNameGlobal: (name, o) => select(context, { by: "name", key: name, type: null }, typed, o),
    findByIdGlobal: (id, o) => select(context, { by: "id", key: id, type: null }, typed, o),
    findAllGlobal: async (o) => (await list(undefined, o)).map(typed),
    save: async (type, definition, o = {}) => {
      checkOptions(o);
      o.signal?.throwIfAborted();
      await writeTurns.take(o.signal);
      await save(context, await prepare(context, type, definition, o), o);
    },
    delete: (type, id, o = {}) => removeDefinition(context, type, id, o),
    nextId: () => crypto.randomUUID(),
    getPath: (type, id) => lastKnownPath(context, normalizeType(type), id),
    resolveOrCreate: (type, name, create, o = {}) => resolveOrCreate(context, type, name, create, o),
  };
}

/** @throws InvalidArgumentError for what YAML does not know: a function, a symbol */
function toYaml(document: Record<string, unknown>): string {
  try {
    return parser().stringify(document, { lineWidth: 0 });
  } catch (error) {
    throw new InvalidArgumentError("codec.encode(…)", document, `what YAML can hold (${(error as Error).message})`);
  }
}

function lastKnownPath<T>({ index, lookupRoots, writeRoot }: RepositoryContext<T>, type: string, id: string): string {
  const known = index.lastKnownPath(type, id, lookupRoots);
  if (known !== null) return known;
  if (type.includes("\0")) throw new UnsafePathError(type, "the type holds a NUL");
  return join(writeRoot.dir, type, filenameOfId(id));
}

function contextOf<T, Type extends TypeRef>(
  index: DefinitionIndex,
  options: DefinitionRepositoryOptions<T, Type>,
): RepositoryContext<T> {
  const internals = internalsOf(index);
  if (internals === undefined) throw new InvalidArgumentError("index", index, "an index made by openDefinitionIndex");
  checkObject("options", options);
  checkOptions(options, "typeOf", "stringify", "onWillWrite", "onChange");
  checkCodec(options.codec);
  const { codec, durability = "flushed", onWillWrite, onChange } = options;
  if (durability !== "flushed" && durability !== "written") {
    throw new InvalidArgumentError("durability", durability, '"flushed" or "written"');
  }
  const allRoots = internals.roots.map(({ name }) => name);
  const lookupRoots = rootNames(internals, "lookupRoots", options.lookupRoots ?? allRoots);
  const writeRoot = internals.roots.find(({ name }) => name === options.writeRoot);
  if (writeRoot === undefined) {
    throw new InvalidArgumentError("writeRoot", options.writeRoot, `one of the roots ${allRoots.join(", ")}`);
  }
  if (!lookupRoots.includes(writeRoot.name)) {
    throw new InvalidArgumentError("lookupRoots", lookupRoots, `the write root "${writeRoot.name}" among them`);
  }
  return {
    index: internals,
    codec,
    writeRoot,
    lookupRoots,
    stringify: options.stringify ?? toYaml,
    flush: durability === "flushed",
    lockDir: join(writeRoot.dir, LOCK_DIRECTORY),
    lock: options.lock ?? {},
    onWillWrite: async (paths) => onWillWrite?.(paths),
    onChange: async (change) => {
      try {
        await onChange?.(change);
      } catch (error) {
        process.emitWarning(`onChange failed for ${change.kind} ${change.path}: ${error}`, "TussockWarning");
      }
    },
  };
}

function rootNames(index: IndexInternals, argument: string, names: readonly string[]): readonly string[] {
  const known = index.roots.map(({ name }) => name);
  if (!Array.isArray(names)) throw new InvalidArgumentError(argument, names, "a list of names of roots");
  for (const name of names) {
    if (!known.includes(name)) throw new InvalidArgumentError(argument, name, `some of the roots ${known.join(", ")}`);
  }
  return [...names];
}

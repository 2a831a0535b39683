/** One definition for a name, however many ask for it at once. */
import { type AbortOptions, abortable } from "../abort.ts";
import { checkFunction, checkOptions } from "../arguments.ts";
import { DefinitionConflictError, DefinitionTypeError, InvalidArgumentError, NameLockLostError } from "../errors.ts";
import type { NameLock } from "../lock/index.ts";
import type { DefinitionEntry } from "../scan/model.ts";
import { type Found, type RepositoryContext, select, typeOfEntry } from "./context.ts";
import { holderOf } from "./holders.ts";
import { inLineForName, withName } from "./locks.ts";
import { type CreationTelemetry, observeCreation } from "./observe.ts";
import { conflict } from "./placement.ts";
import { type Manuscript, prepare } from "./prepare.ts";
import { storeNew } from "./save.ts";
import { untilSettled } from "./settle.ts";
import { lookupTurns, writeTurns } from "./turns.ts";
import { assertWritableName, normalizeType, type TypeRef, writableType } from "./type-path.ts";

export interface ResolveOptions extends AbortOptions {
  /** `global`: look the name up over all types, and refuse it where it exists under another. Default: `type`. */
  scope?: "type" | "global";
}

export interface Resolved<T> {
  definition: T;
  /** False when it was found, or another caller created it. */
  created: boolean;
  path: string;
}

/**
 * Finds the definition of this name, or creates and saves one. Racing callers in one process and in many end with one
 * definition, and each of them gets that one.
 *
 * Point of no return: the temporary file of the save is begun. Aborted before (also while `create` runs, whose result is
 * then dropped), nothing is left; aborted after, it settles with what happened. Neither `create` nor a hook may save or
 * resolve the same name: they would wait for themselves.
 */
export async function resolveOrCreate<T>(
  context: RepositoryContext<T>,
  type: TypeRef,
  name: string,
  create: (signal: AbortSignal) => T | Promise<T>,
  options: ResolveOptions,
): Promise<Resolved<T>> {
  checkFunction("create", create);
  checkOptions(options);
  const { signal } = options;
  signal?.throwIfAborted();
  const lookUp = (): Promise<Resolved<T> | null> => lookUpName(context, normalizeType(type), name, options);
  await lookupTurns.take(signal);
  const existing = await lookUp();
  if (existing !== null) return existing;
  // Refused before anybody waits for it, and before anything is created.
  writableType(type);
  assertWritableName(name);
  const telemetry = observeCreation(normalizeType(type), name);
  const creation = { context, type, name, create, lookUp, signal, telemetry };
  return telemetry === null ? createInLine(creation) : telemetry.during(() => createInLine(creation));
}

interface Creation<T> {
  context: RepositoryContext<T>;
  type: TypeRef;
  name: string;
  create: (signal: AbortSignal) => T | Promise<T>;
  lookUp: () => Promise<Resolved<T> | null>;
  signal: AbortSignal | undefined;
  telemetry: CreationTelemetry | null;
}

async function createInLine<T>(creation: Creation<T>): Promise<Resolved<T>> {
  const { context, name, lookUp, signal } = creation;
  await writeTurns.take(signal);
  return inLineForName(context, name, async () => (await lookUp()) ?? (await createUnderLock(creation)), signal);
}

async function createUnderLock<T>(creation: Creation<T>): Promise<Resolved<T>> {
  const { context, name, lookUp, signal, telemetry } = creation;
  let made: Made<T> | null = null;
  const run = async (held: NameLock): Promise<Resolved<T>> => {
    telemetry?.did("lock_wait");
    const found = await lookUp();
    telemetry?.did("recheck");
    if (found !== null) return found;
    made ??= await make(creation);
    telemetry?.did("create");
    const saved = await saveMade(creation, made, held);
    telemetry?.did("save");
    return saved;
  };
  for (;;) {
    try {
      return await withName(context, name, run, signal);
    } catch (error) {
      // Whoever took the lock over may have created it, or not: in line again.
      if (!(error instanceof NameLockLostError)) throw error;
    }
  }
}

/** What `create` returned, ready to be stored. */
interface Made<T> {
  definition: T;
  manuscript: Manuscript;
}

async function make<T>({ context, type, name, create, signal }: Creation<T>): Promise<Made<T>> {
  const definition = await abortable(
    new Promise<T>((resolve) => resolve(create(signal ?? new AbortController().signal))),
    signal,
  );
  const manuscript = await prepare(context, type, definition, { signal });
  if (manuscript.name === name) return { definition, manuscript };
  throw new InvalidArgumentError("create()", manuscript.name, `a definition named ${JSON.stringify(name)}`);
}

function saveMade<T>(creation: Creation<T>, { definition, manuscript }: Made<T>, held: NameLock): Promise<Resolved<T>> {
  const { context, lookUp, signal } = creation;
  return untilSettled(context, manuscript, async () => {
    signal?.throwIfAborted();
    const outcome = await storeNew(context, manuscript, held, { signal }).catch((error) => {
      if (error instanceof DefinitionConflictError) return error;
      throw error;
    });
    if (outcome !== null && !(outcome instanceof Error)) return { definition, created: true, path: outcome.path };
    // Somebody who holds no lock of ours was first: a program of today, an editor, a sync service.
    const found = await lookUp();
    if (found !== null) return found;
    if (outcome !== null) throw outcome;
    await refuseKnownId(context, manuscript, signal);
    return null;
  });
}

/** What is created must be new: saving it over another definition would lose that one. */
async function refuseKnownId<T>(
  context: RepositoryContext<T>,
  { type, id, name }: Manuscript,
  signal: AbortSignal | undefined,
): Promise<void> {
  const holder = await holderOf(context, type, id, { signal });
  if (holder === null) return;
  const { entry } = holder;
  const message = `create() for "${name}" returned the id of "${entry.name}" (${entry.path}). Return a new id.`;
  throw conflict(entry.path, entry, entry.type, message);
}

async function lookUpName<T>(
  context: RepositoryContext<T>,
  type: string,
  name: string,
  { scope = "type", signal }: ResolveOptions,
): Promise<Resolved<T> | null> {
  const own = await select(context, { by: "name", key: name, type }, resolved, { signal });
  if (own !== null || scope === "type") return own;
  let elsewhere: DefinitionEntry | undefined;
  const declared = await select(
    context,
    { by: "name", key: name, type: null },
    (found) => {
      if (typeOfEntry(found.entry) === type) return resolved(found);
      elsewhere ??= found.entry;
      return undefined;
    },
    { signal },
  );
  if (declared !== null || elsewhere === undefined) return declared;
  throw new DefinitionTypeError(name, type, typeOfEntry(elsewhere), elsewhere.path);
}

function resolved<T>({ definition, entry }: Found<T>): Resolved<T> {
  return { definition, created: false, path: entry.path };
}

/** A swamp repository on disk: its definitions under `models/`, and those made for workers under `.swamp/auto-definitions/`. */
import { isAbsolute, join } from "node:path";
import { checkObject } from "../arguments.ts";
import { checkCodec, type DefinitionCodec } from "../definitions/codec.ts";
import {
  createDefinitionRepository,
  type DefinitionIndex,
  type DefinitionIndexOptions,
  type DefinitionRepository,
  type DefinitionRepositoryOptions,
  openDefinitionIndex,
  type TypeRef,
} from "../definitions/index.ts";
import { InvalidArgumentError } from "../errors.ts";

/** The name of the root of a repository's own definitions. */
export const MODELS_ROOT = "models";
/** The name of the root of definitions that were made as they were needed. */
export const AUTO_ROOT = "auto";

export interface SwampRepositoryOptions<T, Type extends TypeRef = string>
  extends Omit<DefinitionIndexOptions, "roots" | "indexDir" | "boundary">,
    Pick<
      DefinitionRepositoryOptions<T, Type>,
      "typeOf" | "stringify" | "lock" | "durability" | "onWillWrite" | "onChange"
    > {
  /** Absolute. No link among the definitions may lead out of it. */
  repoDir: string;
  /** Default: `{repoDir}/.swamp/auto-definitions`. */
  autoDefinitionsDir?: string;
  /** Default: `{repoDir}/.swamp/tussock-index`. Sync services must leave it out: it carries a marker that says so. */
  indexDir?: string;
  codec: DefinitionCodec<T>;
}

export interface SwampRepository<T, Type extends TypeRef = string> extends AsyncDisposable {
  index: DefinitionIndex;
  /** Saves to `models/`; looks there first, then among the automatic ones; lists `models/` alone. */
  definitions: DefinitionRepository<T, Type>;
  /** Saves to the automatic definitions; looks and lists as `definitions` does. */
  autoDefinitions: DefinitionRepository<T, Type>;
  close(): Promise<void>;
}

/**
 * Opens the index over a swamp repository and the two repositories that a server needs on it.
 *
 * Aborted before the index is open, it rejects with the signal's reason and leaves nothing open.
 *
 * @throws what `openDefinitionIndex` and `createDefinitionRepository` throw
 */
export async function openSwampRepository<T, Type extends TypeRef = string>(
  options: SwampRepositoryOptions<T, Type>,
): Promise<SwampRepository<T, Type>> {
  checkObject("options", options);
  const { repoDir, autoDefinitionsDir, indexDir, codec, typeOf, stringify, lock, durability, onWillWrite, onChange } =
    options;
  for (const [name, path] of Object.entries({ repoDir, autoDefinitionsDir, indexDir }))
    if ((path !== undefined || name === "repoDir") && !(typeof path === "string" && isAbsolute(path)))
      throw new InvalidArgumentError(name, path, "an absolute path");
  checkCodec(codec);
  const index = await openDefinitionIndex({
    ...options,
    roots: [
      { name: MODELS_ROOT, dir: join(repoDir, "models") },
      { name: AUTO_ROOT, dir: autoDefinitionsDir ?? join(repoDir, ".swamp", "auto-definitions") },
    ],
    indexDir: indexDir ?? join(repoDir, ".swamp", "tussock-index"),
    boundary: repoDir,
  });
  const repository = (writeRoot: string): DefinitionRepository<T, Type> =>
    createDefinitionRepository(index, {
      codec,
      writeRoot,
      listRoots: [MODELS_ROOT],
      ...(typeOf === undefined ? {} : { typeOf }),
      ...(stringify === undefined ? {} : { stringify }),
      ...(lock === undefined ? {} : { lock }),
      ...(durability === undefined ? {} : { durability }),
      ...(onWillWrite === undefined ? {} : { onWillWrite }),
      ...(onChange === undefined ? {} : { onChange }),
    });
  const close = (): Promise<void> => index.close();
  return {
    index,
    definitions: repository(MODELS_ROOT),
    autoDefinitions: repository(AUTO_ROOT),
    close,
    [Symbol.asyncDispose]: close,
  };
}

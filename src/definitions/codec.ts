/** Between a file's document and the caller's object. */
import { checkFunction, checkObject } from "../arguments.ts";
import { InvalidArgumentError } from "../errors.ts";
import type { DefinitionEntry, DefinitionKeys } from "../scan/model.ts";

export interface DefinitionCodec<T> {
  /**
   * The caller's object. Throwing says that the document is not one: the file is no match, the search goes on, and the
   * file is listed as a problem of kind `invalid`. It may keep the document, which is its own copy.
   */
  decode(document: unknown, entry: DefinitionEntry): T;
  /** The document to store; its id and name must be those of the definition. `type` is normalized. */
  encode(definition: T, type: string): Record<string, unknown> | Promise<Record<string, unknown>>;
  /** Default: the definition's own `id` and `name`. */
  identify?(definition: T): DefinitionIdentity;
}

export interface DefinitionIdentity {
  id: string;
  name: string;
}

/** @throws InvalidArgumentError unless it can do what every codec must: else the files would be blamed for it. */
export function checkCodec(codec: unknown): void {
  checkObject("codec", codec, "an object with `decode` and `encode`");
  const { decode, encode, identify } = codec as Partial<DefinitionCodec<unknown>>;
  checkFunction("codec.decode", decode);
  checkFunction("codec.encode", encode);
  if (identify !== undefined) checkFunction("codec.identify", identify);
}

/** @throws InvalidArgumentError when the definition has no id or no name that could be found again. */
export function identityOf<T>(codec: DefinitionCodec<T>, definition: T): DefinitionIdentity {
  const { id, name } = codec.identify?.(definition) ?? (Object(definition) as Partial<DefinitionIdentity>);
  return { id: checkedKey("definition.id", id), name: checkedKey("definition.name", name) };
}

/** @throws InvalidArgumentError when the document would be found under another id or name than the definition's. */
export function assertSameIdentity(document: unknown, identity: DefinitionIdentity, keys: DefinitionKeys): void {
  const fields = (typeof document === "object" ? (document ?? {}) : {}) as Record<string, unknown>;
  for (const part of ["id", "name"] as const) {
    const key = keys[part];
    const value = Object.hasOwn(fields, key) ? fields[key] : undefined;
    if (value !== identity[part]) {
      throw new InvalidArgumentError(
        `codec.encode(…).${key}`,
        value,
        `the definition's own ${part} ("${identity[part]}")`,
      );
    }
  }
}

function checkedKey(argument: string, value: unknown): string {
  if (typeof value !== "string" || value === "") throw new InvalidArgumentError(argument, value, "a non-empty string");
  return value;
}

/** From the caller's object to the text of its file; nothing is touched yet. */
import { type AbortOptions, abortable } from "../abort.ts";
import { InvalidArgumentError } from "../errors.ts";
import { assertSameIdentity, type DefinitionIdentity, identityOf } from "./codec.ts";
import type { RepositoryContext } from "./context.ts";
import { assertWritableName, type TypeRef, writableType } from "./type-path.ts";
import type { Draft } from "./write.ts";

/** What is to be stored. */
export interface Manuscript extends DefinitionIdentity {
  /** Normalized. */
  type: string;
  text: string;
}

export async function prepare<T>(
  context: RepositoryContext<T>,
  type: TypeRef,
  definition: T,
  { signal }: AbortOptions,
): Promise<Manuscript> {
  const writable = writableType(type);
  const identity = identityOf(context.codec, definition);
  assertWritableName(identity.name);
  const document = await abortable(Promise.resolve(context.codec.encode(definition, writable)), signal);
  assertSameIdentity(document, identity, context.index.keys);
  return { type: writable, ...identity, text: textOf(context, document) };
}

function textOf<T>({ stringify }: RepositoryContext<T>, document: Record<string, unknown>): string {
  const text: unknown = stringify(document);
  if (typeof text !== "string") throw new InvalidArgumentError("stringify(…)", text, "text");
  return text;
}

/**
 * Reads the draft as the index will read the file: what could not be found again must not take a place, least of all
 * that of a good file.
 */
export function proofread<T>(context: RepositoryContext<T>, draft: Draft, manuscript: Manuscript): void {
  const read = context.index.examine(draft.path, context.writeRoot.name, manuscript.type);
  if (read.kind === "entry" && read.entry.id === manuscript.id && read.entry.name === manuscript.name) return;
  const found =
    read.kind === "entry"
      ? `id ${JSON.stringify(read.entry.id)} and name ${JSON.stringify(read.entry.name)}`
      : read.kind === "problem"
        ? `${read.problem.kind}: ${read.problem.message}`
        : "nothing";
  throw new InvalidArgumentError(
    "definition",
    manuscript.name,
    `a definition that reads back as itself; its file holds ${found}`,
  );
}

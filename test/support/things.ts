/** What the repositories of the tests hold. */
import type { DefinitionCodec } from "../../src/definitions/repository.ts";

export interface Thing {
  id: string;
  name: string;
  version: number;
  note?: string;
}

/** Refuses documents without a number as their version. */
export const thingCodec: DefinitionCodec<Thing> = {
  decode(document) {
    const { id, name, version, note } = document as Record<string, unknown>;
    if (typeof version !== "number") throw new Error("version must be a number");
    return { id: String(id), name: String(name), version, ...(note === undefined ? {} : { note: String(note) }) };
  },
  encode: ({ id, name, version, note }, type) => ({ type, id, name, version, ...(note === undefined ? {} : { note }) }),
};

/** A definition's file as `save` writes it. */
export function textOf(type: string, { id, name, version, note }: Thing): string {
  return `type: ${type}\nid: ${id}\nname: ${name}\nversion: ${version}\n${note === undefined ? "" : `note: ${note}\n`}`;
}

/** A UUID that ends in the number. */
export function idOf(number: number): string {
  return `00000000-1111-4222-8333-${String(number).padStart(12, "0")}`;
}

export function thing(number: number, name: string, note?: string): Thing {
  return { id: idOf(number), name, version: 1, ...(note === undefined ? {} : { note }) };
}

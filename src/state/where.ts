/** Where a store lies: in a directory of this machine, or in a database that several share. */
import { resolve } from "node:path";
import { InvalidArgumentError } from "../errors.ts";
import { checkSource, type Place, type PostgresSource } from "./postgres/source.ts";

export type Where = { readonly dir: string } | { readonly postgres: Place };

/** @throws InvalidArgumentError unless it is exactly one of the two */
export function checkWhere(options: { dir?: string | undefined; postgres?: PostgresSource | undefined }): Where {
  const { dir, postgres } = options;
  if (postgres !== undefined) {
    if (dir !== undefined) throw new InvalidArgumentError("dir", "both dir and postgres", "one of dir and postgres");
    return { postgres: checkSource(postgres) };
  }
  if (typeof dir !== "string" || dir === "")
    throw new InvalidArgumentError("dir", dir, "a directory, or postgres in its place");
  return { dir: resolve(dir) };
}

/** Checksums of the rows that are not records, and the answer when one does not fit. */
import { crc32 } from "../../digest.ts";
import { DamageError } from "../row.ts";
import { MIGRATIONS } from "./schema.ts";

export { assertRecord, DamageError } from "../row.ts";

/** Over the columns of a small row, in the order of the table. */
export function sumOf(...columns: readonly (string | number | null)[]): number {
  return crc32(JSON.stringify(columns));
}

/** Of the store's own row: it vouches for the schema version too. */
export function storeSum(epoch: number, version = MIGRATIONS.length): number {
  return sumOf(epoch, version);
}

/** A change has the record's checksum, carried on over the state before it. */
export function changeSum(recordSum: number, previous: string | null): number {
  return crc32(previous ?? "\0", recordSum);
}

export function assertSum(what: string, expected: number, found: unknown): void {
  if (expected !== found) throw new DamageError(`${what} does not fit its checksum`);
}

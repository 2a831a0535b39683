/** A schema of its own on the server that all tests share. */
import postgres, { type Sql } from "postgres";
import type { PostgresSettings } from "../../../src/state/postgres/source.ts";
import { sharedServer } from "../../support/shared-postgres.ts";

const server = await sharedServer();

/** Why there is no server to test against; printed once. */
export const unavailable = typeof server === "string" ? server : null;
if (unavailable !== null) console.warn(`not tested against PostgreSQL: ${unavailable}`);

export interface TestPlace {
  readonly source: PostgresSettings;
  readonly schema: string;
  /** As its superuser. */
  readonly admin: Sql;
  remove(): Promise<void>;
}

export function serverUrl(): string {
  if (typeof server === "string") throw new Error(server);
  return server.url;
}

let count = 0;

export function createPlace(): TestPlace {
  const schema = `test_${process.pid}_${count++}`;
  const admin = postgres(serverUrl(), { max: 2, fetch_types: false, onnotice: () => {} });
  return {
    source: { url: serverUrl(), schema, max: 4 },
    schema,
    admin,
    async remove() {
      await admin.unsafe(`DROP SCHEMA IF EXISTS ${schema} CASCADE`);
      await admin.end();
    },
  };
}

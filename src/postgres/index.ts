/** For servers that share a PostgreSQL database: the calls that take one, and what they take. */
export { openControlPlaneStore } from "../state/control-plane.ts";
export { openLeaseIndex, openStateIndex } from "../state/open.ts";
export type {
  PostgresClient,
  PostgresDriver,
  PostgresQuery,
  PostgresSettings,
  PostgresSource,
} from "../state/postgres/source.ts";

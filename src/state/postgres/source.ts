/** Where a PostgreSQL store is: what users give, and what is made of it. Nothing here loads the driver. */
import { InvalidArgumentError } from "../../errors.ts";

/** Of the client that `postgres()` of the package `postgres` gives: as much as is used here. */
export interface PostgresClient {
  unsafe(query: string, parameters?: never[], options?: { prepare?: boolean }): PostgresQuery;
  end(options?: { timeout?: number }): Promise<void>;
  /** As the client has resolved them. */
  readonly options: object;
}

/** A statement of a {@link PostgresClient}; it runs when somebody waits for it. */
export interface PostgresQuery extends PromiseLike<ArrayLike<unknown>> {
  values(): PromiseLike<ArrayLike<unknown>>;
  /** The connection that it was sent by; null until then. */
  readonly state?: unknown;
  /** Not sent yet: it never will be. */
  cancel?(): unknown;
}

/** The function that the package `postgres` exports. */
export type PostgresDriver = (...from: (string | object)[]) => PostgresClient;

/** Where the server is, and as whom: what the package `postgres` takes as options (`max`, `ssl`, `prepare`, …), and a schema. */
export interface PostgresSettings {
  /** `postgres://user@host:port/database`. Or the same in parts, or a client. */
  url?: string | URL | undefined;
  host?: string | undefined;
  port?: number | undefined;
  database?: string | undefined;
  username?: string | undefined;
  password?: string | (() => string | Promise<string>) | undefined;
  /** Connections at once. Default 10. One more is held to listen. */
  max?: number | undefined;
  /** An existing client, which is used and not ended. */
  client?: PostgresClient | undefined;
  /** The package `postgres` itself, where it cannot be found at run time: in a bundle, in a compiled program. */
  driver?: PostgresDriver | undefined;
  /** Of the tables; made when it is not there. Default `tussock`. */
  schema?: string | undefined;
  /** Any other option of the package `postgres`. */
  [option: string]: unknown;
}

/**
 * A PostgreSQL database, version 14 or later: a connection string, settings, or an existing client of the package `postgres`,
 * which is used and not ended. Several indexes and control-plane stores share one.
 */
export type PostgresSource = string | URL | PostgresClient | PostgresSettings;

/** A source as it was checked. */
export interface Place {
  readonly schema: string;
  readonly client: PostgresClient | null;
  readonly driver: PostgresDriver | null;
  readonly url: string | undefined;
  /** For the package `postgres`. */
  readonly options: Readonly<Record<string, unknown>>;
}

const DEFAULT_SCHEMA = "tussock";
/** Needs no quotes, and leaves room for the names made of it. */
const SCHEMA = /^[a-z_][a-z0-9_]{0,49}$/;

/** @throws InvalidArgumentError; a source is never shown in it, for it may hold a password */
export function checkSource(source: unknown): Place {
  const settings = settingsOf(source);
  const { schema = DEFAULT_SCHEMA, client, driver, url, ...options } = settings;
  if (typeof schema !== "string" || !SCHEMA.test(schema)) {
    const expected = "a name of lower-case letters, digits and _, of at most 50 characters";
    throw new InvalidArgumentError("postgres.schema", schema, expected);
  }
  if (client !== undefined && !isClient(client))
    throw new InvalidArgumentError("postgres.client", "something else", "a client of the package `postgres`");
  if (driver !== undefined && typeof driver !== "function")
    throw new InvalidArgumentError("postgres.driver", "something else", "what the package `postgres` exports");
  if (options.max !== undefined && !(Number.isSafeInteger(options.max) && options.max >= 1))
    throw new InvalidArgumentError("postgres.max", options.max, "a whole number of connections, 1 or more");
  const place = { schema, client: client ?? null, driver: driver ?? null, options };
  return { ...place, url: url === undefined ? undefined : checkUrl(url) };
}

function settingsOf(source: unknown): PostgresSettings {
  if (typeof source === "string" || source instanceof URL) return { url: source };
  if (isClient(source)) return { client: source };
  if (typeof source === "object" && source !== null && !Array.isArray(source)) return source as PostgresSettings;
  const found = source === undefined || source === null ? source : `a ${typeof source}`;
  throw new InvalidArgumentError(
    "postgres",
    found,
    "a connection string, settings, or a client of the package `postgres`",
  );
}

function isClient(value: unknown): value is PostgresClient {
  return typeof value === "function" && typeof (value as Partial<PostgresClient>).unsafe === "function";
}

/** The URL parser's own error would show the whole of it. */
function checkUrl(url: string | URL): string {
  const text = String(url);
  if (/^postgres(ql)?:\/\//.test(text) && (text.includes(",") || URL.canParse(text))) return text;
  throw new InvalidArgumentError("postgres.url", "something else", "a URL that begins with postgres://");
}

/** Host and database as a user may see them; never the user's name or password. */
export function describePlace(client: PostgresClient, schema: string): string {
  const { host, port, path, database } = client.options as Record<string, unknown>;
  const where =
    typeof path === "string"
      ? path
      : [host]
          .flat()
          .map((each, at) => `${each}:${[port].flat()[at]}`)
          .join(",");
  return `postgres://${where}/${String(database)} (schema ${schema})`;
}

/** Clients of the package `postgres`, which is loaded when the first is made. */
import { createRequire } from "node:module";
import { StateStoreUnavailableError } from "../../errors.ts";
import { causeOf } from "./failure.ts";
import type { Place, PostgresClient, PostgresDriver } from "./source.ts";

/** Of the database's session, where the client is ours. What a transaction reads is what was committed when it asks. */
const SESSION = { application_name: "tussock", default_transaction_isolation: "read committed" };

const CONNECT_TIMEOUT_S = 10;
/** Between two tries to connect: the driver's own grow to 20 s, for which a server that is back would not be noticed. */
const FIRST_PAUSE_S = 0.01;
const LONGEST_PAUSE_S = 0.5;

function pauseAfter(failures: number): number {
  return (0.5 + Math.random() / 2) * Math.min(FIRST_PAUSE_S * 3 ** failures, LONGEST_PAUSE_S);
}

/** An optional peer: bundlers are not to look for it, since who keeps state in SQLite has none. */
function load(): PostgresDriver {
  try {
    return createRequire(import.meta.url)("postgres") as PostgresDriver;
  } catch (error) {
    const why =
      "the package `postgres` cannot be loaded. Install it beside this library (npm install postgres), or hand it over as `postgres.driver`";
    throw new StateStoreUnavailableError("postgres", why, { cause: error });
  }
}

/** Where a store gets its clients from. */
export interface Clients {
  /** The caller's, or one of our own. No connection is made yet. */
  readonly first: PostgresClient;
  /** One of our own to where the first leads; `only`: of so many connections, with such ears. */
  another(only?: object): PostgresClient;
  /** The caller's is not ended. */
  end(client: PostgresClient, timeoutSeconds: number): Promise<void>;
}

export function clientsOf(place: Place): Clients {
  const first = place.client ?? makeClient(place);
  return {
    first,
    another: (only = {}) => (place.driver ?? load())({ ...first.options, ...only }),
    end: (client, timeout) => (client === place.client ? Promise.resolve() : client.end({ timeout })),
  };
}

function makeClient({ driver, url, options }: Place): PostgresClient {
  const connect = driver ?? load();
  const all = {
    fetch_types: false,
    connect_timeout: CONNECT_TIMEOUT_S,
    backoff: pauseAfter,
    onnotice: () => {},
    ...options,
    connection: { ...SESSION, ...connectionOf(options) },
  };
  try {
    return url === undefined ? connect(all) : connect(url, all);
  } catch (error) {
    throw new StateStoreUnavailableError("postgres", `the settings are refused: ${causeOf(error).message}`);
  }
}

function connectionOf(options: Place["options"]): object {
  const { connection } = options;
  return typeof connection === "object" && connection !== null ? connection : {};
}

/** Clients of the package `postgres`, which is loaded when the first is made. */
import { StateStoreUnavailableError } from "../../errors.ts";
import { causeOf } from "./failure.ts";
import type { Place, PostgresClient } from "./source.ts";

type Connect = (...from: (string | object)[]) => PostgresClient;

/** Of the database's session, where the client is ours. What a transaction reads is what was committed when it asks. */
const SESSION = { application_name: "tussock", default_transaction_isolation: "read committed" };

async function load(): Promise<Connect> {
  try {
    const { default: connect } = await import("postgres");
    return connect as unknown as Connect;
  } catch (error) {
    const why = "the package `postgres` cannot be loaded. Install it beside this library: npm install postgres";
    throw new StateStoreUnavailableError("postgres", why, { cause: error });
  }
}

/** A client of our own, or the caller's. No connection is made yet. */
export async function makeClient({ client, url, options }: Place): Promise<PostgresClient> {
  const connect = await load();
  if (client !== null) return client;
  const all = {
    fetch_types: false,
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

/** A client of one connection of its own, to where another leads. Hears of notifications, and of the connection's end. */
export async function makeSession(
  client: PostgresClient,
  hear: { onnotify: (channel: string, payload: string) => void; onclose: () => void },
): Promise<PostgresClient> {
  const connect = await load();
  return connect({ ...client.options, max: 1, idle_timeout: null, max_lifetime: null, fetch_types: false, ...hear });
}

function connectionOf(options: Place["options"]): object {
  const { connection } = options;
  return typeof connection === "object" && connection !== null ? connection : {};
}

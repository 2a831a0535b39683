/**
 * A server in process on the real rooms: `node examples/serve.ts [--n 50000] [--k 1000] [--history 40,10000,100000] [--long]`.
 *
 * Over N stored definitions, 24 and then K new workers enrol at once while others that are enrolled already go on; workers
 * give up and try again; 1 and 36 workers do the ready-steps of report 3755 over longer and longer lease histories, with
 * others enrolling beside them; the server is stopped in the middle and boots again. Each figure stands beside that of the same
 * requests served as the reports describe, measured in the same run. The server is in `serve/server.ts`. Ctrl-C stops at
 * once and leaves nothing behind.
 */
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { HISTORIES, LONG_HISTORIES, showServer } from "./serve/show.ts";
import { generateDefinitions } from "./support/definitions.ts";
import { printGoals } from "./support/goals.ts";
import { areCounts, runIn } from "./support/program.ts";
import { withProgress } from "./support/progress.ts";

const { values } = parseArgs({
  options: {
    n: { type: "string", default: "50000" },
    k: { type: "string", default: "1000" },
    history: { type: "string" },
    long: { type: "boolean", default: false },
  },
});
const [n, many] = [Number(values.n), Number(values.k)];
const histories = values.history?.split(",").map(Number) ?? (values.long ? LONG_HISTORIES : HISTORIES);
if (!areCounts([n, many, ...histories])) {
  console.error("usage: serve.ts [--n <definitions>] [--k <new workers>] [--history <leases>,…] [--long]");
  process.exit(2);
}

await runIn("tussock-serve-", async (base, signal) => {
  const repoDir = join(base, "repo");
  await withProgress(`write ${n.toLocaleString("en-US")} definitions`, (update) =>
    generateDefinitions(repoDir, n, { signal, onProgress: (written) => update(written, n) }),
  );
  printGoals(await showServer({ base, repoDir, definitions: n, many, histories, signal }));
  return 0;
});

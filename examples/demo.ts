/**
 * Everything in one run: `node examples/demo.ts [--n 50000] [--k 1000] [--only definitions|serve] [--check]`.
 *
 * Generates N stored definitions in swamp's own format, opens the index over them, creates 24 new names at once and K
 * more, looks up names that exist, are missing, lie under their id or under a wrong filename, and prints each figure
 * beside the linear scan of report 3984, measured in the same run. Then a server works over them, beside the reports' own:
 * see `serve.ts`. With `--check`, the exit code says whether the goals were reached. Ctrl-C stops at once and leaves
 * nothing behind.
 */
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { showDefinitions } from "./demo/definitions.ts";
import { HISTORIES, showServer } from "./serve/show.ts";
import { generateDefinitions } from "./support/definitions.ts";
import { type Goal, printGoals } from "./support/goals.ts";
import { areCounts, runIn } from "./support/program.ts";
import { withProgress } from "./support/progress.ts";

const { values } = parseArgs({
  options: {
    n: { type: "string", default: "50000" },
    k: { type: "string", default: "1000" },
    history: { type: "string" },
    only: { type: "string" },
    check: { type: "boolean", default: false },
  },
});
const [n, k, only] = [Number(values.n), Number(values.k), values.only];
const histories = values.history?.split(",").map(Number) ?? HISTORIES;

const PARTS: Record<string, (base: string, repoDir: string, signal: AbortSignal) => Promise<Goal[]>> = {
  definitions: (base, repoDir, signal) => showDefinitions({ base, repoDir, n, k, signal }),
  serve: (base, repoDir, signal) => showServer({ base, repoDir, definitions: n, many: k, histories, signal }),
};

if (!areCounts([n, k, ...histories]) || n < 20 || (only !== undefined && !(only in PARTS))) {
  console.error(
    "usage: demo.ts [--n <definitions, 20 or more>] [--k <new names, 1 or more>] [--history <leases>,…]" +
      " [--only definitions|serve] [--check]",
  );
  process.exit(2);
}

await runIn("tussock-demo-", async (base, signal) => {
  const repoDir = join(base, "repo");
  await withProgress(`write ${n.toLocaleString("en-US")} definitions`, (update) =>
    generateDefinitions(repoDir, n, { signal, onProgress: (written) => update(written, n) }),
  );
  let isReached = true;
  for (const [part, show] of Object.entries(PARTS)) {
    if (only !== undefined && only !== part) continue;
    const goals = await show(base, repoDir, signal);
    printGoals(goals);
    isReached &&= goals.every(({ reached }) => reached);
  }
  return values.check && !isReached ? 1 : 0;
});

/** A server that enrols and dispatches without end, and says what it has acknowledged, until somebody kills it. */
import { startServer } from "../../examples/serve/server.ts";
import { requestOf } from "./server.ts";

const [repoDir = "", prefix = ""] = process.argv.slice(2);
const server = await startServer({ repoDir });
await server.tokens.issue("fleet", 1_000_000);
await server.startRun(`run-${prefix}`);
console.log("ready");
const enrolWithoutEnd = async (line: number): Promise<never> => {
  for (let n = 0; ; n++) {
    const worker = `${prefix}-${line}-${n}`;
    const { definitionId } = await server.enroll(requestOf(worker));
    const { leaseId } = await server.dispatch(worker, { runId: `run-${prefix}`, method: "ready" });
    console.log(JSON.stringify({ worker, definitionId, leaseId }));
  }
};
await Promise.all(Array.from({ length: 8 }, (_, line) => enrolWithoutEnd(line)));

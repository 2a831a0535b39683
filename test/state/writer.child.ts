/**
 * Writes leases from many writers at once until it is killed, and says of each change that was acknowledged, after it was:
 * `id revision state`. Arguments: directory, prefix of its ids, writers, and how many leases in all (default: no end).
 */
import { writeSync } from "node:fs";
import { openLeaseIndex } from "../../src/state/open.ts";

const [dir = "", prefix = "", writers = "36", most = "Infinity"] = process.argv.slice(2);
const index = await openLeaseIndex({ dir });
let count = 0;

function say(record: { id: string; revision: number; state: string }): void {
  writeSync(1, `${record.id} ${record.revision} ${record.state}\n`);
}

async function writer(name: string): Promise<void> {
  for (let n = 0; count++ < Number(most); n++) {
    const id = `${prefix}-${name}-${n}`;
    const data = { workerName: `worker-${name}`, dispatchId: id, instanceId: prefix, hasWrites: false };
    say(await index.insert({ id, data }));
    say(await index.update(id, { hasWrites: true }, { state: "active" }));
    // Every third stays active: there is something to list, and something left over.
    if (n % 3 !== 0) say(await index.transition(id, n % 2 ? "completed" : "failed", { from: "active" }));
  }
}

writeSync(1, "ready\n");
await Promise.all(Array.from({ length: Number(writers) }, (_, n) => writer(String(n))));
await index.close();

/** A server beside others on one database: opens it, does what it is told line by line, and says what came of it. */
import { createInterface } from "node:readline";
import { openLeaseIndex } from "../../../src/state/open.ts";

const [, , url, schema] = process.argv as [string, string, string, string];
const leases = await openLeaseIndex({ postgres: { url, schema, max: 4 }, retention: false });
console.log("open");

/** What a call comes to, in a word. */
async function outcomeOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return "done";
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const [what, ...args] = line.split(" ") as [string, ...string[]];
  switch (what) {
    case "end": {
      const ends = args.map((id) => outcomeOf(leases.transition(id, "completed", { from: "active" })));
      console.log(JSON.stringify(await Promise.all(ends)));
      break;
    }
    case "sweep": {
      const report = await leases.sweep({ from: "active", to: "expired", batchSize: 50 });
      console.log(JSON.stringify(report));
      break;
    }
    case "insert":
      console.log(await outcomeOf(leases.insert({ id: args[0] ?? "", data: {} })));
      break;
    case "close":
      await leases.close();
      console.log("closed");
  }
}

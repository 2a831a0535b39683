/** Prints this process's identity, announced in the directory given (if any), then waits for `close` or its end. */
import { createInterface } from "node:readline";
import { announceInstance, currentProcessIdentity } from "../../src/liveness/index.ts";

const dir = process.argv[2];
const announcement = dir ? await announceInstance(dir) : null;
console.log(JSON.stringify(currentProcessIdentity()));
for await (const line of createInterface({ input: process.stdin })) {
  if (line === "close") await announcement?.close();
  console.log(line);
}

/**
 * Opens the leases of a directory and does what it is told, line by line: `insert id`, `close`, `exit` (in the middle of
 * 36 inserts). At the end of its input it simply has nothing more to do.
 */
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { openLeaseIndex } from "../../src/state/open.ts";

const [dir = ""] = process.argv.slice(2);
const index = await openLeaseIndex({ dir });
const say = (line: string) => writeSync(1, `${line}\n`);
say("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [word, id = ""] = line.split(" ");
  if (word === "insert") say(`${(await index.insert({ id, data: {} })).id}`);
  else if (word === "close") await index.close().then(() => say("closed"));
  else if (word === "exit") {
    for (let n = 0; n < 36; n++) void index.insert({ id: `${id}-${n}`, data: {} });
    setTimeout(() => process.exit(7), 2);
  }
}

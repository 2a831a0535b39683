/**
 * A process that owns an environment. `DIR [SLOTS]` as arguments; prints `slot {n} {fresh reason or -}`, then obeys
 * stdin, one answer a line: `write COUNT` (numbered, each committed and then printed), `read-files` (every file of the
 * directory, as a backup does), `close`, `exit` (without closing), `throw`, `idle` (lets the loop run dry), `close-on-sigterm`.
 */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setImmediate } from "node:timers/promises";
import { openOwnedEnvironment } from "../../src/lmdb/index.ts";

const [dir = "", slots = "4"] = process.argv.slice(2);
const environment = await openOwnedEnvironment({ dir, slots: Number(slots), identity: { schema: 1 }, warn: () => {} });
const numbers = environment.root.openDB<string, number>({ name: "numbers", keyEncoding: "uint32", encoding: "string" });
console.log(`slot ${environment.slot} ${environment.freshReason ?? "-"}`);

let next = 0;
const input = createInterface({ input: process.stdin });
for await (const line of input) {
  const [command, count] = line.split(" ");
  if (command === "write") {
    for (const end = next + Number(count); next < end; next++) {
      numbers.transactionSync(() => {
        numbers.put(next, `value ${next}`);
      });
      console.log(next);
      if (next % 20 === 0) await setImmediate();
    }
  } else if (command === "read-files") {
    for (const name of readdirSync(dir, { recursive: true }) as string[]) {
      const path = join(dir, name);
      if (statSync(path, { throwIfNoEntry: false })?.isFile()) readFileSync(path);
    }
    console.log("read");
  } else if (command === "close") {
    await environment.close();
    console.log("closed");
    break;
  } else if (command === "exit") {
    process.exit(0);
  } else if (command === "throw") {
    setTimeout(() => {
      throw new Error("MDB_CORRUPTED, say");
    });
  } else if (command === "idle") {
    break;
  } else if (command === "close-on-sigterm") {
    process.on("SIGTERM", () => void environment.close().then(() => process.exit(0)));
    console.log("ready");
  }
}
input.close();
process.stdin.destroy();

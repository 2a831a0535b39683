/** Opens and closes the environment of DIR again and again until stdin ends, then prints how often, and which slots. */
import { setImmediate } from "node:timers/promises";
import { openOwnedEnvironment } from "../../src/lmdb/index.ts";

const [dir = "", slots = "4"] = process.argv.slice(2);
const seen = new Set<number | "temporary">();
let ended = false;
process.stdin.on("end", () => {
  ended = true;
});
process.stdin.resume();
let times = 0;
for (; !ended; times++) {
  const environment = await openOwnedEnvironment({ dir, slots: Number(slots), identity: { schema: 1 } });
  seen.add(environment.slot);
  environment.root.openDB({ name: "numbers", keyEncoding: "uint32", encoding: "string" }).get(1);
  await environment.close();
  if (times === 0) console.log("opening");
  await setImmediate(); // All else may be settled within a turn, and then nobody hears that stdin ended.
}
console.log(JSON.stringify({ times, slots: [...seen] }));

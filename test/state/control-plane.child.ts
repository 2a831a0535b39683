/** One of many processes on the same control-plane records; does what it is told, line by line. */
import { createInterface } from "node:readline";
import { openControlPlaneStore } from "../../src/state/control-plane.ts";

const [dir = "", me = ""] = process.argv.slice(2);
const store = await openControlPlaneStore({ dir });
const encoder = new TextEncoder();
console.log("ready");

for await (const line of createInterface({ input: process.stdin })) {
  const [command, key = ""] = line.split(" ");
  if (command === "claim") console.log(await store.putIfAbsent(key, encoder.encode(me)));
  if (command === "churn") {
    // Records of its own in directories that all share, made and deleted, so that directories come and go.
    for (let n = 0; n < Number(key); n++) {
      await store.put(`shared/${n % 3}/${me}`, encoder.encode(`${n}`));
      await store.delete(`shared/${n % 3}/${me}`);
    }
    await store.put(`shared/done/${me}`, encoder.encode(me));
    console.log("done");
  }
  if (command === "flood") {
    for (let n = 0; ; n++) {
      await store.put(`flood/${n % 5}`, encoder.encode(`${n}`.padEnd(20_000)));
      console.log(n);
    }
  }
}
await store.close();

/** A worker thread that writes in bulk into the environment that the main thread owns. */
import { parentPort, workerData } from "node:worker_threads";
import { openSharedInWorker } from "../../src/lmdb/shared.ts";

const root = await openSharedInWorker(workerData as string);
const db = root.openDB<string, number>({ name: "bulk", keyEncoding: "uint32", encoding: "string" });
parentPort?.on("message", async (message: { round: number; count: number } | "close") => {
  if (message === "close") {
    await root.close();
  } else {
    db.transactionSync(() => {
      for (let i = 0; i < message.count; i++) db.put(i, `${message.round}:${i}:${"x".repeat(200)}`);
    });
  }
  parentPort?.postMessage(message);
});
parentPort?.postMessage("ready");

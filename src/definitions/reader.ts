/** The program of the second thread of a sweep: does the shares that it is given, one after the other. */
import { workerData } from "node:worker_threads";
import { type ReaderTask, workOn } from "./reader-work.ts";
import type { ReaderAnswer, ReaderData } from "./second-reader.ts";

const { examine, port, sent } = workerData as ReaderData;

port.on("message", (task: ReaderTask) => {
  try {
    const [result, transfer] = workOn(task, examine);
    answer({ result }, transfer as ArrayBuffer[]);
  } catch (error) {
    answer({ failure: String((error as Error)?.stack ?? error) }, []);
  }
});
said();

function answer(message: ReaderAnswer, transfer: ArrayBuffer[]): void {
  port.postMessage(message, transfer);
  said();
}

function said(): void {
  Atomics.add(sent, 0, 1);
  Atomics.notify(sent, 0);
}

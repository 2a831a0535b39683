/** The other end of `pool.ts`: does one task after the other. */
import { parentPort, workerData } from "node:worker_threads";
import { DefinitionReadError } from "../errors.ts";
import type { WorkerMessage, WorkerOptions } from "./pool.ts";
import { EMPTY, runTask, type Task, type TaskResult } from "./task.ts";

if (parentPort !== null) serve(parentPort, workerData as WorkerOptions);

function serve(port: NonNullable<typeof parentPort>, options: WorkerOptions): void {
  const post = (message: WorkerMessage, transfer: ArrayBuffer[] = []): void => port.postMessage(message, transfer);
  port.on("message", (task: Task) => {
    try {
      const result = complete(task, options);
      if (result === null) post("stopped");
      else post({ result }, "stamps" in result ? [result.stamps.buffer as ArrayBuffer] : []);
    } catch (error) {
      if (error instanceof DefinitionReadError) post({ path: error.path, errno: error.errno });
      else post({ failure: String((error as Error)?.stack ?? error) });
    }
  });
  post("ready");
}

/** Null when it was told to stop. */
function complete(task: Task, { examine, stopping }: WorkerOptions): TaskResult | null {
  const steps = runTask(task, examine);
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    if (Atomics.load(stopping, 0) !== 0) {
      steps.return(EMPTY);
      return null;
    }
  }
}

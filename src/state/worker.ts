/**
 * The thread that writes to `state.db`, so that no flush ever holds the event loop; or, in its other role, the one that
 * inspects a store for `verify()`.
 */
import { type MessagePort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { inspectStore } from "./sqlite/inspect.ts";
import type { FromWriter, ToWriter } from "./sqlite/protocol.ts";
import { Slots } from "./sqlite/slots.ts";
import type { Task } from "./sqlite/thread.ts";
import { WriterLoop } from "./sqlite/writer-loop.ts";

const { task, port } = workerData as { task: Task; port: MessagePort };

if (task.role === "write") write(task.dir, new Slots(task.slots), task.flushed);
else port.postMessage(inspectStore(task.path, task.index));

function write(dir: string, slots: Slots, flushed: boolean): void {
  const loop = new WriterLoop(dir, slots, flushed, {
    emit: (message: FromWriter) => port.postMessage(message),
    pull: () => {
      for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port)) {
        loop.receive(next.message as ToWriter);
      }
    },
    turn: () => Promise.resolve(),
  });
  port.on("message", (message: ToWriter) => loop.receive(message));
  void loop.start();
}

/**
 * The thread that writes to `state.db`, so that no flush ever holds the event loop; or, in its other role, the one that
 * inspects a store for `verify()`.
 */
import { type MessagePort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { inspectStore } from "./sqlite/inspect.ts";
import type { FromWriter } from "./sqlite/protocol.ts";
import { Slots } from "./sqlite/slots.ts";
import type { Task, WriteTask } from "./sqlite/thread.ts";
import { type PackedToWriter, packFromWriter, unpackToWriter } from "./sqlite/wire.ts";
import { WriterLoop } from "./sqlite/writer-loop.ts";

const { task, port } = workerData as { task: Task; port: MessagePort };

if (task.role === "write") write(task);
else port.postMessage(inspectStore(task.path, task.index));

/** How long the writer waits for the rest of a turn, the transaction open: a caller may be doing something else in it. */
const TURN_MS = 1;

function write(task: WriteTask): void {
  const slots = new Slots(task.slots);
  const loop = new WriterLoop(task, {
    emit: (message: FromWriter) => port.postMessage(packFromWriter(message)),
    pull: () => {
      while (!receiveAll()) {
        if (slots.waitForMore(TURN_MS)) continue;
        receiveAll(); // The last of a turn that has just ended.
        return;
      }
    },
    turn: () => Promise.resolve(),
  });
  /** Whether there was anything. */
  const receiveAll = (): boolean => {
    let found = false;
    for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port)) {
      loop.receive(unpackToWriter(next.message as PackedToWriter));
      found = true;
    }
    return found;
  };
  port.on("message", (message: PackedToWriter) => loop.receive(unpackToWriter(message)));
  void loop.start();
}

/**
 * The thread that writes to `state.db`, so that no flush ever holds the event loop; or, in its other role, the one that
 * inspects a store for `verify()`.
 */
import { type MessagePort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { openDatabase } from "./sqlite/database.ts";
import { failureOf } from "./sqlite/failure.ts";
import { inspect } from "./sqlite/inspect.ts";
import type { FromWriter, ToWriter } from "./sqlite/protocol.ts";
import { Slots } from "./sqlite/slots.ts";
import type { Task } from "./sqlite/thread.ts";
import { WriterLoop } from "./sqlite/writer-loop.ts";

const { task, port } = workerData as { task: Task; port: MessagePort };

if (task.role === "write") write(task.dir, new Slots(task.slots), task.flushed);
else port.postMessage(inspection(task.path, task.index));

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

function inspection(path: string, index: number): unknown {
  const database = openDatabase(path, { readOnly: true });
  try {
    return { ok: true, value: inspect(database, index) };
  } catch (error) {
    return { ok: false, failure: failureOf(error, path) };
  } finally {
    database.close();
  }
}

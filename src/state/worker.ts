/**
 * The thread that writes to `state.db`, so that no flush ever holds the event loop; or, in its other role, the one that
 * inspects a store for `verify()`.
 */
import { availableParallelism } from "node:os";
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

/**
 * Many who were answered at once ask at once, 0.2 ms later, and to sleep and be woken takes as long as their first
 * request: for so long, after so many answers, the writer looks out for them awake. In vain once, it does not for a while.
 */
const LOOKOUT_MS = 0.4;
const LOOKOUT_ANSWERS = 8;
const LOOKOUT_RESTS = 16;

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
    turn: async (answered) => {
      if (answered < LOOKOUT_ANSWERS || rests-- > 0) return;
      const end = performance.now() + LOOKOUT_MS;
      while (!receiveAll()) {
        if (performance.now() < end) continue;
        rests = LOOKOUT_RESTS;
        return;
      }
    },
  });
  // Nobody else could send anything meanwhile on one processor.
  let rests = availableParallelism() > 1 ? 0 : Number.POSITIVE_INFINITY;
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

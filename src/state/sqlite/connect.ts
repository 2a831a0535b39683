/** Starting the writer: on a thread of its own, or inline where that cannot be. */
import { abortable, deferred } from "../../abort.ts";
import { StateStoreBusyError } from "../../errors.ts";
import { Gate } from "../../gate.ts";
import { toError } from "./failure.ts";
import type { FromWriter } from "./protocol.ts";
import { Slots } from "./slots.ts";
import { startInline, startThread, type WriterHost, workersAllowed } from "./thread.ts";
import { SLOTS, WriterClient } from "./writer-client.ts";

export interface OpenOptions {
  readonly signal?: AbortSignal | undefined;
  /** How long to wait for a store that another process has locked. */
  readonly deadlineMs: number;
}

/**
 * Resolves when the store is open. Aborted before that, or late: the thread is ended, and what it had open closes with it.
 * @throws StateStoreBusyError when another process had it locked all the time; what opening it threw.
 */
export async function connectWriter(
  dir: string,
  path: string,
  flushed: boolean,
  options: OpenOptions,
): Promise<WriterClient> {
  if (workersAllowed()) {
    const client = await open(startThread, dir, path, flushed, options);
    if (client !== null) return client;
  }
  const client = await open(startInline, dir, path, flushed, options);
  if (client === null) throw new Error("unreachable: an inline writer does not die");
  return client;
}

/** Null when there is no thread to be had. */
async function open(
  start: typeof startThread,
  dir: string,
  path: string,
  flushed: boolean,
  options: OpenOptions,
): Promise<WriterClient | null> {
  const slots = Slots.memory(SLOTS);
  const gate = Gate.memory();
  const opened = deferred<boolean>();
  let client: WriterClient | null = null;
  let timer: NodeJS.Timeout | undefined;
  const events = {
    message: (message: FromWriter) => {
      if ("waiting" in message) {
        // What counts is how long the store was locked, not how long a thread takes to start.
        const late = () => opened.reject(new StateStoreBusyError(path, options.deadlineMs));
        timer = setTimeout(late, options.deadlineMs);
      } else if ("opened" in message) opened.resolve(true);
      else if ("failed" in message) opened.reject(toError(message.failed, path));
      else client?.receive(message);
    },
    died: (error: unknown) => {
      client?.die(error);
      opened.resolve(false);
    },
  };
  let host: WriterHost;
  try {
    host = start({ role: "write", dir, flushed, slots, gate }, events);
  } catch {
    return null;
  }
  try {
    if (await abortable(opened.promise, options.signal)) {
      client = new WriterClient(path, slots, host);
      return client;
    }
    return null;
  } catch (error) {
    await host.terminate();
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

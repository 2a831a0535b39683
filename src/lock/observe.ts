/** What telemetry is told of waiting for a name. */
import { type Operation, operation } from "../telemetry/index.ts";
import { readHolder } from "./holder-file.ts";

const wait = operation("tussock.lock.wait", "Waiting for the lock of a name, until it was held", [
  "tussock.lock.took_over",
]);

/** The waiting for the lock whose file is at `path`, with who held it when it began; null without an SDK. */
export function observeWait(path: string): Operation | null {
  const started = wait.start();
  if (started === null) return null;
  started.set("tussock.lock.path", path);
  const holder = readHolder(path);
  if (holder !== null) started.set("tussock.lock.holder", `${holder.holder ?? "?"} (pid ${holder.pid ?? "?"})`);
  return started;
}

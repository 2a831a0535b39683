/** What tests do without: threads. */
import { onTestFinished } from "vitest";

/** For the rest of the test, everything runs on the calling thread: a worker takes a tenth of a second to start. */
export function withoutWorkers(): void {
  process.env["TUSSOCK_NO_WORKERS"] = "1";
  onTestFinished(() => {
    delete process.env["TUSSOCK_NO_WORKERS"];
  });
}

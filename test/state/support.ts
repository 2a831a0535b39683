/** What the tests of the state room share. */
import { onTestFinished } from "vitest";

/** The same function with the writer on the calling thread. */
export function inline<A extends unknown[], R>(open: (...args: A) => Promise<R>): (...args: A) => Promise<R> {
  return async (...args) => {
    process.env["TUSSOCK_NO_WORKERS"] = "1";
    try {
      return await open(...args);
    } finally {
      delete process.env["TUSSOCK_NO_WORKERS"];
    }
  };
}

/** For the rest of the test, everything runs on the calling thread: a worker takes a tenth of a second to start. */
export function withoutWorkers(): void {
  process.env["TUSSOCK_NO_WORKERS"] = "1";
  onTestFinished(() => {
    delete process.env["TUSSOCK_NO_WORKERS"];
  });
}

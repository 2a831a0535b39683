/** One transition inside another's span, on a runtime with telemetry of its own; runs until it is killed. */
import { createTransitionQueue } from "../../src/transitions/index.ts";

const outer = createTransitionQueue({ name: "outer" });
const inner = createTransitionQueue({ name: "inner" });
await outer.run("worker:a", () => inner.run("lease:b", async () => {}));
// A third one waits, for the gauge to see.
void outer.run("worker:a", () => new Promise(() => {}));
void outer.run("worker:a", () => {});
process.stdin.resume();

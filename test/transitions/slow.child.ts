/** Ends at once although its queue watches for transitions that run for an hour. */
import { createTransitionQueue } from "../../src/transitions/index.ts";

const queue = createTransitionQueue({ slowAfterMs: 3_600_000, onSlow: () => {} });
await queue.run("key", () => {});
console.log("done");

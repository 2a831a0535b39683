/** Transitions of one key in order, of different keys side by side: `tussock/transitions`. */
export type { SlowTransition, TransitionQueue, TransitionQueueOptions, TransitionStats } from "./model.ts";
export { createTransitionQueue } from "./queue.ts";

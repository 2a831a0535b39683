/** Transitions of one key in order, of different keys side by side: `tussock/transitions`. */
export type { AbortOptions } from "../abort.ts";
export {
  ClosedError,
  InvalidArgumentError,
  NestedTransitionError,
  QueueFullError,
  TussockError,
} from "../errors.ts";
export type { SlowTransition, TransitionQueue, TransitionQueueOptions, TransitionStats } from "./model.ts";
export { createTransitionQueue } from "./queue.ts";

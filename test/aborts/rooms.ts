/** All public asynchronous calls that take a signal. */
import type { Room } from "./call.ts";
import { controlPlane } from "./control-plane.ts";
import { definitionOpenings, definitions } from "./definitions.ts";
import { locks } from "./locks.ts";
import { scanning } from "./scans.ts";
import { runs, state, stateOpenings } from "./state.ts";
import { transitions } from "./transitions.ts";

export const rooms = [
  definitions,
  definitionOpenings,
  scanning,
  state,
  stateOpenings,
  runs,
  controlPlane,
  locks,
  transitions,
] as Room<unknown>[];

/** The call's name without the case that is tried of it. */
export function nameOf(entry: string): string {
  return entry.split(",", 1)[0] ?? "";
}

/** The clock of stores that ask this process what time it is. */
import type { SubjectClock } from "../conformance/index.ts";

const { now } = Date;

export const processClock: SubjectClock = {
  set(time) {
    Date.now = time === null ? now : () => time;
  },
};

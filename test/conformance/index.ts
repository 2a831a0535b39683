/** Suites for authors of other stores: each is a list of promises, for any test runner. */
export type { ConformanceCase } from "./case.ts";
export { type ControlPlaneSubject, controlPlaneConformance } from "./control-plane.ts";
export type { SubjectClock } from "./state-clock.ts";
export { type StateIndexSubject, type SubjectOptions, stateIndexConformance } from "./state-index.ts";

/**
 * The behaviour of the library's interfaces as suites, for authors of other stores: each is a list of named promises
 * that any test runner can be given.
 */
export type { ConformanceCase } from "./case.ts";
export { type ControlPlaneSubject, controlPlaneConformance } from "./control-plane.ts";
export { type StateIndexSubject, type SubjectOptions, stateIndexConformance } from "./state-index.ts";

/** LMDB environments that one process owns at a time. */
export {
  type EnvironmentIdentity,
  type EnvironmentLimits,
  environmentOptions,
  type OpenEnvironmentOptions,
  type OwnedEnvironment,
  openOwnedEnvironment,
  openSharedInWorker,
} from "./environment.ts";

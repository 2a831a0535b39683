/** swamp's layouts: where its artifacts lie, how they become records, and how records become artifacts again. */
export {
  type ArtifactImportOptions,
  type KnownRecord,
  leasesFromArtifacts,
  pendingDispatchesFromArtifacts,
  recordsFromArtifacts,
  workersFromArtifacts,
} from "./artifact-import.ts";
export type { ItemVersion } from "./artifact-item.ts";
export type { ArtifactMetadata } from "./artifact-metadata.ts";
export { type ArtifactMirrorOptions, artifactMirror } from "./artifact-mirror.ts";
export {
  type ArtifactKind,
  type PendingDispatch,
  pendingDispatchArtifacts,
  stepLeaseArtifacts,
  type WorkerStatus,
  workerArtifacts,
} from "./artifact-records.ts";
export {
  type Artifact,
  type ArtifactProgress,
  type ArtifactResult,
  type ArtifactScanOptions,
  scanArtifacts,
} from "./artifact-scan.ts";
export {
  AUTO_ROOT,
  MODELS_ROOT,
  openSwampRepository,
  type SwampRepository,
  type SwampRepositoryOptions,
} from "./repository.ts";

/** `tussock/definitions`: the type/name index and the repository over it. */
export type {
  DefinitionEntry,
  DefinitionKeys,
  DefinitionProblem,
  FileStamp,
  Naming,
  ProblemKind,
} from "../scan/model.ts";
export type {
  DefinitionIndex,
  DefinitionIndexOptions,
  DefinitionIndexStats,
  DefinitionRoot,
  ListOptions,
  LookupOptions,
  RefreshReport,
  SweepProgress,
} from "./model.ts";
export { openDefinitionIndex } from "./open.ts";
export {
  createDefinitionRepository,
  type DefinitionChange,
  type DefinitionCodec,
  type DefinitionIdentity,
  type DefinitionRepository,
  type DefinitionRepositoryOptions,
  normalizeType,
  noticeChanges,
  type Resolved,
  type ResolveOptions,
  type TypeRef,
} from "./repository.ts";

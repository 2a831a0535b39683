/** `tussock/scan`: the abortable scan of a directory of definitions. Native-free: safe to bundle. */
export { DefinitionReadError, InvalidArgumentError, TussockError } from "../errors.ts";
export type {
  DefinitionEntry,
  DefinitionKeys,
  DefinitionProblem,
  FileStamp,
  Naming,
  ProblemKind,
  ScanResult,
} from "./model.ts";
export { type ScanOptions, type ScanProgress, scan } from "./scan.ts";

/** The public names of all rooms. Each room is also a subpath of its own, such as `tussock/transitions`. */
export type { AbortOptions } from "./abort.ts";
export * from "./definitions/index.ts";
export * from "./errors.ts";
export * from "./liveness/index.ts";
export { type NameLock, type NameLockOptions, withNameLock } from "./lock/index.ts";
export { type ScanOptions, type ScanProgress, type ScanResult, scan } from "./scan/index.ts";
export * from "./state/index.ts";
export * from "./swamp/index.ts";
export * from "./transitions/index.ts";

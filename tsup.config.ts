/**
 * The published shape: one flat `dist/` of ES modules and CommonJS with types for both, code shared between the entries in
 * chunks (so that a class is the same one from every subpath), worker files as ES modules only.
 */
import { existsSync } from "node:fs";
import { defineConfig, type Options } from "tsup";

const entries = {
  index: "src/index.ts",
  scan: "src/scan/index.ts",
  definitions: "src/definitions/index.ts",
  state: "src/state/index.ts",
  transitions: "src/transitions/index.ts",
  lock: "src/lock/index.ts",
  liveness: "src/liveness/index.ts",
  swamp: "src/swamp/index.ts",
  postgres: "src/postgres/index.ts",
  conformance: "test/conformance/index.ts",
};

/**
 * Started by `new Worker(new URL("./scan-worker.js", import.meta.url))`, from either format. Each is whole: a thread comes up
 * sooner from one file, and the entries need fewer chunks, whose number is most of what importing them costs.
 */
const programs = {
  "scan-worker": "src/scan/worker.ts",
  "state-worker": "src/state/worker.ts",
  "definitions-worker": "src/definitions/worker.ts",
  "definitions-reader": "src/definitions/reader.ts",
  cli: "src/cli/index.ts",
};

const existing = (files: Record<string, string>): Record<string, string> =>
  Object.fromEntries(Object.entries(files).filter(([, file]) => existsSync(file)));

const shared: Options = {
  outDir: "dist",
  target: "node22",
  platform: "node",
  splitting: true,
  // `node:sqlite` exists under that name only.
  removeNodeProtocol: false,
  external: ["koffi", "lmdb", "yaml", "chokidar", "p-limit", "postgres"],
};

export default defineConfig([
  { ...shared, format: "esm", entry: existing(entries) },
  { ...shared, format: "esm", entry: existing(programs), splitting: false },
  { ...shared, format: "cjs", entry: existing(entries), shims: true },
  { ...shared, format: ["esm", "cjs"], entry: existing(entries), dts: { only: true } },
]);

/** One cold build, from the sources, so that a profile names their files: `node --cpu-prof … build-once.ts <stored as JSON> <index directory>`. */
import process from "node:process";
import { openDefinitionIndex } from "../../src/definitions/index.ts";
import type { Stored } from "../support/definitions.ts";

const stored = JSON.parse(process.argv[2] ?? "") as Stored;
const index = await openDefinitionIndex({
  roots: stored.roots,
  indexDir: process.argv[3] ?? "",
  boundary: stored.repoDir,
});
await index.findByName("swamp/worker", "nobody-is-called-so");
await index.close();

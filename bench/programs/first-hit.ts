/** Imports the library, opens an index and asks for one name, in a process that has done nothing before; prints how long that took. */
import process from "node:process";
import { stopwatch } from "../harness.ts";
import type { Stored } from "../support/definitions.ts";
import { load } from "../support/library.ts";

const { library, stored, name } = JSON.parse(process.argv[2] ?? "") as {
  library: string;
  stored: Stored;
  name: string;
};
const took = stopwatch();
const { openDefinitionIndex } = await load(library, "definitions");
const index = await openDefinitionIndex({ roots: stored.roots, indexDir: stored.indexDir, boundary: stored.repoDir });
const found = await index.findByName("swamp/worker", name, { roots: ["auto"] });
const { value: elapsed, cpu } = took();
await index.close();
if (found === null) throw new Error(`${name} was not found`);
console.log(JSON.stringify({ elapsed, cpu }));

/**
 * Finding and creating definitions: `node examples/quick-start.ts [directory]`. Run it twice: the second time, what the
 * first has created is found. Without a directory it works in one under the system's temporary directory.
 */
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";
import { createDefinitionRepository, openDefinitionIndex } from "../src/index.ts";

const base = resolve(process.argv[2] ?? join(tmpdir(), "tussock-quick-start"));
const roots = [{ name: "models", dir: join(base, "models") }];
await using index = await openDefinitionIndex({ roots, indexDir: join(base, "index") });

const definitions = createDefinitionRepository(index, {
  writeRoot: "models",
  codec: {
    decode: (document) => document as { id: string; name: string; engine: string },
    encode: (definition, type) => ({ type, ...definition }),
  },
});

const create = () => ({ id: definitions.nextId(), name: "orders", engine: "postgres" });
const { definition, created, path } = await definitions.resolveOrCreate("acme/db", "orders", create);
console.log(`${created ? "created" : "found"} ${definition.name} (${definition.engine}) in ${path}`);
console.log("by its name:", (await definitions.findByName("acme/db", "orders"))?.id);
console.log("what does not exist:", await definitions.findByName("acme/db", "payments"));

/** Gives up root's rights and asks an index over `{base}/repo/models`, of which some files may not be read. */
import { join } from "node:path";
import { openDefinitionIndex } from "../../src/definitions/index.ts";
import { DefinitionReadError } from "../../src/errors.ts";

const [, , base = ""] = process.argv;
process.setgid?.(65534);
process.setuid?.(65534);
const index = await openDefinitionIndex({
  roots: [{ name: "models", dir: join(base, "repo/models") }],
  indexDir: join(base, "index"),
});
for (const [type, name] of [
  ["t", "none"],
  ["u", "x"],
  ["u", "none"],
  ["*", "x"],
] as const) {
  const answer = await (type === "*" ? index.findByNameGlobal(name) : index.findByName(type, name)).then(
    (found) => (found === null ? "not found" : "found"),
    (error) => (error instanceof DefinitionReadError ? error.errno : String(error)),
  );
  console.log(`${type} ${name}: ${answer}`);
}
await index.close();

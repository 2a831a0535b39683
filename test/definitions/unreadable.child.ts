/** Gives up root's rights and asks an index over `{base}/repo/models`, of which some files may not be read. */
import { join } from "node:path";
import { openDefinitionIndex } from "../../src/definitions/index.ts";
import { DefinitionReadError } from "../../src/errors.ts";

const [, , base = ""] = process.argv;
process.setgid?.(65534);
process.setuid?.(65534);
const index = await openDefinitionIndex({
  roots: ["models", "auto"].map((name) => ({ name, dir: join(base, "repo", name) })),
  indexDir: join(base, "index"),
});
for (const [type, name, root] of [
  ["t", "none"],
  ["u", "x"],
  ["u", "none"],
  ["*", "x"],
  ["t", "none", "auto"],
  ["*", "x", "auto"],
] as const) {
  const o = root === undefined ? {} : { roots: [root] };
  const answer = await (type === "*" ? index.findByNameGlobal(name, o) : index.findByName(type, name, o)).then(
    (found) => (found === null ? "not found" : "found"),
    (error) => (error instanceof DefinitionReadError ? error.errno : String(error)),
  );
  console.log(`${type} ${name}${root === undefined ? "" : ` in ${root}`}: ${answer}`);
}
await index.close();

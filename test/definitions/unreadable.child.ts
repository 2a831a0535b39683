/** Gives up root's rights and asks an index over `{base}/repo/{models,auto}`, of which some is not to be read. */
import { join } from "node:path";
import { openDefinitionIndex } from "../../src/definitions/index.ts";
import { DefinitionReadError } from "../../src/errors.ts";

const [, , base = "", ...questions] = process.argv;
process.setgid?.(65534);
process.setuid?.(65534);

const told = (error: unknown): string => (error instanceof DefinitionReadError ? error.errno : String(error));
const roots = ["models", "auto"].map((name) => ({ name, dir: join(base, "repo", name) }));
const index = await openDefinitionIndex({ roots, indexDir: join(base, "index") });
for (const question of questions) {
  const [type = "", name = "", root] = question.split(" ");
  const o = root === undefined ? {} : { roots: [root] };
  const found = type === "*" ? index.findByNameGlobal(name, o) : index.findByName(type, name, o);
  console.log(`${question}: ${await found.then((entry) => (entry === null ? "not found" : "found"), told)}`);
}
// Nobody asks for the others: they come in the background.
for (const end = Date.now() + 10_000; index.stats().types["z"]?.freshness !== "exact" && Date.now() < end; ) {
  await new Promise((resolve) => setTimeout(resolve, 5));
}
console.log(`in the background: ${index.stats().types["z"]?.freshness}`);
await index.close();
const hidden = [{ name: "hidden", dir: join(base, "repo/models/shut/away") }];
const opened = openDefinitionIndex({ roots: hidden, indexDir: join(base, "index") });
console.log(`a root out of reach: ${await opened.then((index) => index.close().then(() => "opened"), told)}`);

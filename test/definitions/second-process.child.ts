/** Does to a repository what it is told to, line by line, and answers in JSON. */
import { join } from "node:path";
import { createInterface } from "node:readline";
import { createDefinitionRepository, openDefinitionIndex } from "../../src/definitions/index.ts";
import { thingCodec } from "../support/things.ts";

const [base = ""] = process.argv.slice(2);
const TYPE = "swamp/worker";
const index = await openDefinitionIndex({
  roots: ["models", "auto"].map((name) => ({ name, dir: join(base, name) })),
  indexDir: join(base, "index"),
});
const repository = createDefinitionRepository(index, { codec: thingCodec, writeRoot: "auto" });
console.log("ready");

async function answer(what: string, name: string): Promise<unknown> {
  switch (what) {
    case "slot":
      return index.stats().slot;
    case "find":
      return (await index.findByName(TYPE, name))?.path ?? null;
    case "save":
      await repository.save(TYPE, { id: name, name, version: 1 });
      return true;
    case "delete":
      await repository.delete(TYPE, name);
      return true;
    default: {
      const { definition, created } = await repository.resolveOrCreate(TYPE, name, () => ({
        id: `there-${name}`,
        name,
        version: 1,
      }));
      return { id: definition.id, created };
    }
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  if (line === "end") break;
  const [what = "", name = ""] = line.split(" ");
  console.log(JSON.stringify(await answer(what, name)));
}
await index.close();
process.exit(0);

/** One of several processes that use a repository at once. Arguments: what to do, the base directory, and what that needs. */
import { join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { openDefinitionIndex } from "../../src/definitions/index.ts";
import { createDefinitionRepository } from "../../src/definitions/repository.ts";
import { DefinitionConflictError } from "../../src/errors.ts";
import { withSteps } from "../support/fs-steps.ts";
import { thingCodec } from "../support/things.ts";

const [what = "", base = "", ...rest] = process.argv.slice(2);
const models = join(base, "models");
const index = await openDefinitionIndex({ roots: [{ name: "models", dir: models }], indexDir: join(base, "index") });
const repository = createDefinitionRepository(index, {
  codec: thingCodec,
  writeRoot: "models",
  ...(what === "crash" ? {} : { durability: "written" as const }),
});
const type = "swamp/worker";
const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
console.log("ready");
await input.next();

const jobs: Record<string, () => Promise<void>> = {
  /** Resolves or creates name-0 … name-{count - 1}, and says what it got. */
  async names() {
    for (let n = 0; n < Number(rest[0]); n++) {
      const name = `name-${n}`;
      const create = () => ({ id: repository.nextId(), name, version: 1 });
      const { definition, created, path } = await repository.resolveOrCreate(type, name, create);
      console.log(JSON.stringify({ name, id: definition.id, created, path }));
    }
  },
  /** Saves a new definition of the name given, once; says whether it was this one's. */
  async claim() {
    const claimed = await repository.save(type, { id: repository.nextId(), name: rest[0] ?? "", version: 1 }).then(
      () => "mine",
      (error) => (error instanceof DefinitionConflictError ? "conflict" : String(error)),
    );
    console.log(claimed);
  },
  /** Renames one definition again and again. */
  async rename() {
    const [id = "", prefix = "", count = ""] = rest;
    for (let n = 0; n < Number(count); n++) {
      await repository.save(type, { id, name: `${prefix}-${n % 7}`, version: n });
    }
  },
  /** Saves the definition, and dies before the step of the number given. */
  async crash() {
    const [id = "", name = "", step = ""] = rest;
    await withSteps(
      models,
      ({ number }) => {
        if (number === Number(step)) process.kill(process.pid, "SIGKILL");
      },
      () => repository.save(type, { id, name, version: 2, note: "new" }),
    );
  },
};
await jobs[what]?.();
await index.close();
process.exit(0);

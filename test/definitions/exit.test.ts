/** A process that exits in the middle of anything ends, and the next finds all in order. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openDefinitionIndex } from "../../src/definitions/index.ts";
import { isLong, runChild, tempDir } from "../support/spawn.ts";

const ROUNDS = isLong ? 300 : 12;

test("process.exit at any moment, with the index open", async () => {
  const base = tempDir();
  for (const [type, prefix] of [
    ["a", "a"],
    ["b/c", "b"],
  ] as const) {
    mkdirSync(join(base, "m", type), { recursive: true });
    for (let n = 0; n < 20; n++)
      writeFileSync(join(base, "m", type, `f${n}.yaml`), `id: ${prefix}${n}\nname: ${prefix}-${n}\n`);
  }
  // A thread that is ended within a transaction of LMDB waits for its own lock for ever, and its process for it.
  for (let round = 0; round < ROUNDS; round++) {
    await runChild(new URL("./exit.child.ts", import.meta.url), [base, String(60 + ((round * 67) % 400))]);
  }
  await using index = await openDefinitionIndex({
    roots: [{ name: "m", dir: join(base, "m") }],
    indexDir: join(base, "index"),
  });
  expect((await index.findById("b/c", "b7"))?.name).toBe("b-7");
  expect((await index.findByName("a", "a-19"))?.id).toBe("a19");
});

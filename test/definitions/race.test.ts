import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { openDefinitionIndex } from "../../src/definitions/index.ts";
import type { DefinitionIndex } from "../../src/definitions/model.ts";
import { DefinitionProblemError } from "../../src/errors.ts";
import { isLong, spawnChild, tempDir } from "../support/spawn.ts";

interface Ask {
  by: "name" | "id";
  type: string | null;
  key: string;
  want: string | null;
}

const CHANGES = isLong ? 20_000 : 2_000;
const SEED = Number(process.env["TUSSOCK_SEED"] ?? 20261129);

function open(base: string, watch = true): Promise<DefinitionIndex> {
  return openDefinitionIndex({
    roots: ["models", "auto"].map((name) => ({ name, dir: join(base, "repo", name) })),
    indexDir: join(base, "index"),
    boundary: join(base, "repo"),
    watch,
  });
}

async function answer(index: DefinitionIndex, { by, type, key }: Ask): Promise<string | null> {
  try {
    const found =
      type === null
        ? await (by === "name" ? index.findByNameGlobal(key) : index.findByIdGlobal(key))
        : await (by === "name" ? index.findByName(type, key) : index.findById(type, key));
    return found?.path ?? null;
  } catch (error) {
    if (error instanceof DefinitionProblemError) return "problem";
    throw error;
  }
}

/** Follows the editor's changes with lookups; returns what was wrong. */
async function follow(index: DefinitionIndex, base: string, changes: number, seed: number): Promise<string[]> {
  const editor = spawnChild(new URL("./editor.child.ts", import.meta.url), [base, String(changes), String(seed)]);
  const wrong: string[] = [];
  let change = 0;
  for await (const line of editor.lines) {
    change++;
    const { what, asks } = JSON.parse(line) as { what: string; asks: Ask[] };
    for (const ask of asks) {
      const got = await answer(index, ask);
      const want = ask.want === null || ask.want === "problem" ? ask.want : join(base, "repo", ask.want);
      if (got !== want) wrong.push(`change ${change} (${what}): ${JSON.stringify(ask)}: got ${got}`);
    }
    editor.send("go on");
  }
  const { code, stderr } = await editor.exit;
  expect(stderr).toBe("");
  expect(code).toBe(0);
  expect(change).toBe(changes);
  return wrong;
}

describe("a lookup is right about every change that was complete before it began", () => {
  test(`${CHANGES} changes of all kinds by another process, none wrong`, async () => {
    const base = tempDir();
    mkdirSync(join(base, "repo"));
    await using index = await open(base);
    expect(await follow(index, base, CHANGES, SEED)).toEqual([]);
    expect(index.stats().freshness).toBe("exact");
  });

  test("with the index opened anew between them", async () => {
    const base = tempDir();
    mkdirSync(join(base, "repo"));
    for (let round = 0; round < 4; round++) {
      await using index = await open(base);
      expect(await follow(index, base, 50, round)).toEqual([]);
      // The next editor begins with an empty list of its own.
      const { rmSync } = await import("node:fs");
      rmSync(join(base, "repo"), { recursive: true });
      mkdirSync(join(base, "repo"));
    }
  });
});

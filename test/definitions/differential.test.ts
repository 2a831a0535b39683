import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type DefinitionIndex, openDefinitionIndex } from "../../src/definitions/index.ts";
import { DefinitionProblemError } from "../../src/errors.ts";
import {
  answerOf,
  byBytes,
  type ObviousReading,
  type ObviousRoot,
  readObviously,
  softProblemsOf,
} from "../support/obvious-reader.ts";
import {
  applyEdit,
  type Edit,
  IDS,
  layOut,
  MAX_FILE_BYTES,
  NAMES,
  randomEdit,
  randomTree,
  TYPES,
} from "../support/random-tree.ts";
import { isDeno, isLong, tempDir } from "../support/spawn.ts";

const QUESTIONED_TYPES = [...TYPES, "deep/a/b/c", "swamp/linked-type", "nowhere"];
const QUESTIONED_NAMES = [...NAMES, "wob", "do", "fresh", "decoy", "nobody"];
const QUESTIONED_IDS = [...IDS, "decoy", "nobody"];

interface Question {
  by: "name" | "id";
  key: string;
  type: string | null;
  roots?: string[];
}

const questions: Question[] = [null, ...QUESTIONED_TYPES]
  .flatMap((type) => [
    ...QUESTIONED_NAMES.map((key): Question => ({ by: "name", key, type })),
    ...QUESTIONED_IDS.map((key): Question => ({ by: "id", key, type })),
    { by: "name", key: "web", type, roots: ["auto"] } as const,
    { by: "name", key: "web", type, roots: ["auto", "models"] } as const,
  ])
  .map((question) => ({ ...question }) as Question);

type Answer = { found: string } | { problem: string } | null;

async function ask(index: DefinitionIndex, { by, key, type, roots }: Question): Promise<Answer> {
  const o = roots === undefined ? {} : { roots };
  try {
    const entry =
      type === null
        ? await (by === "name" ? index.findByNameGlobal(key, o) : index.findByIdGlobal(key, o))
        : await (by === "name" ? index.findByName(type, key, o) : index.findById(type, key, o));
    return entry === null ? null : { found: entry.path };
  } catch (error) {
    if (error instanceof DefinitionProblemError) return { problem: error.path };
    throw error;
  }
}

/** Every question, and both listings, against a reading of everything. */
async function expectSameAnswers(index: DefinitionIndex, reading: ObviousReading, asked: Question[]): Promise<void> {
  for (const question of asked) {
    const answer = await ask(index, question);
    const right = answerOf(reading, question);
    if (JSON.stringify(answer) !== JSON.stringify(right)) {
      throw new Error(`${JSON.stringify(question)}: ${JSON.stringify(answer)} instead of ${JSON.stringify(right)}`);
    }
  }
}

async function expectSameListings(index: DefinitionIndex, reading: ObviousReading): Promise<void> {
  const entries = [];
  for await (const { stamp: _, ...entry } of index.entries()) entries.push(entry);
  const right = reading.entries.map(({ document: _, ...entry }) => entry).sort((a, b) => byBytes(a.path, b.path));
  expect(entries).toEqual(right);
  const problems: string[] = [];
  for await (const { path, kind } of index.problems()) problems.push(`${path} ${kind}`);
  const hard = reading.problems.map(({ path, kind }) => `${path} ${kind}`);
  const soft = softProblemsOf(reading).map(({ path, kind }) => `${path} ${kind}`);
  expect(problems.sort()).toEqual([...hard, ...soft].sort());
}

async function follow(tree: Edit[], edits: Edit[], rounds: { reopen: boolean }): Promise<void> {
  const base = tempDir();
  const { boundary, roots } = layOut(base);
  const open = (): Promise<DefinitionIndex> =>
    openDefinitionIndex({ roots, boundary, indexDir: join(base, "index"), maxFileBytes: MAX_FILE_BYTES });
  const read = (): ObviousReading => readObviously(roots as ObviousRoot[], { boundary, maxFileBytes: MAX_FILE_BYTES });
  for (const edit of tree) applyEdit(base, edit);
  let index = await open();
  try {
    await expectSameAnswers(index, read(), questions);
    for (const [n, edit] of edits.entries()) {
      if (rounds.reopen) await index.close();
      applyEdit(base, edit);
      if (rounds.reopen) index = await open();
      // What was asked for first must not matter.
      const rotated = [
        ...questions.slice((n * 37) % questions.length),
        ...questions.slice(0, (n * 37) % questions.length),
      ];
      const reading = read();
      await expectSameAnswers(index, reading, rotated);
      await expectSameListings(index, reading);
    }
  } finally {
    await index.close();
  }
}

const runs = isLong ? 500 : isDeno ? 6 : 12;

describe("after every edit, every answer is that of a reading of everything", () => {
  it("while the index is open", async () => {
    await fc.assert(
      fc.asyncProperty(randomTree, fc.array(randomEdit, { minLength: 1, maxLength: 15 }), (tree, edits) =>
        follow(tree, edits, { reopen: false }),
      ),
      { numRuns: runs },
    );
  });

  it("when the index was closed meanwhile", async () => {
    await fc.assert(
      fc.asyncProperty(randomTree, fc.array(randomEdit, { minLength: 1, maxLength: 4 }), (tree, edits) =>
        follow(tree, edits, { reopen: true }),
      ),
      { numRuns: Math.ceil(runs / 2) },
    );
  });
});

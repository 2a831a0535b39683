import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { copyFixture, expectedOf } from "../support/fixtures.ts";
import { answerOf, type ObviousRoot, readObviously } from "../support/obvious-reader.ts";

interface Expected {
  entries: {
    root: string;
    path: string;
    type: string;
    id: string;
    name: string;
    declaredType: string | null;
    naming: string;
  }[];
  problems: { path: string; kind: string }[];
  findByName: Record<string, string>;
  findById: Record<string, string>;
}

const expected = expectedOf<Expected>("definitions");

function corpus(): { repo: string; roots: ObviousRoot[] } {
  const repo = join(copyFixture("definitions"), "repo");
  const roots = [
    { name: "models", dir: join(repo, "models") },
    { name: "auto", dir: join(repo, ".swamp/auto-definitions") },
  ];
  return { repo, roots };
}

describe("the obvious reader, against which the index is compared", () => {
  it("gives the entries, problems and winners of the corpus", () => {
    const { repo, roots } = corpus();
    const reading = readObviously(roots, { boundary: repo });
    const relative = (path: string): string => path.slice(repo.length + 1);
    expect(reading.entries.map(({ document: _, ...entry }) => ({ ...entry, path: relative(entry.path) }))).toEqual(
      expected.entries,
    );
    expect(reading.problems.map(({ path, kind }) => ({ path: relative(path), kind }))).toEqual(expected.problems);
    for (const by of ["findByName", "findById"] as const) {
      for (const [question, path] of Object.entries(expected[by])) {
        const { type, key } = split(question);
        const answer = answerOf(reading, { by: by === "findByName" ? "name" : "id", key, type });
        expect(answer, question).toEqual({ found: join(repo, path) });
      }
    }
  });
});

function split(question: string): { type: string; key: string } {
  const at = question.indexOf(" ");
  return { type: question.slice(0, at), key: question.slice(at + 1) };
}

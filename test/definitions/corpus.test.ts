import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type DefinitionIndex, openDefinitionIndex } from "../../src/definitions/index.ts";
import { DefinitionProblemError } from "../../src/errors.ts";
import { copyFixture, expectedOf } from "../support/fixtures.ts";
import { answerOf, byBytes, type ObviousRoot, readObviously, softProblemsOf } from "../support/obvious-reader.ts";

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
const SOFT = new Set(["mismatched", "duplicate-name", "duplicate-id"]);

function corpus(): { repo: string; roots: ObviousRoot[]; indexDir: string } {
  const base = copyFixture("definitions");
  const repo = join(base, "repo");
  const roots = [
    { name: "models", dir: join(repo, "models") },
    { name: "auto", dir: join(repo, ".swamp/auto-definitions") },
  ];
  return { repo, roots, indexDir: join(base, "index") };
}

/** All that the index says, with paths relative to the repository, as `expected.json` has it. */
async function sayings(index: DefinitionIndex, repo: string): Promise<Expected & { soft: string[] }> {
  const relative = (path: string): string => path.slice(repo.length + 1);
  const said: Expected & { soft: string[] } = { entries: [], problems: [], findByName: {}, findById: {}, soft: [] };
  for await (const { stamp: _, ...entry } of index.entries())
    said.entries.push({ ...entry, path: relative(entry.path) });
  for await (const { path, kind } of index.problems()) {
    if (SOFT.has(kind)) said.soft.push(`${relative(path)} ${kind}`);
    else said.problems.push({ path: relative(path), kind });
  }
  for (const { type, name, id } of said.entries) {
    said.findByName[`${type} ${name}`] = relative((await index.findByName(type, name))?.path ?? "");
    said.findById[`${type} ${id}`] = relative((await index.findById(type, id))?.path ?? "");
  }
  return said;
}

/** The same from a reading of everything. */
function readings(roots: ObviousRoot[], repo: string): Expected & { soft: string[] } {
  const relative = (path: string): string => path.slice(repo.length + 1);
  const reading = readObviously(roots, { boundary: repo });
  const said: Expected & { soft: string[] } = {
    entries: reading.entries.map(({ document: _, ...entry }) => ({ ...entry, path: relative(entry.path) })),
    problems: reading.problems.map(({ path, kind }) => ({ path: relative(path), kind })),
    findByName: {},
    findById: {},
    soft: softProblemsOf(reading).map(({ path, kind }) => `${relative(path)} ${kind}`),
  };
  for (const { type, name, id } of reading.entries) {
    for (const [by, key] of [
      ["name", name],
      ["id", id],
    ] as const) {
      const answer = answerOf(reading, { by, key, type });
      if (answer === null || !("found" in answer)) throw new Error(`${type} ${key} is there`);
      said[by === "name" ? "findByName" : "findById"][`${type} ${key}`] = relative(answer.found);
    }
  }
  return said;
}

function inOrder(said: Expected & { soft?: string[] }) {
  return {
    ...said,
    entries: [...said.entries].sort((a, b) => byBytes(a.path, b.path)),
    problems: [...said.problems].sort((a, b) => byBytes(a.path, b.path)),
    ...(said.soft === undefined ? {} : { soft: [...said.soft].sort() }),
  };
}

describe("the obvious reader, against which the index is compared", () => {
  it("gives the entries, problems and winners of the corpus", () => {
    const { repo, roots } = corpus();
    const { soft: _, ...said } = readings(roots, repo);
    expect(said).toEqual(expected);
  });
});

/** Every way in which a file of the corpus differs from its neighbours is a way in which one may change. */
const changes: Record<string, (at: (path: string) => string) => void> = {
  "a name is edited in place, at the same size": (at) => edit(at("swamp/echo/hello.yaml"), "hello", "hallo"),
  "… and its times put back": (at) => {
    const { atime, mtime } = statSync(at("swamp/echo/no-type.yaml"));
    edit(at("swamp/echo/no-type.yaml"), "no-type", "on-type");
    utimesSync(at("swamp/echo/no-type.yaml"), atime, mtime);
  },
  "an id is edited": (at) => edit(at("swamp/echo/raw-type.yaml"), "00000029", "00000099"),
  "a declared type is taken out": (at) => edit(at("swamp/echo/moved-type.yaml"), "type: aws/s3/bucket\n", ""),
  "a UUID-named file gets its name": (at) =>
    renameSync(at("swamp/echo/00000002-1111-4222-8333-000000000002.yaml"), at("swamp/echo/legacy-one.yaml")),
  "a named file gets its UUID": (at) =>
    renameSync(at("aws/ec2/everything.yaml"), at("aws/ec2/00000025-1111-4222-8333-000000000025.yaml")),
  "swapped files are swapped back": (at) => {
    renameSync(at("swamp/echo/swap-a.yaml"), at("swamp/echo/between"));
    renameSync(at("swamp/echo/swap-b.yaml"), at("swamp/echo/swap-a.yaml"));
    renameSync(at("swamp/echo/between"), at("swamp/echo/swap-b.yaml"));
  },
  "a file is copied": (at) => copyFileSync(at("@acme/db/prod.yaml"), at("@acme/db/prod-copy.yaml")),
  "the first of two copies is removed": (at) => rmSync(at("swamp/echo/a-copy.yaml")),
  "the named one of two is removed": (at) => rmSync(at("swamp/echo/twice.yaml")),
  "a broken file is mended": (at) =>
    writeFileSync(at("swamp/yaml/broken-syntax.yaml"), "id: mended\nname: broken-syntax\n"),
  "a good file is broken": (at) => appendFileSync(at("swamp/yaml/json.yaml"), "}"),
  "a file is emptied": (at) => writeFileSync(at("swamp/yaml/flow.yaml"), ""),
  "an empty file is filled": (at) => writeFileSync(at("swamp/yaml/empty.yaml"), "name: filled\nid: filled\n"),
  "the second document goes": (at) =>
    writeFileSync(
      at("swamp/yaml/two-documents.yaml"),
      readFileSync(at("swamp/yaml/two-documents.yaml"), "utf8").split("---\n")[0] ?? "",
    ),
  "a file's extension changes": (at) => renameSync(at("swamp/yaml/bom.yaml"), at("swamp/yaml/bom.yml")),
  "another's becomes right": (at) => renameSync(at("swamp/yaml/upper.YAML"), at("swamp/yaml/upper.yaml")),
  "a backup becomes the file": (at) => renameSync(at("swamp/yaml/backup.yaml~"), at("swamp/yaml/backup.yaml")),
  "a link is turned to another file": (at) => relink("../echo/hello.yaml", at("swamp/link/linked.yaml")),
  "a dangling link finds its target": (at) =>
    writeFileSync(at("swamp/link/nowhere.yaml"), "id: somewhere\nname: somewhere\n"),
  "an escaping link comes home": (at) => relink("../echo/no-type.yaml", at("swamp/link/escape.yaml")),
  "a link's target is written over": (at) => edit(at("../extensions/vendor.yaml"), "vendor", "seller"),
  "a directory link gets a file's name": (at) => {
    rmSync(at("swamp/link/echo-dir"));
    symlinkSync("../echo", at("swamp/link/echo-dir.yaml"));
  },
  "a type moves below another": (at) => renameSync(at("aws/ec2/vpc"), at("swamp/vpc")),
  "a directory that looks like a file goes": (at) => rmSync(at("swamp/dir.yaml"), { recursive: true }),
  "a type appears, several levels deep": (at) => {
    mkdirSync(at("new/a/b"), { recursive: true });
    writeFileSync(at("new/a/b/c.yaml"), "id: c\nname: c\n");
  },
  "the other root loses a type": (at) => rmSync(at("../.swamp/auto-definitions/swamp/worker"), { recursive: true }),
  "only a mode changes": (at) => chmodSync(at("swamp/yaml/comments.yaml"), 0o600),
  "only a time changes": (at) => utimesSync(at("swamp/yaml/crlf.yaml"), 1, 1),
};

function edit(path: string, from: string, to: string): void {
  const text = readFileSync(path, "utf8");
  if (!text.includes(from)) throw new Error(`${path} does not hold ${from}`);
  writeFileSync(path, text.replace(from, to));
}

function relink(target: string, path: string): void {
  rmSync(path);
  symlinkSync(target, path);
}

describe.each([{ watch: true }, { watch: false }])("the index over the corpus, with watch $watch", ({ watch }) => {
  it("gives the entries, problems and winners of the corpus", async () => {
    const { repo, roots, indexDir } = corpus();
    const index = await openDefinitionIndex({ roots, boundary: repo, indexDir, watch });
    try {
      const { soft, ...said } = await sayings(index, repo);
      expect(inOrder(said)).toEqual(inOrder(expected));
      expect(soft.sort()).toEqual(readings(roots, repo).soft.sort());
      for (const { path, kind } of expected.problems) {
        const [, type = "", name = ""] = /^models\/(.+)\/(.+)\.yaml$/.exec(path) ?? [];
        const error = await index.findByName(type, name).catch((e: unknown) => e);
        expect(error, path).toBeInstanceOf(DefinitionProblemError);
        expect((error as DefinitionProblemError).problem.kind).toBe(kind);
      }
    } finally {
      await index.close();
    }
  });

  it("gives what a fresh reading gives when it was closed, the files changed in every way, and it was opened again", async () => {
    const { repo, roots, indexDir } = corpus();
    const open = () => openDefinitionIndex({ roots, boundary: repo, indexDir, watch });
    const at = (path: string): string => join(repo, "models", path);
    await (await open()).close();
    let index = await open();
    try {
      await sayings(index, repo);
      await index.close();
      const before = readings(roots, repo);
      for (const change of Object.values(changes)) change(at);
      expect(readings(roots, repo)).not.toEqual(before);
      index = await open();
      expect(inOrder(await sayings(index, repo))).toEqual(inOrder(readings(roots, repo)));
    } finally {
      await index.close();
    }
  });
});

describe("an open, exact index over the corpus", () => {
  it("gives what a fresh reading gives after each of these changes", async () => {
    const { repo, roots, indexDir } = corpus();
    const index = await openDefinitionIndex({ roots, boundary: repo, indexDir });
    try {
      await sayings(index, repo);
      for (const [what, change] of Object.entries(changes)) {
        change((path) => join(repo, "models", path));
        expect(inOrder(await sayings(index, repo)), what).toEqual(inOrder(readings(roots, repo)));
      }
    } finally {
      await index.close();
    }
  });
});

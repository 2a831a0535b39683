import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, readFileSync, realpathSync, renameSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { parse } from "yaml";
import type { ProblemKind } from "../../src/errors.ts";
import {
  documentOf,
  type Examined,
  type ExaminedEntry,
  type ExamineOptions,
  examineFile,
} from "../../src/scan/examine.ts";
import { DEFAULT_KEYS } from "../../src/scan/model.ts";
import { readStamp, STAMP_BYTES, sameStamp, simulateGranularity, stampSize } from "../../src/scan/stamp.ts";
import { copyFixture, expectedOf } from "../support/fixtures.ts";
import { runChild, tempDir } from "../support/spawn.ts";

const options: ExamineOptions = {
  keys: DEFAULT_KEYS,
  maxFileBytes: 1 << 20,
  boundary: null,
  documents: true,
  maxDocumentBytes: 1 << 16,
};

const HEAD = "id: a-1\nname: web\n";

/** What is said of a file with this content. */
function examineText(content: string | Uint8Array, with_: Partial<ExamineOptions> = {}): Examined {
  const path = join(tempDir(), "file.yaml");
  writeFileSync(path, content);
  return examineFile(path, { ...options, ...with_ });
}

function entryOf(content: string | Uint8Array, with_: Partial<ExamineOptions> = {}): ExaminedEntry {
  const examined = examineText(content, with_);
  expect(examined).toMatchObject({ kind: "entry" });
  return examined as ExaminedEntry;
}

interface Expected {
  entries: { path: string; id: string; name: string; declaredType: string | null }[];
  problems: { path: string; kind: ProblemKind }[];
}

describe("the corpus", () => {
  const expected = expectedOf<Expected>("definitions");

  test.each([true, false])("is read as it is expected, documents asked for: %s", (documents) => {
    const repo = join(copyFixture("definitions"), "repo");
    const o = { ...options, boundary: realpathSync(repo), documents };
    for (const { path, id, name, declaredType } of expected.entries) {
      expect(examineFile(join(repo, path), o), path).toMatchObject({ kind: "entry", id, name, declaredType });
      expect(examineFile(join(repo, path), o, true), path).toMatchObject({ kind: "entry", id, name });
    }
    for (const { path, kind } of expected.problems) {
      expect(examineFile(join(repo, path), o), path).toMatchObject({ kind: "problem", problemKind: kind });
    }
  });

  test("keeps the documents that the parser gives", () => {
    const repo = join(copyFixture("definitions"), "repo");
    const o = { ...options, boundary: realpathSync(repo), maxDocumentBytes: 1 << 20 };
    for (const { path } of expected.entries) {
      const entry = examineFile(join(repo, path), o) as ExaminedEntry;
      expect(JSON.parse(entry.documentJson ?? "null"), path).toEqual(
        parse(readFileSync(join(repo, path), "utf8"), { merge: true }),
      );
    }
  });
});

describe("what lies at a path", () => {
  test("is absent, a directory, or a file that may be a symbolic link", () => {
    const dir = realpathSync(tempDir());
    mkdirSync(join(dir, "sub.yaml"));
    symlinkSync("sub.yaml", join(dir, "to-sub.yaml"));
    writeFileSync(join(dir, "a.yaml"), HEAD);
    symlinkSync("a.yaml", join(dir, "link.yaml"));
    const look = (name: string, isRegular = false) => examineFile(join(dir, name), options, isRegular);
    expect(look("none.yaml")).toEqual({ kind: "absent" });
    expect(look("none.yaml", true)).toEqual({ kind: "absent" });
    expect(look("a.yaml/below.yaml")).toEqual({ kind: "absent" });
    expect(look(`${"x".repeat(5_000)}.yaml`)).toEqual({ kind: "absent" });
    expect(look(`${"x".repeat(5_000)}.yaml`, true)).toEqual({ kind: "absent" });
    expect(look("nul\0.yaml")).toEqual({ kind: "absent" });
    expect(look("sub.yaml")).toEqual({ kind: "directory" });
    expect(look("to-sub.yaml")).toEqual({ kind: "directory" });
    expect(look("a.yaml")).toMatchObject({ kind: "entry", symlink: false });
    expect(look("link.yaml")).toMatchObject({ kind: "entry", symlink: true });
  });

  test("is seen anew when it is not what the listing said", () => {
    const dir = realpathSync(tempDir());
    mkdirSync(join(dir, "sub.yaml"));
    writeFileSync(join(dir, "a.txt"), HEAD);
    symlinkSync("a.txt", join(dir, "link.yaml"));
    symlinkSync("none", join(dir, "dangling.yaml"));
    execFileSync("mkfifo", [join(dir, "fifo.yaml")]);
    const look = (name: string) => examineFile(join(dir, name), options, true);
    expect(look("sub.yaml")).toEqual({ kind: "directory" });
    expect(look("link.yaml")).toMatchObject({ kind: "entry", symlink: true });
    expect(look("dangling.yaml")).toMatchObject({ problemKind: "dangling-symlink" });
    expect(look("fifo.yaml")).toMatchObject({ problemKind: "invalid", message: "not a regular file" });
  });

  test("is stamped as its path is", () => {
    const path = join(tempDir(), "a.yaml");
    writeFileSync(path, HEAD);
    const stamp = new Uint8Array(STAMP_BYTES);
    readStamp(path, false, stamp, 0);
    expect((examineFile(path, options) as ExaminedEntry).stamp).toEqual(stamp);
    const link = join(tempDir(), "link.yaml");
    symlinkSync(path, link);
    expect((examineFile(link, options) as ExaminedEntry).stamp).toEqual(stamp);
  });

  test("may be a FIFO, a socket or a device, none of which is opened", () => {
    const dir = tempDir();
    const fifo = join(dir, "fifo.yaml");
    execFileSync("mkfifo", [fifo]);
    symlinkSync("/dev/zero", join(dir, "device.yaml"));
    symlinkSync("fifo.yaml", join(dir, "to-fifo.yaml"));
    for (const name of ["fifo.yaml", "device.yaml", "to-fifo.yaml"]) {
      expect(examineFile(join(dir, name), options)).toMatchObject({
        problemKind: "invalid",
        message: "not a regular file",
      });
    }
  });

  test("is not opened when it is a FIFO: a writer that waits for a reader goes on waiting", async () => {
    const fifo = join(tempDir(), "fifo.yaml");
    execFileSync("mkfifo", [fifo]);
    const writer = spawn("sh", ["-c", 'echo "id: a-1" > "$0"', fifo], { stdio: "ignore" });
    const exit = new Promise((resolve) => writer.once("exit", resolve));
    // Until it hangs in open(2), where the system tells.
    for (let i = 0; i < 100 && !/wait_for_partner|fifo_open/.test(wchan(writer.pid!)); i++) {
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    examineFile(fifo, options);
    expect(await readFile(fifo, "utf8")).toBe("id: a-1\n");
    expect(await exit).toBe(0);
  });
});

function wchan(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/wchan`, "utf8");
  } catch {
    return "";
  }
}

describe("a symbolic link", () => {
  function linked(target: string, o: Partial<ExamineOptions> = {}) {
    const top = realpathSync(tempDir());
    const repo = join(top, "repo");
    mkdirSync(join(repo, "models"), { recursive: true });
    mkdirSync(join(top, "repo-beside"));
    for (const path of ["repo/inside.yaml", "outside.yaml", "repo-beside/x.yaml"]) writeFileSync(join(top, path), HEAD);
    symlinkSync("../../outside.yaml", join(repo, "models", "hop.yaml"));
    symlinkSync("..", join(repo, "models", "up"));
    const link = join(repo, "models", "link.yaml");
    symlinkSync(target.replace("{top}", top), link);
    return examineFile(link, { ...options, boundary: repo, ...o });
  }

  test.each(["../inside.yaml", "{top}/repo/inside.yaml", "../../repo/inside.yaml", "up/inside.yaml"])(
    "to %s is followed",
    (target) => {
      expect(linked(target)).toMatchObject({ kind: "entry", symlink: true });
    },
  );

  test.each(["../../outside.yaml", "{top}/outside.yaml", "hop.yaml", "up/../outside.yaml", "../../repo-beside/x.yaml"])(
    "to %s leaves the boundary",
    (target) => {
      expect(linked(target)).toMatchObject({ problemKind: "outside-boundary", symlink: true });
      expect(linked(target, { boundary: null })).toMatchObject({ kind: "entry" });
      expect(linked(target, { boundary: "/" })).toMatchObject({ kind: "entry" });
    },
  );

  test.each(["nowhere.yaml", "link.yaml", "../inside.yaml/x"])("to %s dangles", (target) => {
    expect(linked(target)).toMatchObject({ problemKind: "dangling-symlink", symlink: true });
  });

  test("has the stamp of its target, so that a swap of the target shows", () => {
    const dir = realpathSync(tempDir());
    for (const name of ["v1", "v2"]) {
      mkdirSync(join(dir, name));
      writeFileSync(join(dir, name, "a.yaml"), HEAD);
      utimesSync(join(dir, name, "a.yaml"), 1_000, 1_000);
    }
    symlinkSync("v1", join(dir, "..data"));
    symlinkSync("..data/a.yaml", join(dir, "a.yaml"));
    const before = examineFile(join(dir, "a.yaml"), options) as ExaminedEntry;
    symlinkSync("v2", join(dir, "..new"));
    renameSync(join(dir, "..new"), join(dir, "..data"));
    const after = examineFile(join(dir, "a.yaml"), options) as ExaminedEntry;
    expect(sameStamp(before.stamp, 0, after.stamp, 0)).toBe(false);
  });
});

describe("a file is a problem", () => {
  test("over the size allowed, and not at it", () => {
    const size = HEAD.length;
    expect(examineText(HEAD, { maxFileBytes: size })).toMatchObject({ kind: "entry" });
    expect(examineText(HEAD, { maxFileBytes: size - 1 })).toMatchObject({
      problemKind: "too-large",
      message: `${size} bytes, where at most ${size - 1} are read`,
    });
  });

  test.each<[string, string, ProblemKind, number, number]>([
    ["a mapping left open", `${HEAD}a: {b\n`, "syntax", 4, 1],
    ["a duplicate key", `${HEAD}a: 1\nb:\n  - {c: 1, c: 2}\n`, "syntax", 5, 12],
    ["a second document", `${HEAD}---\nid: b\n`, "syntax", 3, 1],
    ["an alias without an anchor", `id: a-1\nname: *x\n`, "syntax", 2, 7],
    ["a merge key without a mapping", `${HEAD}<<: 1\n`, "syntax", 0, 0],
    ["an empty file", "", "invalid", 0, 0],
    ["a list", "- a\n", "invalid", 0, 0],
    ["a text", "a\n", "invalid", 0, 0],
    ["an id that is a number", "id: 1\nname: web\n", "invalid", 0, 0],
    ["an empty id", "id: ''\nname: web\n", "invalid", 0, 0],
    ["a name with a NUL", 'id: a-1\nname: "a\\0b"\n', "invalid", 0, 0],
    ["a name that is a list", "id: a-1\nname: [web]\n", "invalid", 0, 0],
  ])("with %s", (_, text, problemKind, line, column) => {
    expect(examineText(text)).toMatchObject({ kind: "problem", problemKind, line, column });
  });

  test.each([
    "__proto__:\n  id: a-1\n  name: web\n",
    '{"__proto__": {"id": "a-1", "name": "web"}}\n',
    "<<: {__proto__: {id: a-1, name: web}}\n",
  ])("when id and name come from a prototype: %j", (text) => {
    expect(examineText(text)).toMatchObject({ problemKind: "invalid", message: 'it has no "id"' });
    expect(({} as Record<string, unknown>)["id"]).toBeUndefined();
  });

  test("whatever the YAML in it may do to its parser, and in bounded time", () => {
    const many = (count: number, line: (i: number) => string): string =>
      Array.from({ length: count }, (_, i) => line(i)).join("");
    const bomb = many(
      9,
      (i) =>
        `a${i}: &a${i} [${
          i === 0
            ? "x"
            : Array(9)
                .fill(`*a${i - 1}`)
                .join(", ")
        }]\n`,
    );
    const cases: Record<string, string> = {
      "an alias bomb": HEAD + bomb,
      "a merge bomb":
        HEAD + many(40, (i) => `a${i}: &a${i} {${i === 0 ? "x: 1" : `<<: [*a${i - 1}, *a${i - 1}], k${i}: 1`}}\n`),
      "a large mapping merged often": `${HEAD}a: &a\n${many(12_000, (i) => `  k${i}: 1\n`)}b:\n${many(99, () => "  - <<: *a\n")}`,
      "5,000 levels of brackets": `${HEAD}a: ${"[".repeat(5_000)}${"]".repeat(5_000)}\n`,
      "5,000 levels of braces": `${HEAD}a: ${"{a: ".repeat(5_000)}1${"}".repeat(5_000)}\n`,
      "5,000 levels of dashes": `${HEAD}a:\n  ${"- ".repeat(5_000)}x\n`,
      "1,000 levels of lines": HEAD + many(1_000, (i) => `${" ".repeat(i)}a:\n`),
      "10,000 errors": `${HEAD}a: [${",".repeat(10_000)}]\n`,
    };
    for (const [name, text] of Object.entries(cases)) {
      expect(examineText(text), name).toMatchObject({ kind: "problem", problemKind: "syntax" });
    }
  });

  test("for many keys only where two are the same, in time that does not grow with their square", () => {
    const keys = (count: number): string => Array.from({ length: count }, (_, i) => `k${i}: {}\n`).join("");
    expect(entryOf(HEAD + keys(5_000)).id).toBe("a-1");
    expect(examineText(`${HEAD}${keys(5_000)}k7: {}\n`)).toMatchObject({
      problemKind: "syntax",
      line: 5_003,
      column: 1,
    });
  });

  test("but not for a merge key, a tag, an anchor or a byte order mark", () => {
    expect(entryOf("a: &a {id: a-1}\n<<: *a\nname: web\n")).toMatchObject({ id: "a-1", name: "web" });
    expect(entryOf("a: &a {id: x}\nid: a-1\n<<: *a\nname: web\n")).toMatchObject({ id: "a-1" });
    expect(entryOf("id: !!str 12\nname: !mine web\n")).toMatchObject({ id: "12", name: "web" });
    expect(entryOf(`\ufeff${HEAD}`)).toMatchObject({ id: "a-1", name: "web" });
    expect(
      entryOf(Buffer.concat([Buffer.from(`${HEAD}note: "`), Buffer.from([0xff]), Buffer.from('"\n')])),
    ).toMatchObject({ documentJson: '{"id":"a-1","name":"web","note":"\ufffd"}' });
  });
});

describe("a document is kept", () => {
  const parsed = (value: unknown): Partial<ExamineOptions> => ({ parse: () => ({ id: "a-1", name: "web", value }) });
  const UNKNOWN = "{}"; // not of the common form, so that `parse` is asked

  test("when it comes back from JSON as it was", () => {
    for (const value of [
      null,
      true,
      1.5,
      -3,
      1e300,
      "",
      "ü\u2028\ud800\0",
      [],
      [1, [2]],
      {},
      { a: { b: [] }, constructor: 1 },
    ]) {
      const entry = entryOf(UNKNOWN, parsed(value));
      expect(JSON.parse(entry.documentJson ?? "")).toStrictEqual({ id: "a-1", name: "web", value });
      expect(documentOf(entry)).toStrictEqual({ id: "a-1", name: "web", value });
    }
  });

  test("aside, as it is, when it does not", () => {
    const holed = Object.assign([1], { length: 3 });
    const withProperty = Object.assign([1], { x: 1 });
    const cycle: Record<string, unknown> = {};
    cycle["self"] = cycle;
    let deep: unknown = 1;
    for (let i = 0; i < 5_000; i++) deep = [deep];
    const values = [
      Number.NaN,
      Number.POSITIVE_INFINITY,
      -0,
      undefined,
      1n,
      Symbol("x"),
      () => 1,
      new Date(0),
      new Map(),
      new Set(),
      new Uint8Array(1),
      /x/,
      new (class A {})(),
      Object.create(null),
      Object.create({ a: 1 }),
      JSON.parse('{"__proto__": 1}'),
      {
        get a() {
          return 1;
        },
      },
      Object.defineProperty({}, "a", { value: 1 }),
      { [Symbol("x")]: 1 },
      holed,
      withProperty,
      cycle,
      deep,
      { toJSON: () => 1 },
      Object("x"),
    ];
    for (const value of values) {
      for (const wrapped of [value, [value], { a: value }]) {
        const entry = entryOf(UNKNOWN, parsed(wrapped));
        expect(entry.documentJson).toBeNull();
        expect((documentOf(entry) as { value: unknown }).value).toBe(wrapped);
      }
    }
  });

  test("when it is small enough, by its bytes", () => {
    for (const text of [`${HEAD}a: üü\n`, `${HEAD}a: [üü]\n`]) {
      const bytes = Buffer.byteLength(entryOf(text).documentJson ?? "");
      expect(entryOf(text, { maxDocumentBytes: bytes }).documentJson).not.toBeNull();
      const large = entryOf(text, { maxDocumentBytes: bytes - 1 });
      expect(large.documentJson).toBeNull();
      expect(documentOf(large)).toEqual(documentOf(entryOf(text)));
    }
  });

  test("only when it is asked for", () => {
    for (const text of [HEAD, `{id: a-1, name: web}`]) {
      const entry = entryOf(text, { documents: false });
      expect(entry.documentJson).toBeNull();
      expect(entry).not.toHaveProperty("document");
    }
  });
});

describe("the caller's parser", () => {
  const calls: string[][] = [];
  afterEach(() => void calls.splice(0));
  const theirs = (text: string, path: string): unknown => {
    calls.push([text, path]);
    return { id: "theirs", name: text.trim() };
  };

  test("is asked for all that is not of the common form, and only for that", () => {
    expect(entryOf(HEAD, { parse: theirs })).toMatchObject({ id: "a-1" });
    expect(calls).toEqual([]);
    expect(entryOf("\ufeff{web}", { parse: theirs })).toMatchObject({ id: "theirs", name: "{web}" });
    expect(calls).toEqual([["{web}", expect.stringMatching(/file\.yaml$/)]]);
  });

  test("may be left for later", () => {
    expect(examineText(HEAD, { parse: theirs, deferParsing: true })).toMatchObject({ kind: "entry" });
    expect(examineText("{web}", { parse: theirs, deferParsing: true })).toMatchObject({
      kind: "deferred",
      symlink: false,
      racy: false,
    });
    expect(calls).toEqual([]);
  });

  test.each<[string, unknown, { message: string; line: number; column: number }]>([
    [
      "eemeli/yaml",
      Object.assign(new Error("bad at line 2\n\n  x\n"), { linePos: [{ line: 2, col: 5 }] }),
      { message: "bad at line 2", line: 2, column: 5 },
    ],
    [
      "js-yaml",
      Object.assign(new Error("bad"), { mark: { line: 1, column: 4 } }),
      { message: "bad", line: 2, column: 5 },
    ],
    [
      "one that says it in words",
      new Error("bad at line 2, column 5:\n  x"),
      { message: "bad at line 2, column 5:", line: 2, column: 5 },
    ],
    ["one that says the line", new Error("line 7 is bad"), { message: "line 7 is bad", line: 7, column: 0 }],
    ["one without a message", new SyntaxError(""), { message: "SyntaxError", line: 0, column: 0 }],
    ["one that throws a text", "bad", { message: "bad", line: 0, column: 0 }],
    ["one that throws nothing", undefined, { message: "undefined", line: 0, column: 0 }],
  ])("fails as %s does: a problem with the place where it has one", (_, thrown, expected) => {
    const failing = (): never => {
      throw thrown;
    };
    expect(examineText("{}", { parse: failing })).toMatchObject({ problemKind: "syntax", ...expected });
  });

  test("may recurse without end", () => {
    const recurse = (): unknown => [recurse()];
    expect(examineText("{}", { parse: recurse })).toMatchObject({
      problemKind: "syntax",
      message: /too deeply/ as unknown as string,
    });
  });
});

describe("a stamp is racy", () => {
  afterEach(() => simulateGranularity(null));

  test.each([1e6, 1e7, 1e9])(
    "on a clock of %d ns, of a file just written, and not of one that has aged",
    (granularity) => {
      simulateGranularity(granularity);
      const path = join(tempDir(), "a.yaml");
      let racy = 0;
      for (let i = 0; i < 20; i++) {
        writeFileSync(path, HEAD);
        if ((examineFile(path, options) as ExaminedEntry).racy) racy++;
      }
      expect(racy).toBeGreaterThan(0);
      const old = join(import.meta.dirname, "..", "..", "package.json");
      expect((examineFile(old, { ...options, parse: () => ({ id: "a", name: "b" }) }) as ExaminedEntry).racy).toBe(
        false,
      );
    },
  );
});

describe("a file that another process writes all the time", () => {
  const contents = [`${HEAD}a: ${"b".repeat(3_000)}\n`, `${HEAD}a: ${"c".repeat(3_000)}\n`] as const;

  /** Runs `look` until the writer has ended, and at least so often that it counts. */
  async function underWrites(how: "replace" | "in-place", look: (path: string) => void): Promise<void> {
    const path = join(tempDir(), "a.yaml");
    writeFileSync(path, contents[0]);
    let done = false;
    const writer = runChild(new URL("./writer.child.ts", import.meta.url), [path, how, "500", ...contents]).finally(
      () => {
        done = true;
      },
    );
    let looks = 0;
    for (; !done || looks < 100; looks++) {
      look(path);
      if (looks % 20 === 0) await new Promise(setImmediate);
    }
    await writer;
  }

  test("by renaming over it, is always read whole", async () => {
    const whole = contents.map((text) => (entryOf(text) as ExaminedEntry).documentJson);
    let isRegular = false;
    await underWrites("replace", (path) => {
      isRegular = !isRegular;
      expect(whole).toContain((examineFile(path, options, isRegular) as ExaminedEntry).documentJson);
    });
  });

  test("in place, has another stamp whenever it has another content, or a racy one", async () => {
    const seen = new Set<string>();
    await underWrites("in-place", (path) => {
      const [first, second, third] = [1, 2, 3].map(() => examineFile(path, options, true)) as [
        Examined,
        Examined,
        Examined,
      ];
      if (!("stamp" in first && "stamp" in second && "stamp" in third)) throw new Error("it was there all the time");
      const content = (of: typeof first) => JSON.stringify({ ...of, stamp: null, racy: null });
      seen.add(content(first));
      // A stamp is older than what is read under it: only the third tells that nothing changed until the second was read.
      // The empty file of a writer that has just begun keeps its time until the first byte has come, and gets a size then.
      const isSame = sameStamp(first.stamp, 0, third.stamp, 0) && stampSize(first.stamp, 0) > 0;
      if (isSame && !first.racy) expect(content(first)).toBe(content(second));
    });
    expect(seen.size).toBeGreaterThan(1);
  });
});

test("too many open files are an error of the process, not of the file", async () => {
  const [line] = await runChild(new URL("./shortage.child.ts", import.meta.url), [tempDir()], {
    prefix: ["prlimit", "--nofile=64:64"],
  });
  expect(JSON.parse(line!)).toEqual({ examine: "EMFILE", list: "EMFILE", after: "entry" });
});

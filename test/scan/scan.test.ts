import { execFileSync } from "node:child_process";
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join, relative } from "node:path";
import { Worker } from "node:worker_threads";
import { afterEach, describe, expect, test, vi } from "vitest";
import { parse } from "yaml";
import { DefinitionReadError, InvalidArgumentError, type ProblemKind } from "../../src/errors.ts";
import { type ScanOptions, type ScanProgress, type ScanResult, scan } from "../../src/scan/index.ts";
import { collect } from "../support/collect.ts";
import { copyFixture, expectedOf } from "../support/fixtures.ts";
import { isDeno, runChild, tempDir } from "../support/spawn.ts";
import { definition, MANY, writeDefinitions } from "./tree.ts";

afterEach(() => vi.unstubAllEnvs());

/** The ways in which files are read, and what makes a scan choose them. */
const WAYS: Record<string, ScanOptions> = { "on this thread": {}, "by two workers": { concurrency: 2 } };

const pathsOf = (results: readonly ScanResult[]): string[] =>
  results.map((result) => (result.ok ? result.entry.path : result.problem.path)).sort();

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
  problems: { path: string; kind: ProblemKind }[];
}

describe.each(Object.entries(WAYS))("%s", (_, way) => {
  test.each(["header", "document"] as const)("the corpus is read as it is expected, content %s", async (content) => {
    const repo = join(copyFixture("definitions"), "repo");
    const models = join(repo, "models");
    const results = await collect(scan(models, { ...way, boundary: repo, content }));
    const expected = expectedOf<Expected>("definitions");
    const wanted = expected.entries.filter(({ root }) => root === "models");
    const byPath = (a: { path: string }, b: { path: string }): number => (a.path < b.path ? -1 : 1);
    const entries = results.flatMap((result) => (result.ok ? [result.entry] : []));
    expect(
      entries
        .map(({ stamp: _, ...entry }) => ({ ...entry, root: "models", path: relative(repo, entry.path) }))
        .sort(byPath),
    ).toEqual(wanted.sort(byPath));
    for (const { root } of entries) expect(root).toBe(models);
    const problems = results.flatMap((result) => (result.ok ? [] : [result.problem]));
    expect(problems.map(({ path, kind }) => ({ path: relative(repo, path), kind })).sort(byPath)).toEqual(
      expected.problems.map(({ path, kind }) => ({ path, kind })).sort(byPath),
    );
    for (const problem of problems) expect(problem).toMatchObject({ root: models, message: /./ as unknown as string });
    expect(problems.find(({ path }) => path.endsWith("two-documents.yaml"))).toMatchObject({ line: 9, column: 1 });
    expect(problems.find(({ path }) => path.endsWith("empty.yaml"))).not.toHaveProperty("line");
    for (const result of results) {
      if (!result.ok) continue;
      if (content === "header") expect(result).not.toHaveProperty("document");
      else expect(result.document).toMatchObject({ id: result.entry.id, name: result.entry.name });
    }
  });

  test("the caller's parser gets what is not of the common form, on this thread", async () => {
    const dir = tempDir();
    writeDefinitions(join(dir, "some"), 10);
    writeFileSync(join(dir, "flow.yaml"), "{id: a-1, name: flow, date: 2026-01-02}");
    writeFileSync(join(dir, "broken.yaml"), "{id: a-1");
    const date = new Date(0);
    const asked: string[] = [];
    const results = await collect(
      scan(dir, {
        ...way,
        content: "document",
        parse: (text, path) => {
          asked.push(relative(dir, path));
          return { ...(parse(text) as object), date };
        },
      }),
    );
    expect(asked.sort()).toEqual(["broken.yaml", "flow.yaml"]);
    expect(results).toHaveLength(12);
    const flow = results.find((result) => result.ok && result.entry.name === "flow");
    expect((flow as { document: { date: Date } }).document.date).toBe(date);
    expect(results.filter(({ ok }) => !ok)).toMatchObject([
      { problem: { kind: "syntax", path: join(dir, "broken.yaml") } },
    ]);
  });

  test("documents that JSON cannot hold come as they were parsed", async () => {
    const dir = tempDir();
    writeFileSync(join(dir, "odd.yaml"), '{id: a-1, name: odd, a: .nan, b: -0, c: .inf, "__proto__": 1}');
    const results = await collect(scan(dir, { ...way, content: "document" }));
    const odd = results.find((result) => result.ok && result.entry.name === "odd") as {
      document: Record<string, unknown>;
    };
    expect(odd.document).toMatchObject({ a: Number.NaN, b: -0, c: Number.POSITIVE_INFINITY });
    expect(Object.hasOwn(odd.document, "__proto__")).toBe(true);
  });

  test("what vanishes meanwhile is left out, and the rest comes once each", async () => {
    const dir = tempDir();
    const kept = [...writeDefinitions(join(dir, "a"), 1_000), ...writeDefinitions(join(dir, "b", "kept"), 300)];
    const doomed = writeDefinitions(join(dir, "a"), 1_000, "doomed");
    writeDefinitions(join(dir, "b", "doomed"), 300);
    let progress: ScanProgress | undefined;
    const results: ScanResult[] = [];
    const onProgress = (now: ScanProgress): void => {
      progress = now;
    };
    for await (const result of scan(dir, { ...way, onProgress })) {
      results.push(result);
      if (results.length === 1) {
        for (const path of doomed) rmSync(path);
        rmSync(join(dir, "b", "doomed"), { recursive: true });
      }
    }
    expect(pathsOf(results).filter((path) => !path.includes("doomed"))).toEqual(kept.sort());
    expect(progress?.vanished).toBeGreaterThan(0);
    expect(progress?.problems).toBe(0);
  });

  test("it runs no further ahead of its caller than promised", async () => {
    const dir = tempDir();
    writeDefinitions(join(dir, "a"), 2_000);
    writeDefinitions(join(dir, "b"), 1_000);
    let files = 0;
    let taken = 0;
    const onProgress = (now: ScanProgress): void => {
      files = now.files;
    };
    for await (const result of scan(dir, { ...way, onProgress })) {
      expect(result.ok).toBe(true);
      taken++;
      // A thousand that wait, and a chunk under way for each worker.
      expect(files - taken).toBeLessThanOrEqual(1_024 + 3 * 256);
      if (taken % 100 === 0) await new Promise(setImmediate);
    }
    expect(taken).toBe(3_000);
  });

  test("an abort in mid-scan rejects with its reason, and nothing of the scan is left", async () => {
    const dir = tempDir();
    writeDefinitions(dir, 2_000);
    const before = openFiles();
    for (const at of [1, 500, 1_500]) {
      const { signal, abort, listeners } = countedSignal();
      const reason = new Error("enough");
      let taken = 0;
      const consume = async (): Promise<void> => {
        for await (const _ of scan(dir, { ...way, signal })) if (++taken === at) abort(reason);
      };
      await expect(consume()).rejects.toBe(reason);
      expect(taken).toBe(at);
      expect(listeners()).toBe(0);
      await vi.waitFor(() => expect(openFiles()).toEqual(before));
    }
  });

  test("break ends it, and nothing of it is left", async () => {
    const dir = tempDir();
    writeDefinitions(dir, 2_000);
    const before = openFiles();
    for (const at of [1, 1_500]) {
      const { signal, listeners } = countedSignal();
      let taken = 0;
      for await (const _ of scan(dir, { ...way, signal })) if (++taken === at) break;
      expect(taken).toBe(at);
      expect(listeners()).toBe(0);
      await vi.waitFor(() => expect(openFiles()).toEqual(before));
    }
  });
});

describe("the iterator", () => {
  test("does nothing before it is asked", async () => {
    const dir = tempDir();
    const { signal, listeners } = countedSignal();
    const results = scan(join(dir, "later"), { signal });
    expect(listeners()).toBe(0);
    writeDefinitions(join(dir, "later"), 3);
    expect(await collect(results)).toHaveLength(3);
  });

  test("answers calls made at once in their order, and goes on saying that it is done", async () => {
    const dir = tempDir();
    writeDefinitions(dir, 2);
    const results = scan(dir);
    const answers = await Promise.all([results.next(), results.next(), results.next(), results.next()]);
    expect(answers.map(({ done }) => done)).toEqual([false, false, true, true]);
    expect(await results.next()).toEqual({ done: true, value: undefined });
    expect(results[Symbol.asyncIterator]()).toBe(results);
  });

  test("ended by return(), settles what was asked before, and yields nothing more", async () => {
    const dir = tempDir();
    writeDefinitions(dir, 300);
    const results = scan(dir);
    const pending = results.next();
    expect(await results.return?.()).toEqual({ done: true, value: undefined });
    expect(await pending).toEqual({ done: true, value: undefined });
    expect(await results.next()).toEqual({ done: true, value: undefined });
    const unstarted = scan(dir);
    await unstarted.return?.();
    expect(await unstarted.next()).toEqual({ done: true, value: undefined });
    const failing = scan(dir);
    await failing.next();
    await expect(failing.throw?.(new Error("mine"))).rejects.toThrow("mine");
    expect(await failing.next()).toEqual({ done: true, value: undefined });
  });

  test("of an aborted signal rejects with its reason and does nothing", async () => {
    const reason = new Error("before");
    const results = scan(tempDir(), { signal: AbortSignal.abort(reason) });
    await expect(results.next()).rejects.toBe(reason);
    expect(await results.next()).toEqual({ done: true, value: undefined });
  });

  test("rejects with the reason when the caller looks after the abort", async () => {
    const dir = tempDir();
    writeDefinitions(dir, 100);
    const controller = new AbortController();
    const results = scan(dir, { signal: controller.signal });
    await results.next();
    controller.abort();
    await expect(results.next()).rejects.toMatchObject({ name: "AbortError" });
    expect(await results.next()).toEqual({ done: true, value: undefined });
  });

  test.each(Object.entries(WAYS))("%s: hands nothing out after an abort, though all has been found", async (_, way) => {
    const dir = tempDir();
    for (const name of ["a", "b", "c"]) writeFileSync(join(dir, `${name}.yaml`), definition(name));
    const controller = new AbortController();
    const results = scan(dir, { ...way, signal: controller.signal });
    expect((await results.next()).done).toBe(false);
    // Every result is there, and the scan over, before anybody asks for the second.
    await new Promise((resolve) => setTimeout(resolve, 100));
    const reason = new Error("enough");
    controller.abort(reason);
    await expect(results.next()).rejects.toBe(reason);
    expect((await results.next()).done).toBe(true);
  });

  test("keeps nothing of a signal that outlives a thousand scans", async () => {
    const dir = tempDir();
    writeDefinitions(dir, 2);
    const { signal, listeners } = countedSignal();
    for (let i = 0; i < 1_000; i++) expect(await collect(scan(dir, { signal }))).toHaveLength(2);
    expect(listeners()).toBe(0);
  });
});

describe("a directory", () => {
  test("that does not exist is empty", async () => {
    const dir = tempDir();
    expect(await collect(scan(join(dir, "none")))).toEqual([]);
    writeFileSync(join(dir, "file"), "");
    expect(await collect(scan(join(dir, "file", "below")))).toEqual([]);
  });

  test("that is a file is an error that names it", async () => {
    const file = join(tempDir(), "file");
    writeFileSync(file, "");
    const failed = await collect(scan(file)).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(DefinitionReadError);
    expect(failed).toMatchObject({ path: file, errno: "ENOTDIR", code: "DEFINITION_READ" });
  });

  test("may be given relative, or through a symbolic link, which is then its boundary", async () => {
    const top = realpathSync(tempDir());
    writeDefinitions(join(top, "real", "swamp"), 1);
    symlinkSync("fleet-0.yaml", join(top, "real", "swamp", "link.yaml"));
    symlinkSync("real", join(top, "link"));
    const results = await collect(scan(join(top, "link")));
    expect(pathsOf(results)).toEqual([join(top, "link/swamp/fleet-0.yaml"), join(top, "link/swamp/link.yaml")]);
    expect(results.every(({ ok }) => ok)).toBe(true);
    const given = relative(process.cwd(), join(top, "real"));
    expect(pathsOf(await collect(scan(given)))).toEqual([
      join(top, "real/swamp/fleet-0.yaml"),
      join(top, "real/swamp/link.yaml"),
    ]);
  });

  test("is entered with its sub-directories, unless told otherwise, and never through a link", async () => {
    const dir = tempDir();
    writeDefinitions(dir, 1, "top");
    writeDefinitions(join(dir, "a", "b.yaml"), 1, "deep");
    symlinkSync("a", join(dir, "to-a"));
    symlinkSync("a", join(dir, "to-a.yaml"));
    const types = async (options: ScanOptions) =>
      (await collect(scan(dir, options))).map((result) => (result.ok ? result.entry.type : result.problem)).sort();
    expect(await types({})).toEqual(["", "a/b.yaml"]);
    expect(await types({ recursive: false })).toEqual([""]);
  });

  test("may hold what is no definition file, names that are not UTF-8, a FIFO, and names of 255 bytes", async () => {
    const dir = tempDir();
    const long = `${"é".repeat(125)}.yaml`;
    writeFileSync(join(dir, long), definition("long"));
    writeFileSync(join(dir, "x.yml"), "{");
    execFileSync("mkfifo", [join(dir, "fifo.yaml")]);
    execFileSync("sh", ["-c", `cd "$0" && : > "$(printf 'b\\377.yaml')"`, dir]);
    symlinkSync("none", join(dir, "dangling.yaml"));
    const results = await collect(scan(dir));
    expect(
      results
        .map((result) => (result.ok ? result.entry.name : [result.problem.kind, relative(dir, result.problem.path)]))
        .sort(),
    ).toEqual([
      ["bad-filename", "b\ufffd.yaml"],
      ["dangling-symlink", "dangling.yaml"],
      ["invalid", "fifo.yaml"],
      "long",
    ]);
  });
});

test("an entry has the naming and the stamp of its file", async () => {
  const dir = tempDir();
  for (const [file, id, name] of [
    ["web.yaml", "a-1", "web"],
    ["a-2.yaml", "a-2", "api"],
    ["other.yaml", "a-3", "db"],
    ["same.yaml", "same", "same"],
  ]) {
    writeFileSync(join(dir, file!), `id: ${id}\nname: ${name}\n`);
  }
  const results = await collect(scan(dir));
  const namings = results.flatMap((result) => (result.ok ? [[result.entry.name, result.entry.naming]] : []));
  expect(namings.sort()).toEqual([
    ["api", "uuid"],
    ["db", "mismatched"],
    ["same", "name"],
    ["web", "name"],
  ]);
  for (const result of results) {
    if (!result.ok) throw new Error("no problem was expected");
    const stats = statSync(result.entry.path, { bigint: true });
    expect(result.entry.stamp).toMatchObject({ size: Number(stats.size), inode: stats.ino });
  }
});

test("workers take over in mid-scan where there are many files", async () => {
  const dir = tempDir();
  const paths = [...writeDefinitions(join(dir, "a"), MANY), ...writeDefinitions(join(dir, "b"), 600)];
  const threads = (): number => readdirSync("/proc/self/task").length;
  const before = threads();
  let most = 0;
  const results: ScanResult[] = [];
  for await (const result of scan(dir, { content: "document" })) {
    results.push(result);
    most = Math.max(most, threads());
  }
  expect(pathsOf(results)).toEqual(paths.sort());
  expect(results.every((result) => result.ok && result.document !== undefined)).toBe(true);
  expect(most).toBeGreaterThan(before);
});

test("without workers the same many files are read on this thread", async () => {
  vi.stubEnv("TUSSOCK_NO_WORKERS", "1");
  const dir = tempDir();
  const paths = writeDefinitions(dir, MANY);
  expect(pathsOf(await collect(scan(dir, { concurrency: 4 })))).toEqual(paths.sort());
});

test.each(["one", "all"])(
  "when %s of the workers dies in mid-task, what it had to do is done all the same, once",
  async (which) => {
    const dir = tempDir();
    const paths = writeDefinitions(dir, 2_000);
    const { postMessage } = Worker.prototype;
    let sent = 0;
    const post = vi.spyOn(Worker.prototype, "postMessage").mockImplementation(function (
      this: Worker,
      ...of: unknown[]
    ) {
      Reflect.apply(postMessage, this, of);
      sent++;
      if (sent === 3 || (which === "all" && sent > 3)) void this.terminate();
    });
    try {
      expect(pathsOf(await collect(scan(dir, { concurrency: 2 })))).toEqual(paths.sort());
      expect(sent).toBeGreaterThanOrEqual(3);
    } finally {
      post.mockRestore();
    }
  },
);

test("a worker that answers while it is being ended is waited for all the same", async () => {
  const dir = tempDir();
  writeDefinitions(dir, 1_000);
  const { terminate } = Worker.prototype;
  const calls: string[] = [];
  const spies = [
    vi.spyOn(Worker.prototype, "unref").mockImplementation(() => void calls.push("unref")),
    vi.spyOn(Worker.prototype, "terminate").mockImplementation(function (this: Worker) {
      calls.push("terminate");
      this.emit("message", "stopped");
      return Reflect.apply(terminate, this, []);
    }),
  ];
  try {
    for await (const _ of scan(dir, { concurrency: 2 })) break;
    // Let go, the process might end before the worker and the scan never settle.
    expect(calls.slice(calls.indexOf("terminate"))).toEqual(["terminate", "terminate"]);
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
});

test("progress grows to the whole, and its end is the truth", async () => {
  const dir = tempDir();
  writeDefinitions(join(dir, "a"), 1_000);
  writeDefinitions(join(dir, "b", "c"), 10);
  for (const name of ["x", "y"]) writeFileSync(join(dir, "b", `${name}.yaml`), "{");
  const seen: ScanProgress[] = [];
  await collect(scan(dir, { onProgress: (progress) => seen.push(progress) }));
  for (const [i, now] of seen.entries()) expect(now.files).toBeGreaterThanOrEqual(seen[i - 1]?.files ?? 0);
  expect(seen.length).toBeGreaterThan(5);
  expect(seen.at(-1)).toEqual({ directories: 4, files: 1_012, entries: 1_010, problems: 2, vanished: 0 });
});

test("what onProgress throws ends the scan", async () => {
  const dir = tempDir();
  writeDefinitions(dir, 100);
  const thrown = new Error("mine");
  const onProgress = (): never => {
    throw thrown;
  };
  await expect(collect(scan(dir, { onProgress }))).rejects.toBe(thrown);
});

test.each<[string, unknown[]]>([
  ["dir", [""]],
  ["dir", ["a\0b"]],
  ["dir", [undefined]],
  ["boundary", ["x", { boundary: "" }]],
  ["concurrency", ["x", { concurrency: 0 }]],
  ["concurrency", ["x", { concurrency: 1.5 }]],
  ["concurrency", ["x", { concurrency: 1_000 }]],
  ["maxFileBytes", ["x", { maxFileBytes: 0 }]],
  ["content", ["x", { content: "all" }]],
  ["keys.name", ["x", { keys: { id: "id", name: 1, type: "type" } }]],
  ["parse", ["x", { parse: "yaml" }]],
])("%s that cannot be used is refused at the door: %j", (argument, [dir, options]) => {
  expect(() => scan(dir as string, options as ScanOptions)).toThrow(InvalidArgumentError);
  expect(() => scan(dir as string, options as ScanOptions)).toThrow(argument);
});

test("a boundary that does not exist is an error that names it", async () => {
  const dir = tempDir();
  await expect(collect(scan(dir, { boundary: join(dir, "none") }))).rejects.toMatchObject({
    path: join(dir, "none"),
    errno: "ENOENT",
  });
});

test("an unfinished scan that nobody asks any more does not keep the process alive", async () => {
  const dir = tempDir();
  writeDefinitions(dir, 4_000);
  const [taken] = await runChild(new URL("./scan.child.ts", import.meta.url), ["abandon", dir]);
  expect(taken).toBe("1500");
});

test.each(["file", "directory"])("a %s that may not be read ends the scan with its path and the code", async (what) => {
  const dir = tempDir();
  chmodSync(dir, 0o755);
  writeDefinitions(join(dir, "a"), 10);
  const closed = join(dir, "b", what === "file" ? "closed.yaml" : "closed");
  mkdirSync(join(dir, "b"));
  if (what === "file") writeFileSync(closed, definition("closed"));
  else mkdirSync(closed);
  chmodSync(closed, 0);
  // Nothing is closed to root.
  const asNobody = process.getuid?.() === 0 ? ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] : [];
  const options = { prefix: asNobody, env: { DENO_DIR: join(dir, "deno"), HOME: dir } };
  const answers = await runChild(new URL("./scan.child.ts", import.meta.url), ["closed", dir], options);
  expect(answers).toEqual(Array(2).fill(`DefinitionReadError EACCES ${closed}`));
});

describe("a shortage of descriptors", () => {
  const limited = { prefix: ["prlimit", "--nofile=128:128"] };

  test("that passes is waited out", async () => {
    const dir = tempDir();
    writeDefinitions(join(dir, "a"), 500);
    writeDefinitions(join(dir, "b"), 500);
    expect(await runChild(new URL("./scan.child.ts", import.meta.url), ["shortage", dir], limited)).toEqual(["1000"]);
  });

  // Deno's own process dies when it has had no descriptor for long.
  test.skipIf(isDeno)("that stays is an error", async () => {
    const dir = tempDir();
    writeDefinitions(dir, 100);
    const [answer] = await runChild(new URL("./scan.child.ts", import.meta.url), ["famine", dir], limited);
    expect(answer).toBe("DefinitionReadError EMFILE");
  });

  test("in which no worker can start leaves the work to this thread", async () => {
    const dir = tempDir();
    writeDefinitions(dir, 1_000);
    const [answer] = await runChild(new URL("./scan.child.ts", import.meta.url), ["no-workers", dir], limited);
    expect(answer).toBe("1000");
  });
});

/** Files of tests that are open. On Deno, a worker's go a moment after it has ended. */
function openFiles(): string[] {
  return readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      const path = readlinkSync(`/proc/self/fd/${fd}`);
      return path.includes("tussock-") ? [path] : [];
    } catch {
      return [];
    }
  });
}

/** A signal that knows how many listen to it. */
function countedSignal() {
  const controller = new AbortController();
  const { signal } = controller;
  let count = 0;
  const add = signal.addEventListener.bind(signal);
  const remove = signal.removeEventListener.bind(signal);
  const heard = new Set<unknown>();
  signal.addEventListener = (...of: Parameters<typeof add>) => {
    count++;
    heard.add(of[1]);
    add(...of);
  };
  signal.removeEventListener = (...of: Parameters<typeof remove>) => {
    if (heard.delete(of[1])) count--;
    remove(...of);
  };
  return { signal, abort: (reason: unknown) => controller.abort(reason), listeners: () => count };
}

test("no worker is left when a scan has ended, however it ended", async () => {
  const dir = tempDir();
  writeDefinitions(dir, 3_000);
  const [answer] = await runChild(new URL("./scan.child.ts", import.meta.url), ["ends", dir]);
  expect(JSON.parse(answer!)).toEqual({ complete: 0, broken: 0, aborted: 0, abortedAtStart: 0 });
});

test("the directory of a scan is not held open by it", async () => {
  const dir = tempDir();
  writeDefinitions(dir, 10);
  await collect(scan(dir));
  expect(readdirSync(dir)).toHaveLength(10);
  expect(openFiles()).toEqual([]);
});

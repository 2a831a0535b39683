import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { basename, join, relative } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { writeArtifact, writeVersion } from "../../examples/support/artifacts.ts";
import { UnsafePathError } from "../../src/errors.ts";
import { type ArtifactProgress, type ArtifactScanOptions, scanArtifacts } from "../../src/swamp/artifact-scan.ts";
import { collect } from "../support/collect.ts";
import { fastestOf } from "../support/fastest.ts";
import { copyFixture } from "../support/fixtures.ts";
import { isLong, tempDir } from "../support/spawn.ts";

const TYPE = "swamp/step-lease";

interface Scanned {
  /** Item path → what was read, as text. */
  read: Map<string, string>;
  watermark: string;
  progress: ArtifactProgress;
}

async function scanOnce(dataDir: string, options: ArtifactScanOptions = {}): Promise<Scanned> {
  const read = new Map<string, string>();
  let watermark = "";
  let progress: ArtifactProgress = { total: 0, examined: 0, read: 0 };
  for await (const result of scanArtifacts(dataDir, TYPE, { ...options, onProgress: (p) => (progress = p) })) {
    if (result.kind === "mark") watermark = result.watermark;
    else if (result.kind === "artifact") {
      const { path, version, content } = result.artifact;
      read.set(path, `${version} ${new TextDecoder().decode(content)}`);
    } else read.set(result.path, `${result.kind}: ${result.reason}`);
  }
  return { read, watermark, progress };
}

function spec(name: string, model = "m1") {
  return { type: TYPE, modelId: model, modelName: "leases", specName: "lease", name, createdAt: 0 };
}

function put(dataDir: string, name: string, model = "m1", versions: unknown[] = [{ n: 1 }]): string {
  return writeArtifact(dataDir, { ...spec(name, model), versions });
}

/** As swamp does: the version's directory, filled; then the marker, by rename. */
function addVersion(item: string, version: number, content: unknown): void {
  writeVersion(item, version, content, spec(basename(item)));
  writeFileSync(join(item, ".latest.tmp"), String(version));
  renameSync(join(item, ".latest.tmp"), join(item, "latest"));
}

/** Changes a file in place and gives it back the times that it had. */
function editInPlace(path: string, text: string): void {
  const { atime, mtime } = statSync(path);
  writeFileSync(path, text);
  utimesSync(path, atime, mtime);
}

describe("a scan since a watermark", () => {
  test("reads nothing when nothing has changed", async () => {
    const dataDir = join(copyFixture("leases"), "data");
    const first = await scanOnce(dataDir);
    expect(first.progress).toEqual({ total: 22, examined: 22, read: 22 });
    const second = await scanOnce(dataDir, { since: first.watermark });
    expect(second.progress).toEqual({ total: 22, examined: 22, read: 0 });
    expect(second.watermark).toBe(first.watermark);
  });

  test("asks the kernel to read nothing when nothing has changed", async () => {
    const dataDir = tempDir();
    for (let n = 0; n < 150; n++) put(dataDir, `lease-${n}`);
    const reads = () => Number(/^syscr: (\d+)$/m.exec(readFileSync("/proc/self/io", "utf8"))?.[1]);
    const before = reads();
    const { watermark } = await scanOnce(dataDir);
    const between = reads();
    // The marker, the metadata and the content of each; then none of them. A few reads are the runtime's own, in any
    // thread: the scan that was least disturbed tells.
    expect(between - before).toBeGreaterThanOrEqual(3 * 150);
    let fewest = Number.POSITIVE_INFINITY;
    for (let tries = 0; tries < 10 && fewest >= 100; tries++) {
      const start = reads();
      await scanOnce(dataDir, { since: watermark });
      fewest = Math.min(fewest, reads() - start);
    }
    expect(fewest).toBeLessThan(100);
  });

  const changes: Record<string, (item: string, dataDir: string) => void> = {
    "a new version": (item) => addVersion(item, 2, { n: 2 }),
    "a marker rewritten in place": (item) => editInPlace(join(item, "latest"), "7"),
    "a marker taken away": (item) => rmSync(join(item, "latest")),
    "a marker replaced by a symbolic link": (item) => {
      rmSync(join(item, "latest"));
      symlinkSync("1", join(item, "latest"));
    },
    "content rewritten in place, its size and mtime kept": (item) => editInPlace(join(item, "1", "raw"), `{"n":3}`),
    "metadata rewritten in place": (item) => editInPlace(join(item, "1", "metadata.yaml"), "lifecycle: deleted\n"),
    "content that was missing": (item) => rmSync(join(item, "1", "raw")),
    "an item replaced by one that was made long before": (item, dataDir) => {
      renameSync(item, join(dataDir, "aside"));
      renameSync(join(dataDir, "prepared"), item);
    },
  };
  for (const [what, change] of Object.entries(changes)) {
    test(`sees ${what}, and reads nothing else`, async () => {
      const dataDir = tempDir();
      for (const name of ["lease-a", "lease-b", "lease-c"]) put(dataDir, name);
      renameSync(put(tempDir(), "lease-b", "m1", [{ n: 1 }, { n: 9 }]), join(dataDir, "prepared"));
      const { watermark } = await scanOnce(dataDir);
      const item = join(dataDir, TYPE, "m1", "lease-b");
      change(item, dataDir);
      const { read } = await scanOnce(dataDir, { since: watermark });
      expect([...read.keys()]).toEqual([item]);
      expect(read).toEqual(new Map([...(await scanOnce(dataDir)).read].filter(([path]) => path === item)));
    });
  }

  test("sees a version being filled, at every step, with and without a marker", async () => {
    const dataDir = tempDir();
    const item = put(dataDir, "lease-a");
    rmSync(join(item, "latest"));
    let { read, watermark } = await scanOnce(dataDir);
    const next = async () => {
      ({ read, watermark } = await scanOnce(dataDir, { since: watermark }));
      return read.get(item);
    };
    writeVersion(join(dataDir, "aside"), 2, { n: 2 }, spec("lease-a"));
    mkdirSync(join(item, "2"));
    expect(await next()).toBe(`1 {"n":1}`);
    renameSync(join(dataDir, "aside", "2", "raw"), join(item, "2", "raw"));
    expect(await next()).toBe(`1 {"n":1}`);
    renameSync(join(dataDir, "aside", "2", "metadata.yaml"), join(item, "2", "metadata.yaml"));
    expect(await next()).toBe(`2 {"n":2}`);
    expect(await next()).toBe(undefined);
  });

  test("reads all of a model that another directory has taken the place of, and only that", async () => {
    const dataDir = tempDir();
    for (const model of ["m1", "m2", "m3"]) for (const name of ["lease-a", "lease-b"]) put(dataDir, name, model);
    const { watermark } = await scanOnce(dataDir);
    const model = (id: string) => join(dataDir, TYPE, id);
    renameSync(model("m1"), model("aside"));
    renameSync(model("m2"), model("m1"));
    renameSync(model("aside"), model("m2"));
    put(dataDir, "lease-c", "m3");
    const { read } = await scanOnce(dataDir, { since: watermark });
    const swapped = ["m1", "m2"].flatMap((id) => ["lease-a", "lease-b"].map((name) => join(model(id), name)));
    expect([...read.keys()].sort()).toEqual([...swapped, join(model("m3"), "lease-c")].sort());
  });

  test("reads everything when the type's directory is another, or the watermark is none", async () => {
    const dataDir = tempDir();
    for (const name of ["lease-a", "lease-b"]) put(dataDir, name);
    const { watermark } = await scanOnce(dataDir);
    for (const bad of [
      "",
      "x",
      "null",
      "[]",
      `{"format":1}`,
      `{"format":2,"horizon":{},"done":64}`,
      watermark.slice(1),
    ]) {
      expect((await scanOnce(dataDir, { since: bad })).progress.read, bad).toBe(2);
    }
    const typeDir = join(dataDir, TYPE);
    renameSync(typeDir, `${typeDir}-old`);
    mkdirSync(typeDir);
    renameSync(join(`${typeDir}-old`, "m1"), join(typeDir, "m1"));
    expect((await scanOnce(dataDir, { since: watermark })).progress.read).toBe(2);
  });

  test("says in a bounded string how far it is, however many models there are", async () => {
    const dataDir = tempDir();
    const typeDir = join(dataDir, TYPE);
    for (let n = 0; n < 200; n++) mkdirSync(join(typeDir, `model-${n}`, "item"), { recursive: true });
    const { watermark } = await scanOnce(dataDir);
    expect(watermark.length).toBeLessThan(8_000);
    rmSync(join(typeDir, "model-7", "item"), { recursive: true });
    mkdirSync(join(typeDir, "model-9", "another"));
    const { read } = await scanOnce(dataDir, { since: watermark });
    expect([...read.keys()]).toContain(join(typeDir, "model-9", "another"));
    expect(read.size).toBeLessThanOrEqual(2);
  });

  test("goes on where it was cut off", async () => {
    const dataDir = tempDir();
    for (let n = 0; n < 700; n++) mkdirSync(join(dataDir, TYPE, "m1", `lease-${n}`), { recursive: true });
    const seen = new Set<string>();
    let since: string | null = null;
    const part = async (marks: number) => {
      for await (const result of scanArtifacts(dataDir, TYPE, { since })) {
        if (result.kind === "ignored") {
          expect(seen).not.toContain(result.path);
          seen.add(result.path);
        }
        if (result.kind === "mark") {
          since = result.watermark;
          if (--marks === 0) break;
        }
      }
    };
    await part(1);
    expect(seen.size).toBeGreaterThanOrEqual(250);
    expect(seen.size).toBeLessThan(350);
    await part(1);
    expect(seen.size).toBeLessThan(700);
    await part(Number.POSITIVE_INFINITY);
    expect(seen.size).toBe(700);
    // Everything counts as seen now, what was seen before the cuts as well.
    expect((await scanOnce(dataDir, { since })).progress.read).toBe(0);
  });

  test("cut off, does not forget what an earlier scan knew, nor miss what changed since", async () => {
    const dataDir = tempDir();
    for (let n = 0; n < 700; n++) mkdirSync(join(dataDir, TYPE, "m1", `lease-${n}`), { recursive: true });
    const whole = (await scanOnce(dataDir)).watermark;
    const touched = readdirSync(join(dataDir, TYPE, "m1")).filter((_, n) => n % 2 === 0);
    for (const name of touched) mkdirSync(join(dataDir, TYPE, "m1", name, "1"));
    let read = 0;
    let cut: string | null = null;
    for await (const result of scanArtifacts(dataDir, TYPE, { since: whole })) {
      if (result.kind === "ignored") read++;
      if (result.kind === "mark") {
        cut = result.watermark;
        break;
      }
    }
    expect(read).toBeLessThan(touched.length);
    const rest = await scanOnce(dataDir, { since: cut });
    expect(read + rest.progress.read).toBe(touched.length);
  });
});

// Random trees and random edits, against a reading of everything.
interface Place {
  typeDir: string;
  /** An item, and what else it may be called. */
  item: string;
  other: string;
  /** The newest version's number, 0 when it has none. */
  newest: number;
  step: number;
}

const EDITS = {
  version: ({ item, newest, step }) => addVersion(item, newest + 1, { step }),
  mark: ({ item, newest, step }) => writeFileSync(join(item, "latest"), String((step % (newest + 1)) + 1)),
  unmark: ({ item }) => rmSync(join(item, "latest"), { force: true }),
  edit: ({ item, newest, step }) => {
    const raw = join(item, String(newest), "raw");
    if (existsSync(raw)) editInPlace(raw, JSON.stringify({ step }));
  },
  delete: ({ item, newest }) => {
    if (newest > 0) writeFileSync(join(item, String(newest), "metadata.yaml"), "lifecycle: deleted\n");
  },
  remove: ({ item }) => rmSync(item, { recursive: true }),
  rename: ({ item, other }) => {
    if (!existsSync(other)) renameSync(item, other);
  },
  begin: ({ item, newest }) => void mkdirSync(join(item, String(newest + 1))),
  fill: ({ item, newest, step }) => {
    if (newest > 0) writeVersion(item, newest, { step }, spec(basename(item)));
  },
  swap: ({ typeDir }) => {
    for (const model of ["m0", "m1"]) mkdirSync(join(typeDir, model), { recursive: true });
    renameSync(join(typeDir, "m0"), join(typeDir, "..", "aside"));
    renameSync(join(typeDir, "m1"), join(typeDir, "m0"));
    renameSync(join(typeDir, "..", "aside"), join(typeDir, "m1"));
  },
} satisfies Record<string, (place: Place) => void>;

type Edit = { kind: keyof typeof EDITS | "add" | "scan"; model: number; item: number };

const edit: fc.Arbitrary<Edit> = fc.record({
  kind: fc.constantFrom(...(Object.keys(EDITS) as (keyof typeof EDITS)[]), "add", "add", "version", "scan", "scan"),
  model: fc.nat(2),
  item: fc.nat(3),
});

function apply(dataDir: string, { kind, model, item: number }: Edit, step: number): void {
  const typeDir = join(dataDir, TYPE);
  const item = join(typeDir, `m${model}`, `lease-${number}`);
  const there = existsSync(item);
  if (kind === "add" && !there) put(dataDir, basename(item), `m${model}`, [{ step }]);
  if (kind === "add" || kind === "scan" || !there) return;
  const versions = readdirSync(item).filter((name) => /^\d+$/.test(name));
  EDITS[kind]({ typeDir, item, other: `${item}-b`, newest: Math.max(0, ...versions.map(Number)), step });
}

test("whatever is edited between two scans, what they read adds up to a reading of everything", async () => {
  const tempRoot = tempDir();
  let runs = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(edit, { minLength: 5, maxLength: 40 }), async (steps) => {
      const dataDir = join(tempRoot, `run-${++runs}`);
      mkdirSync(dataDir);
      let since: string | null = null;
      const known = new Map<string, string>();
      for (const [step, next] of [...steps, { kind: "scan", model: 0, item: 0 } satisfies Edit].entries()) {
        apply(dataDir, next, step);
        if (next.kind !== "scan") continue;
        const scanned: Scanned = await scanOnce(dataDir, { since });
        since = scanned.watermark;
        for (const [path, reading] of scanned.read) known.set(path, reading);
        const { read: all } = await scanOnce(dataDir);
        expect(Object.fromEntries([...all.keys()].map((path) => [path, known.get(path)]))).toEqual(
          Object.fromEntries(all),
        );
        expect((await scanOnce(dataDir, { since })).progress.read).toBe(0);
      }
      rmSync(dataDir, { recursive: true });
    }),
    { numRuns: isLong ? 500 : 15 },
  );
}, 600_000);

describe("a scan of artifacts", () => {
  test("a directory that is not there is empty", async () => {
    const { read, progress, watermark } = await scanOnce(join(tempDir(), "nowhere"));
    expect(read.size).toBe(0);
    expect(progress).toEqual({ total: 0, examined: 0, read: 0 });
    expect(watermark).not.toBe("");
  });

  test("a type that leads out of the data directory is refused", async () => {
    for (const type of ["", "..", "a/../../b", "/etc", "a//b", "a\0b"]) {
      await expect(collect(scanArtifacts(tempDir(), type)), type).rejects.toBeInstanceOf(UnsafePathError);
    }
  });

  test("a disk that refuses is an error that names the path, not a problem", async () => {
    const dataDir = tempDir();
    writeFileSync(join(dataDir, "swamp"), "a file");
    await expect(collect(scanArtifacts(dataDir, TYPE))).rejects.toMatchObject({
      code: "DEFINITION_READ",
      errno: "ENOTDIR",
    });
  });

  test("a rename that leads nowhere is a problem, not silence", async () => {
    const dataDir = tempDir();
    const item = put(dataDir, "lease-a");
    writeFileSync(join(item, "1", "metadata.yaml"), "lifecycle: deleted\nrenamedTo: lease-z\n");
    expect([...(await scanOnce(dataDir)).read.values()]).toEqual(["problem: renamed to lease-z, which is missing"]);
  });

  test("metadata or a marker that makes no sense is a problem of that item alone", async () => {
    const dataDir = tempDir();
    writeFileSync(join(put(dataDir, "lease-a"), "1", "metadata.yaml"), "a: [");
    writeFileSync(join(put(dataDir, "lease-b"), "latest"), "two");
    put(dataDir, "lease-c");
    const { read } = await scanOnce(dataDir);
    const reasons = [...read].map(([path, reading]) => `${basename(path)} ${reading}`).sort();
    expect(reasons[0]).toMatch(/^lease-a problem: metadata is not valid: /);
    expect(reasons.slice(1)).toEqual([`lease-b problem: latest is not a version number: "two"`, `lease-c 1 {"n":1}`]);
  });

  test("an abort rejects within 10 ms with the signal's reason, and leaves nothing open", async () => {
    const dataDir = tempDir();
    for (let n = 0; n < 800; n++) mkdirSync(join(dataDir, TYPE, "m1", `lease-${n}`), { recursive: true });
    const open = () => readdirSync("/proc/self/fd").length;
    const before = open();
    const reason = new Error("enough");
    for (const afterMs of [0, 5, 13, 15, 17]) {
      const once = async (): Promise<number> => {
        const controller = new AbortController();
        let abortedAt = Number.POSITIVE_INFINITY;
        setTimeout(() => {
          abortedAt = performance.now();
          controller.abort(reason);
        }, afterMs);
        await expect(collect(scanArtifacts(dataDir, TYPE, { signal: controller.signal }))).rejects.toBe(reason);
        return performance.now() - abortedAt;
      };
      // The promise is 10 ms on a machine that does nothing else.
      expect(await fastestOf(5, 50, once)).toBeLessThan(50);
    }
    await expect(collect(scanArtifacts(dataDir, TYPE, { signal: AbortSignal.abort(reason) }))).rejects.toBe(reason);
    for await (const _ of scanArtifacts(dataDir, TYPE)) break;
    expect(open()).toBeLessThanOrEqual(before);
  });

  test("reads the content as it is, bytes for bytes", async () => {
    const dataDir = tempDir();
    const item = put(dataDir, "lease-a");
    const bytes = Uint8Array.from({ length: 256 }, (_, n) => n);
    writeFileSync(join(item, "1", "raw"), bytes);
    for await (const result of scanArtifacts(dataDir, TYPE)) {
      if (result.kind === "artifact") expect(Buffer.from(bytes).equals(result.artifact.content)).toBe(true);
    }
    expect(readFileSync(join(item, "1", "raw")).length).toBe(256);
  });
});

test("paths are absolute, also below a data directory that is given relative to the current one", async () => {
  const dataDir = tempDir();
  const item = writeArtifact(dataDir, {
    type: TYPE,
    modelId: "m",
    modelName: "leases",
    specName: "lease",
    name: "lease-1",
    createdAt: 1_790_000_000_000,
    versions: [{}],
  });
  const { read } = await scanOnce(relative(process.cwd(), dataDir));
  expect([...read.keys()]).toEqual([item]);
});

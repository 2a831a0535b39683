import { lstatSync, mkdirSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { openDefinitionIndex } from "../../src/definitions/index.ts";
import { isLong, tempDir } from "../support/spawn.ts";
import { withoutWorkers } from "../support/workers.ts";

/** Places on the way to two roots, `repo/models` and `repo/auto/deep`, beside it, and in them. */
const PLACES = [
  "repo",
  "repo/models",
  "repo/auto",
  "repo/auto/deep",
  "other",
  "other/models",
  "other/deep",
  "repo/models/t",
  "repo/auto/deep/t",
  "other/t",
] as const;
const ROOTS = ["repo/models", "repo/auto/deep"] as const;

const place = fc.constantFrom(...PLACES);
const change = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("file" as const), at: place }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("directory" as const), at: place }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("remove" as const), at: place }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("move" as const), at: place, to: place }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("link" as const), at: place, to: place }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("beside" as const), at: place }) },
);
type Change = typeof change extends fc.Arbitrary<infer C> ? C : never;

/** What cannot be done is not done: the state is what counts. */
function apply(base: string, { kind, at, ...rest }: Change, n: number): void {
  const path = join(base, at);
  try {
    switch (kind) {
      case "file": {
        const dir = at.endsWith("/t") ? path : join(path, "t");
        mkdirSync(dir, { recursive: true });
        writeFileSync(join(dir, "a.yaml"), `id: n${n}\nname: a\n`);
        break;
      }
      case "directory":
        mkdirSync(path, { recursive: true });
        break;
      case "remove":
        rmSync(path, { recursive: true, force: true });
        break;
      case "move":
        renameSync(path, join(base, (rest as { to: string }).to));
        break;
      case "link":
        mkdirSync(dirname(path), { recursive: true });
        symlinkSync(join(base, (rest as { to: string }).to), path);
        break;
      case "beside":
        writeFileSync(`${path}.beside`, "");
    }
  } catch {}
}

/** The file that is called `a` in the first root that has it: the root may be behind links, the rest of the way not. */
function slowly(base: string): string | null {
  for (const root of ROOTS) {
    const dir = join(base, root, "t");
    try {
      if (statSync(join(base, root)).isDirectory() && lstatSync(dir).isDirectory() && lstatSync(join(dir, "a.yaml")))
        return join(dir, "a.yaml");
    } catch {}
  }
  return null;
}

/** A root that is a file, or a circle of links, is an error and no answer. */
function isSound(base: string): boolean {
  return ROOTS.every((root) => {
    try {
      return statSync(join(base, root)).isDirectory();
    } catch (error) {
      return (error as NodeJS.ErrnoException).code === "ENOENT";
    }
  });
}

test("whatever becomes of the roots and of what is above them, each look-up is right at once", async () => {
  withoutWorkers();
  await fc.assert(
    fc.asyncProperty(fc.array(change, { minLength: 5, maxLength: 40 }), async (changes) => {
      const base = tempDir();
      await using index = await openDefinitionIndex({
        roots: ROOTS.map((root) => ({ name: root, dir: join(base, root) })),
        indexDir: join(base, "index"),
        boundary: base,
      });
      for (const [n, each] of changes.entries()) {
        apply(base, each, n);
        if (!isSound(base)) continue;
        const found = await index.findByName("t", "a");
        expect(found?.path ?? null, `after ${JSON.stringify(changes.slice(0, n + 1))}`).toBe(slowly(base));
      }
    }),
    { numRuns: isLong ? 2_000 : 60 },
  );
});

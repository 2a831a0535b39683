/** What once went wrong, each in its smallest form. */
import { chmodSync, chownSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { openDefinitionIndex } from "../../src/definitions/index.ts";
import type { DefinitionIndexOptions } from "../../src/definitions/model.ts";
import { simulateGranularity } from "../../src/scan/stamp.ts";
import { isDeno, runChild, tempDir } from "../support/spawn.ts";

interface Place {
  base: string;
  options: DefinitionIndexOptions;
  /** A path below the boundary, in which the roots `models` and `auto` lie. */
  at(path: string): string;
  write(path: string, name: string): void;
}

function place(): Place {
  const base = tempDir();
  const at = (path: string): string => join(base, "repo", path);
  return {
    base,
    at,
    options: {
      roots: ["models", "auto"].map((name) => ({ name, dir: at(name) })),
      indexDir: join(base, "index"),
      boundary: join(base, "repo"),
    },
    write(path, name) {
      mkdirSync(join(at(path), ".."), { recursive: true });
      writeFileSync(at(path), `id: id-of-${name}\nname: ${name}\n`);
    },
  };
}

/** More than are looked at where a lookup stands. */
const MANY = 30;

describe("a lookup settles, however much there is of what no event tells of", () => {
  const realNow = Date.now;

  afterEach(() => {
    Date.now = realNow;
    simulateGranularity(null);
    delete process.env["TUSSOCK_NO_WORKERS"];
  });

  test("links to directories", async () => {
    const p = place();
    p.write("models/t/a.yaml", "a");
    mkdirSync(p.at("vendor"));
    for (let i = 0; i < MANY; i++) symlinkSync(p.at("vendor"), p.at(`models/t/l${i}.yaml`));
    await using index = await openDefinitionIndex(p.options);
    expect(await index.findByName("t", "none")).toBeNull();
    expect((await index.findById("t", "id-of-a"))?.path).toBe(p.at("models/t/a.yaml"));
  });

  test.skipIf(isDeno || process.getuid?.() !== 0)("files that may not be read", async () => {
    const p = place();
    for (let i = 0; i < MANY; i++) {
      p.write(`models/t/f${i}.yaml`, `f${i}`);
      chmodSync(p.at(`models/t/f${i}.yaml`), 0);
    }
    p.write("models/u/x.yaml", "x");
    chownSync(p.base, 65534, 65534);
    const answers = await runChild(new URL("./unreadable.child.ts", import.meta.url), [p.base]);
    expect(answers).toEqual(["t none: EACCES", "u x: found", "u none: not found", "* x: EACCES"]);
  });

  for (const watch of [true, false]) {
    test(`files from a future that a clock set back has made, ${watch ? "exact" : "bounded"}`, async () => {
      process.env["TUSSOCK_NO_WORKERS"] = "1";
      simulateGranularity(1e7);
      const p = place();
      for (let i = 0; i < MANY; i++) {
        p.write(`models/t/f${i}.yaml`, `f${i}`);
        symlinkSync(p.at(`models/t/f${i}.yaml`), p.at(`models/t/l${i}.yaml`));
      }
      Date.now = () => realNow() - 3_600_000;
      await using index = await openDefinitionIndex({ ...p.options, watch });
      expect(await index.findByName("t", "none")).toBeNull();
      expect((await index.findById("t", "id-of-f1"))?.path).toBe(p.at("models/t/f1.yaml"));
      expect((await index.findByNameGlobal("f2"))?.path).toBe(p.at("models/t/f2.yaml"));
      expect(await index.findByIdGlobal("none")).toBeNull();
    });
  }

  test("bounded, a directory that changes within every tick of its clock", async () => {
    process.env["TUSSOCK_NO_WORKERS"] = "1";
    simulateGranularity(1e7);
    const p = place();
    p.write("models/t/a.yaml", "a");
    await using index = await openDefinitionIndex({ ...p.options, watch: false });
    let written = 0;
    const writer = setInterval(() => p.write(`models/t/w${written++}.yaml`, `w${written}`), 1);
    try {
      for (let i = 0; i < 5; i++) expect(await index.findByName("t", "none")).toBeNull();
      expect((await index.findByIdGlobal("id-of-a"))?.path).toBe(p.at("models/t/a.yaml"));
    } finally {
      clearInterval(writer);
    }
    expect(written).toBeGreaterThan(0);
  });
});

test("bounded, a racy file is never taken for what it was when it is asked for by its name", async () => {
  simulateGranularity(1e9);
  process.env["TUSSOCK_NO_WORKERS"] = "1";
  try {
    const p = place();
    p.write("models/t/web.yaml", "bew");
    await using index = await openDefinitionIndex({ ...p.options, watch: false });
    expect(await index.findByName("t", "none")).toBeNull();
    // The same size, the same inode, and within the second the same times.
    for (const name of ["web", "bew", "web", "bew", "web"]) {
      p.write("models/t/web.yaml", name);
      expect((await index.findByName("t", "web"))?.path ?? null).toBe(
        name === "web" ? p.at("models/t/web.yaml") : null,
      );
    }
  } finally {
    simulateGranularity(null);
    delete process.env["TUSSOCK_NO_WORKERS"];
  }
});

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { runtimeCommand } from "../../bench/session.ts";
import { cacheDir, generated } from "../../bench/support/cache.ts";
import { END, START } from "../../bench/support/markdown.ts";
import type { Results } from "../../bench/support/results.ts";
import { isDeno, tempDir } from "../support/spawn.ts";

const program = join(import.meta.dirname, "../../bench", isDeno ? "deno.ts" : "run.ts");
const runtime = isDeno ? "deno" : "node";

function bench(cache: string, ...args: string[]): { status: number | null; stdout: string; stderr: string } {
  const [command = "", ...flags] = runtimeCommand(runtime);
  return spawnSync(command, [...flags, program, ...args], {
    encoding: "utf8",
    env: { ...process.env, XDG_CACHE_HOME: cache, NO_COLOR: "1" },
  });
}

describe("a run of the bench", () => {
  test("answers what is asked, in words, as JSON and as tables, and cleans up on request", () => {
    const [cache, out] = [tempDir(), tempDir()];
    writeFileSync(join(out, "README.md"), `${START}\n${END}\n`);
    const asked = ["--quick", "--rounds", "5", "--library", "src", "--only", "queue", "--out", out, "--write"];
    const { status, stdout, stderr } = bench(cache, ...asked);
    expect(stderr).toBe("");
    expect(status).toBe(0);
    expect(stdout).toContain("one transition through the queue, uncontended / 10,000 keys, uncontended");
    expect(stdout).toMatch(/\d+ of 3 goals reached/);
    const results = JSON.parse(readFileSync(join(out, `${runtime}-partial.json`), "utf8")) as Results;
    expect(results).toMatchObject({ runtime, complete: false, failures: {} });
    expect(results.rows.map(({ id, at }) => [id, at])).toEqual([
      ["queue", "uncontended"],
      ["queue", "10,000 keys at once"],
    ]);
    expect(results.rows[0]?.ours.rounds).toBe(5);
    expect(results.machine.cores).toBeGreaterThan(0);
    expect(results.versions["lmdb"]).toMatch(/^\d/);
    expect(readFileSync(join(out, "README.md"), "utf8")).toContain("10,000 keys at once");

    expect(existsSync(join(cache, "tussock-bench"))).toBe(true);
    expect(bench(cache, "--clean").status).toBe(0);
    expect(existsSync(join(cache, "tussock-bench"))).toBe(false);
  });

  test("refuses what it does not know", () => {
    const { status, stderr, stdout } = bench(tempDir(), "--only", "nothing");
    expect(status).toBe(2);
    expect(stderr).toContain('there is no row "nothing" here');
    expect(stdout).toContain("usage:");
  });
});

test("data is generated once, and what was not finished is begun anew", async () => {
  process.env["XDG_CACHE_HOME"] = tempDir();
  try {
    const failing = generated("things", async (dir) => {
      writeFileSync(join(dir, "half"), "");
      throw new Error("interrupted");
    });
    await expect(failing).rejects.toThrow("interrupted");
    let times = 0;
    const generate = async (dir: string): Promise<void> => {
      times++;
      writeFileSync(join(dir, "whole"), "");
    };
    const dir = await generated("things", generate);
    expect(await generated("things", generate)).toBe(dir);
    expect(times).toBe(1);
    expect(readdirSync(dir)).toEqual(["whole"]);
    expect(dir.startsWith(cacheDir())).toBe(true);

    const abandoned = join(dir, "..", "other.999999999.draft");
    mkdirSync(abandoned);
    await generated("more", generate);
    expect(existsSync(abandoned)).toBe(false);
  } finally {
    delete process.env["XDG_CACHE_HOME"];
  }
});

import { readdirSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { runChild, spawnChild, tempDir } from "../support/spawn.ts";

const serve = new URL("../../examples/serve.ts", import.meta.url);
const demo = new URL("../../examples/demo.ts", import.meta.url);
const SMALL = ["--n", "60", "--k", "30", "--history", "40,150"];
const TIME = /^[\d.,]+ (µs|ms|s)$/;

/** The cells of the row that begins with the label. */
function cellsOf(lines: readonly string[], label: string): string[] {
  const row = lines.find((line) => line.startsWith(label));
  return (row ?? "")
    .slice(label.length)
    .trim()
    .split(/\s{2,}/);
}

describe("serve", () => {
  test("prints each figure beside the reports' way, has kept its promises, and cleans up", async () => {
    const temp = tempDir();
    const lines = await runChild(serve, SMALL, { env: { TMPDIR: temp } });
    for (const label of [
      "24 new workers at once",
      "  meanwhile, a dispatch",
      "  … a re-enrolment",
      "  … a disconnect",
    ]) {
      const cells = cellsOf(lines, label);
      expect(cells.slice(0, 5), label).toEqual(Array.from({ length: 5 }, () => expect.stringMatching(TIME)));
      expect(cells[5], label).toMatch(/×$/);
    }
    expect(cellsOf(lines, "30 new workers at once")[0]).toMatch(TIME);
    for (const [title, heads] of [
      ["median", ["1 / 40", "36 / 40", "1 / 150", "36 / 150"]],
      ["report 3755's way", ["1 / 40", "36 / 40"]],
    ] as const) {
      const below = lines.slice(lines.findIndex((line) => line.startsWith(title)));
      expect(cellsOf(below, title)).toEqual(heads);
      for (const label of ["  queue wait", "  lease bookkeeping", "  persistence", "  response", "completion"])
        expect(cellsOf(below, label), label).toEqual(heads.map(() => expect.stringMatching(TIME)));
    }
    const text = lines.join("\n");
    expect(text).toMatch(/30 workers that gave up.*together they used 30 of the allowance/s);
    expect(text).toMatch(/booted again over \d+ leases: ready in .*the 19 leases\nthat were left active had ended/);
    expect(lines.filter((line) => /^[✓✗] /.test(line))).toHaveLength(5);
    expect(readdirSync(temp)).toEqual([]);
  }, 180_000);

  test.each(["index of the server", "lease history 90,000"])(
    "stops at once when it is interrupted in the phase %j, and leaves nothing",
    async (phase) => {
      const temp = tempDir();
      const args = ["--only", "serve", "--n", "60", "--k", "5", "--history", "40,90000"];
      const child = spawnChild(demo, args, { env: { TMPDIR: temp } });
      for (let line = ""; !line.startsWith(phase); ) line = await child.line();
      expect(readdirSync(temp)).toHaveLength(1);
      process.kill(child.pid, "SIGINT");
      expect((await child.exit).code).toBe(130);
      expect(readdirSync(temp)).toEqual([]);
    },
  );

  test("refuses sizes that make no sense", async () => {
    const child = spawnChild(serve, ["--history", "many"]);
    const { code, stderr } = await child.exit;
    expect(code).toBe(2);
    expect(stderr).toContain("usage");
  });
});

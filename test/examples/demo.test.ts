import { readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { runChild, spawnChild, tempDir } from "../support/spawn.ts";

const demo = new URL("../../examples/demo.ts", import.meta.url);

describe("the demo", () => {
  it("finds, creates and lists, prints its table beside the linear scan, and cleans up", async () => {
    const dir = tempDir();
    const lines = await runChild(demo, ["--n", "400", "--k", "30", "--only", "definitions"], { env: { TMPDIR: dir } });
    const text = lines.join("\n");
    for (const row of ["existing", "missing", "UUID-named", "mismatched"]) {
      expect(text).toMatch(new RegExp(`${row} \\w+ .*\\d (µs|ms|s) .* ×`));
    }
    expect(text).toMatch(/create a new name, 24 at once .* ×/);
    expect(text).toMatch(/create a new name, 30 at once .* ×/);
    expect(lines.filter((line) => /^[✓✗] /.test(line))).toHaveLength(4);
    expect(lines.filter((line) => line.startsWith("write 400 definitions"))).not.toEqual([]);
    expect(readdirSync(dir)).toEqual([]);
  });

  it.each(["write", "index"])(
    "stops at once when it is interrupted in the phase %j, and leaves nothing",
    async (phase) => {
      const dir = tempDir();
      const child = spawnChild(demo, ["--n", "8000"], { env: { TMPDIR: dir } });
      for (let line = ""; !line.startsWith(phase); ) line = await child.line();
      expect(readdirSync(dir)).toHaveLength(1);
      // Not through the child's own kill(): Deno 2.9 then reports the signal, whatever the exit code was.
      process.kill(child.pid, "SIGINT");
      expect((await child.exit).code).toBe(130);
      expect(readdirSync(dir)).toEqual([]);
    },
  );

  it("refuses sizes that make no sense", async () => {
    for (const args of [
      ["--n", "0"],
      ["--k", "x"],
      ["--history", "40,"],
      ["--only", "nothing"],
    ]) {
      const child = spawnChild(demo, args);
      const { code, stderr } = await child.exit;
      expect(code).toBe(2);
      expect(stderr).toContain("usage");
    }
  });
});

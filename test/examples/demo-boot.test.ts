import { once } from "node:events";
import { readdirSync } from "node:fs";
import { expect, test } from "vitest";
import { runChild, spawnChild, tempDir } from "../support/spawn.ts";

const DEMO = new URL("../../examples/demo-boot.ts", import.meta.url);

test("the boot demo keeps its promises at a small size, says so, and cleans up", async () => {
  const temp = tempDir();
  const lines = await runChild(DEMO, ["--n", "100"], { env: { TMPDIR: temp } });
  const figures = (label: string) =>
    lines
      .find((line) => line.startsWith(label))
      ?.slice(label.length)
      .trim()
      .split(/\s{2,}/);
  expect(lines).toContain("100 leases in 280 versions, 19 of them active");
  expect(figures("artifacts read")).toEqual(["100", "0", "0"]);
  expect(figures("leases expired")).toEqual(["19", "19", "0"]);
  expect(figures("in commits")).toEqual(["19", "1", "0"]);
  expect(Number(figures("leases acquired meanwhile")?.[1])).toBeGreaterThanOrEqual(36);
  expect(readdirSync(temp)).toEqual([]);
});

test("interrupted, it ends at once and leaves nothing behind", async () => {
  const temp = tempDir();
  const child = spawnChild(DEMO, ["--n", "20000"], { env: { TMPDIR: temp } });
  await child.line();
  child.process.kill("SIGINT");
  child.process.stdout?.resume();
  await once(child.process, "exit");
  expect((await child.exit).code).not.toBe(0);
  expect(readdirSync(temp)).toEqual([]);
});

test("a size that makes no sense is refused", async () => {
  await expect(runChild(DEMO, ["--n", "few"])).rejects.toThrow("--n takes a number of leases");
});

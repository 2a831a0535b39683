import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { generateDefinitions } from "../../examples/support/definitions.ts";
import { runChild, spawnChild, tempDir } from "../support/spawn.ts";

const example = (name: string) => new URL(`../../examples/${name}.ts`, import.meta.url);

describe("the quick start", () => {
  test("creates, and finds what it has created", async () => {
    const dir = tempDir();
    const first = await runChild(example("quick-start"), [dir]);
    const second = await runChild(example("quick-start"), [dir]);
    const path = join(dir, "models/acme/db/orders.yaml");
    expect([first[0], second[0]]).toEqual([
      `created orders (postgres) in ${path}`,
      `found orders (postgres) in ${path}`,
    ]);
    expect(first[1]).toMatch(/^by its name: [0-9a-f-]{36}$/);
    expect(second.slice(1)).toEqual([first[1], "what does not exist: null"]);
  });
});

describe("the long scan", () => {
  test("counts what it finds, says what is wrong, and ends by itself", async () => {
    const dir = tempDir();
    await generateDefinitions(dir, 60);
    mkdirSync(join(dir, "broken"));
    writeFileSync(join(dir, "broken/x.yaml"), "name: [");
    const child = spawnChild(example("long-scan"), [dir]);
    const lines: string[] = [];
    for await (const line of child.lines) lines.push(line);
    const { code, stderr } = await child.exit;
    expect(code).toBe(0);
    expect(lines.at(-1)).toBe("60 definitions, 1 files that are none");
    expect(stderr).toContain(join(dir, "broken/x.yaml"));
  });

  test("stops at once when it is interrupted, with exit code 130, and nothing keeps the process", async () => {
    const dir = tempDir();
    await generateDefinitions(dir, 20_000);
    const before = readdirSync(dir, { recursive: true });
    const temp = tempDir();
    const child = spawnChild(example("long-scan"), [dir], { env: { TMPDIR: temp } });
    expect(await child.line()).toMatch(/^scan \d+%/);
    const start = performance.now();
    process.kill(child.pid, "SIGINT");
    const lines: string[] = [];
    for await (const line of child.lines) lines.push(line);
    expect((await child.exit).code).toBe(130);
    // Some milliseconds, on a machine that does nothing else.
    expect(performance.now() - start).toBeLessThan(2_000);
    expect(lines.at(-1)).toMatch(/^stopped by SIGINT after \d+ definitions$/);
    expect(readdirSync(dir, { recursive: true })).toEqual(before);
    expect(readdirSync(temp)).toEqual([]);
  });
});

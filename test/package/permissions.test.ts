/** What each room needs of Deno's permissions is what README says, and the lack of one is named. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const child = fileURLToPath(new URL("permissions.child.ts", import.meta.url));

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "tussock-permissions-"));
  use("prepare", "read", "write");
});
afterAll(() => rmSync(dir, { recursive: true }));

interface Outcome {
  gives?: unknown;
  name?: string;
  code?: string;
  message?: string;
}

function use(room: string, ...permissions: string[]): Outcome {
  const flags = permissions.map((each) => `--allow-${each}`);
  const args = ["run", "--quiet", "--no-prompt", ...flags, child, room, dir];
  const { stdout, stderr } = spawnSync(`${root}/node_modules/.bin/deno`, args, { encoding: "utf8", cwd: root });
  expect(stdout, stderr).not.toBe("");
  return JSON.parse(stdout) as Outcome;
}

describe("on Deno", () => {
  test("a scan needs --allow-read, and --allow-env for files that the parser must read", () => {
    expect(use("scan", "read", "env")).toEqual({ gives: ["a"] });
    expect(use("scan", "read")).toMatchObject({
      code: "DEFINITION_READ",
      message: expect.stringContaining("--allow-env"),
    });
    expect(use("scan", "env")).toMatchObject({
      code: "DEFINITION_READ",
      message: expect.stringContaining("--allow-read"),
    });
  });

  test("so does a scan of artifacts, whose metadata it does not blame", () => {
    expect(use("artifacts", "read", "write", "env")).toEqual({ gives: ["artifact", "mark"] });
    const message = expect.stringContaining("--allow-env");
    expect(use("artifacts", "read", "write")).toMatchObject({ code: "DEFINITION_READ", message });
  });

  test("the definition index needs read, write, ffi and env, and sys to be exact", () => {
    expect(use("definitions", "read", "write", "ffi", "env", "sys")).toEqual({
      gives: { name: "a", freshness: "exact", reason: null },
    });
    const bounded = { name: "a", freshness: "bounded", reason: expect.stringContaining("--allow-sys") };
    expect(use("definitions", "read", "write", "ffi", "env")).toEqual({ gives: bounded });
  });

  test.each([
    ["ffi", ["read", "write", "env", "sys"]],
    ["env", ["read", "write", "ffi", "sys"]],
    ["write", ["read", "env", "ffi", "sys"]],
  ])("without --allow-%s the definition index says so", (lacking, given) => {
    const message = expect.stringContaining(`--allow-${lacking}`);
    expect(use("definitions", ...given)).toMatchObject({ code: "INDEX_UNAVAILABLE", message });
  });

  test("state over SQLite needs read and write", () => {
    expect(use("state", "read", "write")).toEqual({ gives: 1 });
    const message = expect.stringContaining("--allow-write");
    expect(use("state", "read")).toMatchObject({ code: "STATE_STORE_UNAVAILABLE", message });
  });

  test("state over PostgreSQL needs net and env", () => {
    const lacking = (flag: string) => ({
      code: "STATE_STORE_UNAVAILABLE",
      message: expect.stringContaining(`--allow-${flag}`),
    });
    expect(use("postgres", "read", "env")).toMatchObject(lacking("net"));
    expect(use("postgres", "read", "net")).toMatchObject(lacking("env"));
  });

  test("locks and liveness need read and write, and ffi for flock", () => {
    expect(use("lock", "read", "write")).toEqual({ gives: ["sqlite", "held"] });
    expect(use("lock", "read", "write", "ffi")).toEqual({ gives: ["flock", "held"] });
    expect(use("liveness", "read", "write")).toEqual({ gives: [true, "alive"] });
  });
});

/** One server for all test files of a run. */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { PostgresServer } from "./postgres.ts";
import { runtimeArgs } from "./spawn.ts";

const START_MS = 30_000;

/**
 * The server that all test files of a run share; the first that asks starts it. A string: why there is none.
 * It is ended when the process that runs the tests has ended, however that came.
 */
export async function sharedServer(): Promise<PostgresServer | string> {
  const runner = process.ppid;
  const dir = join(tmpdir(), `tussock-postgres-of-${runner}`);
  const answer = join(dir, "server.json");
  if (mkdirSync(dir, { recursive: true }) !== undefined) {
    const child = new URL("./postgres.child.ts", import.meta.url);
    spawn(process.execPath, runtimeArgs(child, [dir, String(runner)]), { detached: true, stdio: "ignore" }).unref();
  }
  const until = performance.now() + START_MS;
  while (!existsSync(answer)) {
    if (performance.now() > until) return "it does not start";
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return JSON.parse(readFileSync(answer, "utf8")) as PostgresServer | string;
}

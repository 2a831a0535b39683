/** Starts the same runtime (Node or Deno) on a helper program, so that every multi-process test runs on both. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";

export const isDeno = "Deno" in globalThis;
export const isLong = Boolean(process.env["TUSSOCK_LONG"]);

/** The arguments that make this runtime run `file`. */
export function runtimeArgs(file: string | URL, args: readonly string[] = []): string[] {
  const path = typeof file === "string" ? file : fileURLToPath(file);
  return isDeno ? ["run", "-A", "--quiet", path, ...args] : ["--disable-warning=ExperimentalWarning", path, ...args];
}

export interface Child {
  readonly process: ChildProcess;
  readonly pid: number;
  /** Lines that the child prints, in order; ends when its output does. */
  readonly lines: AsyncIterableIterator<string>;
  /** The next line, or an error when the child ended before it. */
  line(): Promise<string>;
  send(line: string): void;
  readonly exit: Promise<{ code: number | null; signal: NodeJS.Signals | null; stderr: string }>;
}

export interface SpawnOptions {
  env?: Record<string, string>;
  cwd?: string;
  /** A command in front, such as `["unshare", "--pid", "--fork"]`. */
  prefix?: readonly string[];
}

export function spawnChild(file: string | URL, args: readonly string[] = [], options: SpawnOptions = {}): Child {
  const command = [...(options.prefix ?? []), process.execPath, ...runtimeArgs(file, args)];
  const child = spawn(command[0]!, command.slice(1), {
    stdio: ["pipe", "pipe", "pipe"],
    env: { ...process.env, NO_COLOR: "1", ...options.env },
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
  });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const exit = new Promise<{ code: number | null; signal: NodeJS.Signals | null; stderr: string }>(
    (resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code, signal) => resolve({ code, signal, stderr }));
    },
  );
  child.stdin.on("error", () => {});
  return {
    process: child,
    pid: child.pid!,
    lines: lines as AsyncIterableIterator<string>,
    async line() {
      const next = await lines.next();
      if (next.done) throw new Error(`child ended before it said anything more: ${(await exit).stderr}`);
      return next.value;
    },
    send: (line) => {
      child.stdin.write(`${line}\n`);
    },
    exit,
  };
}

/** Runs the program to its end and returns what it printed; throws when it fails. */
export async function runChild(
  file: string | URL,
  args: readonly string[] = [],
  options: SpawnOptions = {},
): Promise<string[]> {
  const child = spawnChild(file, args, options);
  const lines: string[] = [];
  for await (const line of child.lines) lines.push(line);
  const { code, signal, stderr } = await child.exit;
  if (code !== 0) throw new Error(`child ended with ${code ?? signal}: ${stderr}`);
  return lines;
}

/** A fresh directory that is removed when the test has finished. */
export function tempDir(prefix = "tussock-"): string {
  const dir = mkdtempSync(join(tmpdir(), prefix));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

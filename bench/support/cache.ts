/**
 * The directory with generated data, outside the repository: `$XDG_CACHE_HOME/tussock-bench`, else
 * `{tmpdir}/tussock-bench-cache`. What is there is used again; scratch directories are of one run.
 */
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";

/** Rises when what is generated changes. */
const VERSION = 1;

export function cacheDir(): string {
  const base = process.env["XDG_CACHE_HOME"];
  return base ? join(base, "tussock-bench") : join(tmpdir(), "tussock-bench-cache");
}

export function clean(): void {
  rmSync(cacheDir(), { recursive: true, force: true });
}

/** The directory of one set of data, generated if need be; one that was not finished is begun anew. */
export async function generated(name: string, generate: (dir: string) => Promise<void>): Promise<string> {
  const dir = join(cacheDir(), `v${VERSION}`, name);
  if (existsSync(dir)) return dir;
  const draft = `${dir}.${process.pid}.draft`;
  removeAbandoned(join(dir, ".."));
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { recursive: true });
  await generate(draft);
  renameSync(draft, dir);
  return dir;
}

/** A directory of this process, on the same file system as the data; removed by {@link removeScratch}. */
export function scratch(name: string): string {
  const dir = join(cacheDir(), "scratch", String(process.pid), name);
  rmSync(dir, { recursive: true, force: true });
  mkdirSync(dir, { recursive: true });
  return dir;
}

/** Also of a process that has ended. */
export function removeScratch(pid = process.pid): void {
  rmSync(join(cacheDir(), "scratch", String(pid)), { recursive: true, force: true });
}

/** Drafts of processes that have not come to their end. */
function removeAbandoned(dir: string): void {
  if (!existsSync(dir)) return;
  for (const name of readdirSync(dir)) {
    const pid = /\.(\d+)\.draft$/.exec(name)?.[1];
    if (pid !== undefined && !isAlive(Number(pid))) rmSync(join(dir, name), { recursive: true, force: true });
  }
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Tells cleaners and sync services to leave it alone. */
export function prepareCache(): void {
  mkdirSync(cacheDir(), { recursive: true });
  writeFileSync(join(cacheDir(), "CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55\n");
}

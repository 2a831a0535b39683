/** What it was measured on, and how busy that was. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { arch, availableParallelism, cpus, loadavg, platform, release, totalmem } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { quantile } from "../harness.ts";

export interface Machine {
  cpu: string;
  cores: number;
  memoryBytes: number;
  system: string;
  /** Of the directory with the generated data. */
  fileSystem: string;
}

export function describeMachine(cacheDir: string): Machine {
  return {
    cpu: cpus()[0]?.model ?? "unknown",
    cores: availableParallelism(),
    memoryBytes: totalmem(),
    system: `${platform()} ${release()} ${arch()}`,
    fileSystem: fileSystemOf(cacheDir),
  };
}

/** The type that the longest mount point above `dir` has. */
function fileSystemOf(dir: string): string {
  try {
    const real = realpathSync(dir);
    const mounts = readFileSync("/proc/self/mounts", "utf8")
      .split("\n")
      .map((line) => line.split(" "))
      .filter(([, point = ""]) => real === point || real.startsWith(point.endsWith("/") ? point : `${point}/`));
    return (
      mounts.reduce((best, mount) => ((mount[1] ?? "").length >= (best[1] ?? "").length ? mount : best), [])[2] ?? ""
    );
  } catch {
    return "unknown";
  }
}

const REPOSITORY = join(import.meta.dirname, "../..");

export type Versions = Record<string, string>;

export function describeVersions(): Versions {
  const versions: Versions = {};
  for (const name of ["node", "deno", "v8", "sqlite"]) {
    const version = process.versions[name];
    if (version !== undefined) versions[name] = version;
  }
  for (const name of ["lmdb", "yaml", "koffi"]) {
    const manifest = join(REPOSITORY, "node_modules", name, "package.json");
    if (existsSync(manifest)) versions[name] = versionIn(manifest);
  }
  versions["tussock"] = versionIn(join(REPOSITORY, "package.json"));
  const commit = commitOf();
  if (commit !== null) versions["commit"] = commit;
  return versions;
}

function versionIn(manifest: string): string {
  return (JSON.parse(readFileSync(manifest, "utf8")) as { version: string }).version;
}

function commitOf(): string | null {
  try {
    const git = (...args: string[]): string =>
      execFileSync("git", args, { cwd: REPOSITORY, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
    return git("rev-parse", "--short", "HEAD").trim() + (git("status", "--porcelain", "--", "src") ? "+" : "");
  } catch {
    return null;
  }
}

/** A fixed piece of arithmetic: how long it takes tells machines apart, and how much longer than its CPU time how busy one is. */
export interface Calibration {
  spinMs: number;
  spinCpuMs: number;
  /** 1 on a quiet machine; 2 where every second moment went to somebody else. */
  contention: number;
  load: number;
}

const SPINS = 7;

export function calibrate(): Calibration {
  const walls: number[] = [];
  const cpu: number[] = [];
  for (let n = 0; n < SPINS; n++) {
    const before = process.cpuUsage();
    const start = performance.now();
    spin();
    walls.push(performance.now() - start);
    const { user, system } = process.cpuUsage(before);
    cpu.push((user + system) / 1000);
  }
  const [spinMs, spinCpuMs] = [quantile(walls, 0.5), quantile(cpu, 0.5)];
  const contentions = walls.map((wall, n) => wall / Math.max(cpu[n] ?? wall, 0.001));
  return { spinMs, spinCpuMs, contention: Math.max(1, quantile(contentions, 0.5)), load: loadavg()[0] ?? 0 };
}

function spin(): number {
  let x = 0x9e3779b9;
  for (let i = 0; i < 10_000_000; i++) {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
  }
  return x;
}

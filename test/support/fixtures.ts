/** Fixtures to write into: each test gets a copy of its own. */
import {
  copyFileSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { tempDir } from "./spawn.ts";

export const fixturesDir = fileURLToPath(new URL("../fixtures", import.meta.url));

export type FixtureName = "definitions" | "leases";

/**
 * Copies `test/fixtures/{name}` into a fresh directory, with every symbolic link that `links.json` names (a checkout may
 * lack them), and removes it when the test has finished. Returns the copy's absolute path.
 */
export function copyFixture(name: FixtureName): string {
  const to = join(tempDir("tussock-fixture-"), name);
  copyTree(join(fixturesDir, name), to);
  for (const [path, target] of Object.entries(links())) {
    if (!path.startsWith(`${name}/`)) continue;
    const link = join(dirname(to), path);
    rmSync(link, { force: true });
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(target, link);
  }
  return to;
}

/** The answers that a fixture comes with. */
export function expectedOf<T>(name: FixtureName): T {
  return JSON.parse(readFileSync(join(fixturesDir, name, "expected.json"), "utf8")) as T;
}

function links(): Record<string, string> {
  return JSON.parse(readFileSync(join(fixturesDir, "links.json"), "utf8")) as Record<string, string>;
}

function copyTree(from: string, to: string): void {
  mkdirSync(to);
  for (const name of readdirSync(from)) {
    const source = join(from, name);
    const target = join(to, name);
    const stat = lstatSync(source);
    if (stat.isDirectory()) copyTree(source, target);
    else if (stat.isSymbolicLink()) symlinkSync(readlinkSync(source), target);
    else copyFileSync(source, target);
  }
}

/**
 * The library that is measured: the built package, since stripping types when a worker starts is no part of what users
 * get; or the sources; or another build, such as that of an earlier commit.
 */
import { execFileSync } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type * as Definitions from "../../src/definitions/index.ts";
import type * as Scan from "../../src/scan/index.ts";
import type * as State from "../../src/state/index.ts";
import type * as Transitions from "../../src/transitions/index.ts";

const REPOSITORY = resolve(import.meta.dirname, "../..");

interface Rooms {
  definitions: typeof Definitions;
  scan: typeof Scan;
  state: typeof State;
  transitions: typeof Transitions;
}

/** The file that holds a room, or all of them (`index`). */
export function entryOf(library: string, room: keyof Rooms | "index"): string {
  if (library === "src") return join(REPOSITORY, "src", room === "index" ? "index.ts" : `${room}/index.ts`);
  return join(library === "dist" ? join(REPOSITORY, "dist") : resolve(library), `${room}.js`);
}

export async function load<Room extends keyof Rooms>(library: string, room: Room): Promise<Rooms[Room]> {
  return (await import(pathToFileURL(entryOf(library, room)).href)) as Rooms[Room];
}

/** Builds the package where it is missing or older than a source. */
export function ensureBuilt(library: string): void {
  if (library !== "dist" || !isStale()) return;
  console.log("building the package …");
  execFileSync("npm", ["run", "--silent", "build"], { cwd: REPOSITORY, stdio: ["ignore", "ignore", "inherit"] });
}

function isStale(): boolean {
  const built = statSync(join(REPOSITORY, "dist/index.js"), { throwIfNoEntry: false });
  if (built === undefined) return true;
  const sources = readdirSync(join(REPOSITORY, "src"), { recursive: true, encoding: "utf8" });
  const files = ["tsup.config.ts", "package.json", ...sources.map((file) => join("src", file))];
  return files.some((file) => statSync(join(REPOSITORY, file), { throwIfNoEntry: false })!.mtimeMs > built.mtimeMs);
}

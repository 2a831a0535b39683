/** Prints what importing the file given does to this process. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

function descriptors(): Map<string, string> {
  const open = new Map<string, string>();
  for (const fd of readdirSync("/proc/self/fd"))
    try {
      open.set(fd, readlinkSync(`/proc/self/fd/${fd}`));
    } catch {
      // The descriptor of the listing itself is closed by now.
    }
  return open;
}

function nativeObjects(): Set<string> {
  const maps = readFileSync("/proc/self/maps", "utf8");
  return new Set(maps.match(/\/\S+\.(?:node|so)\b\S*/g) ?? []);
}

/** How many of each kind: a started timer is `Timeout`, a worker `MessagePort`. */
function resources(): Map<string, number> {
  const counts = new Map<string, number>();
  for (const kind of process.getActiveResourcesInfo?.() ?? []) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return counts;
}

const file = process.argv[2] as string;
const require = createRequire(import.meta.url);
// What the runtime opens by itself at the first use of its loaders and of the standard streams (at which `node:util`
// looks when it is imported) is none of the library's doing.
void [process.stdin, process.stdout, process.stderr];
await import(pathToFileURL(`${import.meta.dirname}/report.ts`).href);
require("node:os");

// A worker's descriptors show only when its thread has come up.
const started: string[] = [];
process.on("worker", () => started.push("a worker"));

const before = { descriptors: descriptors(), native: nativeObjects(), resources: resources() };
const startedAt = performance.now();
const cpuBefore = process.cpuUsage();
if (file.endsWith(".cjs")) require(file);
else await import(pathToFileURL(file).href);
const { user, system } = process.cpuUsage(cpuBefore);
// On a busy machine the clock counts others' work too.
const elapsedMs = Math.min(performance.now() - startedAt, (user + system) / 1000);
// What an import starts in the background shows a moment later.
await new Promise((resolve) => setImmediate(resolve));

const opened = [...descriptors()].filter(([fd, target]) => before.descriptors.get(fd) !== target);
for (const [kind, count] of resources()) if (count > (before.resources.get(kind) ?? 0)) started.push(kind);
const native = [...nativeObjects()].filter((object) => !before.native.has(object));
const descriptorsOpened = opened.map(([, target]) => target);
// How fast this machine is just now: the same for a package that does not change with the library.
const referenceAt = performance.now();
require("yaml");
const referenceMs = performance.now() - referenceAt;
console.log(JSON.stringify({ descriptors: descriptorsOpened, resources: started, native, elapsedMs, referenceMs }));
process.exit(0);

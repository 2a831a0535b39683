/**
 * Changes a repository in every way that files change, and says after each change what a lookup must now answer. It
 * knows nothing of the library: what is right it works out from its own list of what lies where.
 *
 * One JSON line a change: `{ what, asks: [{ by, type, key, want }] }`; it goes on when it is told to.
 */
import {
  chmodSync,
  closeSync,
  existsSync,
  ftruncateSync,
  linkSync,
  lutimesSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";

const [base = "", changes = "100", seed = "1"] = process.argv.slice(2);
const ROOTS = ["models", "auto"];
const TYPES = ["t/a", "t/b", "t/b/c", "u"];
const NAMES = Array.from({ length: 12 }, (_, i) => `n${String(i).padStart(2, "0")}`);

// ── what lies where ─────────────────────────────────────────────────────────────────────────────────

interface Holds {
  id: string;
  name: string;
}
/** By root and path below it; null for a file that is broken. */
const files = new Map<string, Holds | null>();
/** Links, and the file outside the roots that each leads to. */
const links = new Map<string, string>();
const targets = new Map<string, Holds | null>();

let state = Number(seed) >>> 0;
function random(below: number): number {
  state = (state + 0x6d2b79f5) >>> 0;
  let x = Math.imul(state ^ (state >>> 15), 1 | state);
  x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x;
  return ((x ^ (x >>> 14)) >>> 0) % below;
}
const pick = <T>(list: readonly T[]): T => list[random(list.length)] as T;

let nextId = 0;
const newId = (): string => `00000000-0000-4000-8000-${String(nextId++).padStart(12, "0")}`;
const text = (holds: Holds | null): string =>
  holds === null ? "id: [broken\nname: x\n" : `type: t\nid: ${holds.id}\nname: ${holds.name}\nversion: 1\n`;

const at = (path: string): string => join(base, "repo", path);
const typeOf = (path: string): string => path.split("/").slice(1, -1).join("/");
const rootOf = (path: string): string => path.split("/")[0] ?? "";
const fileOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

function held(path: string): Holds | null | undefined {
  const target = links.get(path);
  return target === undefined ? files.get(path) : targets.get(target);
}

function all(): string[] {
  return [...files.keys(), ...links.keys()];
}

function winner(by: "name" | "id", type: string | null, key: string): string | null {
  for (const root of ROOTS) {
    const here = all()
      .filter((path) => rootOf(path) === root && (type === null || typeOf(path) === type) && held(path)?.[by] === key)
      .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    const preferred = type === null ? undefined : here.find((path) => fileOf(path) === `${key}.yaml`);
    const best = preferred ?? here[0];
    if (best !== undefined) return best;
  }
  if (by === "name" && type !== null) {
    for (const root of ROOTS) if (held(`${root}/${type}/${key}.yaml`) === null) return "problem";
  }
  return null;
}

// ── changes ─────────────────────────────────────────────────────────────────────────────────────────

/** What the change may have changed the answers for. */
let touched: { type: string; names: Set<string>; ids: Set<string> }[] = [];
function touch(path: string): void {
  const holds = held(path);
  const called = fileOf(path).slice(0, -".yaml".length);
  touched.push({
    type: typeOf(path),
    names: new Set([called, ...(holds ? [holds.name] : [])]),
    ids: new Set(holds ? [holds.id] : []),
  });
}

function set(path: string, holds: Holds | null): void {
  touch(path);
  links.delete(path);
  files.set(path, holds);
  touch(path);
}

function remove(path: string): void {
  touch(path);
  files.delete(path);
  links.delete(path);
}

const anyPath = (): string => `${pick(ROOTS)}/${pick(TYPES)}/${random(8) === 0 ? newId() : pick(NAMES)}.yaml`;
const anyFile = (): string | undefined => pick([...files.keys()].length > 0 ? [...files.keys()] : [undefined as never]);
const anyHolds = (path: string): Holds | null =>
  random(12) === 0 ? null : { id: newId(), name: random(3) === 0 ? pick(NAMES) : fileOf(path).slice(0, -5) };

/** The files and links of a directory that was renamed. */
function moveFiles(root: string, from: string, to: string): void {
  for (const path of all().filter((p) => p.startsWith(`${root}/${from}/`))) {
    const moved = `${root}/${to}${path.slice(root.length + 1 + from.length)}`;
    const target = links.get(path);
    touch(path);
    if (target !== undefined) links.set(moved, target);
    else files.set(moved, files.get(path) ?? null);
    files.delete(path);
    links.delete(path);
    touch(moved);
  }
}

function place(path: string): void {
  mkdirSync(dirname(at(path)), { recursive: true });
  // A link is written through: the file that it leads to is not ours to change here.
  if (links.has(path)) unlinkSync(at(path));
}

const OPERATIONS: Record<string, () => boolean> = {
  create() {
    const path = anyPath();
    const holds = anyHolds(path);
    place(path);
    writeFileSync(at(path), text(holds));
    set(path, holds);
    return true;
  },
  renameOver() {
    const path = anyPath();
    const holds = anyHolds(path);
    place(path);
    const temporary = join(dirname(at(path)), `.${newId()}.tmp`);
    writeFileSync(temporary, text(holds));
    renameSync(temporary, at(path));
    set(path, holds);
    return true;
  },
  renameAway() {
    const from = anyFile();
    if (from === undefined) return false;
    const to = anyPath();
    if (to === from) return false;
    const holds = files.get(from) ?? null;
    place(to);
    renameSync(at(from), at(to));
    remove(from);
    set(to, holds);
    return true;
  },
  editInPlace() {
    const path = anyFile();
    const before = path === undefined ? null : files.get(path);
    if (path === undefined || !before) return false;
    // The same number of bytes, so that only the content and the times tell.
    const after = { id: before.id, name: pick(NAMES) };
    if (after.name.length !== before.name.length) return false;
    const fd = openSync(at(path), "r+");
    writeSync(fd, text(after), 0);
    closeSync(fd);
    set(path, after);
    return true;
  },
  editAndSetTimesBack() {
    const path = anyFile();
    const before = path === undefined ? null : files.get(path);
    if (path === undefined || !before) return false;
    const { atime, mtime } = statSync(at(path));
    const after = { id: before.id, name: before.name.length === 3 ? pick(NAMES) : before.name };
    const fd = openSync(at(path), "r+");
    writeSync(fd, text(after), 0);
    closeSync(fd);
    utimesSync(at(path), atime, mtime);
    set(path, after);
    return true;
  },
  truncateAndWrite() {
    const path = anyFile();
    if (path === undefined) return false;
    const holds = anyHolds(path);
    const fd = openSync(at(path), "r+");
    ftruncateSync(fd, 0);
    writeSync(fd, text(holds), 0);
    closeSync(fd);
    set(path, holds);
    return true;
  },
  delete() {
    const path = anyFile();
    if (path === undefined) return false;
    unlinkSync(at(path));
    remove(path);
    return true;
  },
  swap() {
    const a = anyFile();
    const b = anyFile();
    if (a === undefined || b === undefined || a === b) return false;
    const spare = `${at(a)}.swap`;
    renameSync(at(a), spare);
    renameSync(at(b), at(a));
    renameSync(spare, at(b));
    const [x, y] = [files.get(a) ?? null, files.get(b) ?? null];
    set(a, y);
    set(b, x);
    return true;
  },
  hardLink() {
    const from = anyFile();
    const to = anyPath();
    if (from === undefined || files.has(to) || links.has(to)) return false;
    place(to);
    // A second name for one file, then the first goes: the inode stays.
    linkSync(at(from), at(to));
    unlinkSync(at(from));
    const holds = files.get(from) ?? null;
    remove(from);
    set(to, holds);
    return true;
  },
  modeOnly() {
    const path = anyFile();
    if (path === undefined) return false;
    chmodSync(at(path), 0o600 + random(2) * 0o44);
    touch(path);
    return true;
  },
  touchOnly() {
    const path = anyFile();
    if (path === undefined) return false;
    lutimesSync(at(path), 1_000_000 + random(1000), 1_000_000 + random(1000));
    touch(path);
    return true;
  },
  moveDirectory() {
    const [from, to] = random(2) === 0 ? ["t/b", "t/moved"] : ["u", "t/u2"];
    const root = pick(ROOTS);
    if (!existsSync(at(`${root}/${from}`)) || existsSync(at(`${root}/${to}`))) return false;
    mkdirSync(dirname(at(`${root}/${to}`)), { recursive: true });
    renameSync(at(`${root}/${from}`), at(`${root}/${to}`));
    moveFiles(root, from, to);
    return true;
  },
  moveDirectoryBack() {
    const root = pick(ROOTS);
    for (const [from, to] of [
      ["t/moved", "t/b"],
      ["t/u2", "u"],
    ] as const) {
      if (!existsSync(at(`${root}/${from}`))) continue;
      for (const path of all().filter((p) => p.startsWith(`${root}/${to}/`))) remove(path);
      rmSync(at(`${root}/${to}`), { recursive: true, force: true });
      renameSync(at(`${root}/${from}`), at(`${root}/${to}`));
      moveFiles(root, from, to);
      return true;
    }
    return false;
  },
  makeDirectoryAndFile() {
    const path = `${pick(ROOTS)}/v${random(1000)}/w/x/${pick(NAMES)}.yaml`;
    const holds = anyHolds(path);
    place(path);
    writeFileSync(at(path), text(holds));
    set(path, holds);
    return true;
  },
  removeDirectory() {
    const path = all().find((p) => p.includes("/w/x/"));
    if (path === undefined) return false;
    const top = path.split("/").slice(0, 2).join("/");
    rmSync(at(top), { recursive: true });
    for (const gone of all().filter((p) => p.startsWith(`${top}/`))) remove(gone);
    return true;
  },
  linkTo() {
    const path = anyPath();
    const target = `target${random(6)}`;
    mkdirSync(dirname(at(path)), { recursive: true });
    const spare = `${at(path)}.link`;
    symlinkSync(join(base, "repo", "elsewhere", target), spare);
    renameSync(spare, at(path));
    touch(path);
    files.delete(path);
    links.set(path, target);
    touch(path);
    return true;
  },
  rewriteTarget() {
    const target = `target${random(6)}`;
    const holds = { id: newId(), name: pick(NAMES) };
    const concerned = [...links].filter(([, to]) => to === target).map(([path]) => path);
    for (const path of concerned) touch(path);
    mkdirSync(join(base, "repo", "elsewhere"), { recursive: true });
    if (random(2) === 0) writeFileSync(join(base, "repo", "elsewhere", target), text(holds));
    else {
      writeFileSync(join(base, "repo", "elsewhere", `${target}.new`), text(holds));
      renameSync(join(base, "repo", "elsewhere", `${target}.new`), join(base, "repo", "elsewhere", target));
    }
    targets.set(target, holds);
    for (const path of concerned) touch(path);
    return true;
  },
  swapParent() {
    // The root's own parent goes, for a moment or for good, and another tree stands in its place.
    if (random(10) !== 0) return false;
    renameSync(join(base, "repo"), join(base, "repo.old"));
    mkdirSync(join(base, "repo"));
    for (const path of all()) {
      const target = links.get(path);
      touch(path);
      if (random(2) === 0) {
        files.delete(path);
        links.delete(path);
        continue;
      }
      mkdirSync(dirname(at(path)), { recursive: true });
      if (target !== undefined) symlinkSync(join(base, "repo", "elsewhere", target), at(path));
      else writeFileSync(at(path), readFileSync(join(base, "repo.old", path)));
    }
    if (existsSync(join(base, "repo.old", "elsewhere"))) {
      renameSync(join(base, "repo.old", "elsewhere"), join(base, "repo", "elsewhere"));
    }
    rmSync(join(base, "repo.old"), { recursive: true });
    return true;
  },
  removeRoot() {
    if (random(10) !== 0) return false;
    const root = pick(ROOTS);
    if (!existsSync(at(root))) return false;
    for (const path of all().filter((p) => rootOf(p) === root)) remove(path);
    rmSync(at(root), { recursive: true });
    return true;
  },
};

// ── the run ─────────────────────────────────────────────────────────────────────────────────────────

for (const target of Array.from({ length: 6 }, (_, i) => `target${i}`)) {
  targets.set(target, { id: newId(), name: pick(NAMES) });
  mkdirSync(join(base, "repo", "elsewhere"), { recursive: true });
  writeFileSync(join(base, "repo", "elsewhere", target), text(targets.get(target) ?? null));
}
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const names = Object.keys(OPERATIONS);
for (let change = 0; change < Number(changes); ) {
  touched = [];
  const what = pick(names);
  if (!OPERATIONS[what]?.()) continue;
  change++;
  const asks = new Map<string, { by: "name" | "id"; type: string | null; key: string; want: string | null }>();
  const ask = (by: "name" | "id", type: string | null, key: string): void => {
    if (asks.size < 40) asks.set(`${by} ${type} ${key}`, { by, type, key, want: winner(by, type, key) });
  };
  for (const { type, names, ids } of touched) {
    for (const name of names) ask("name", type, name);
    for (const id of ids) ask("id", type, id);
  }
  ask("name", pick(TYPES), pick(NAMES));
  if (change % 4 === 0) ask("name", null, pick(NAMES));
  // In any order: no answer may rest on what an earlier one has looked at.
  const shuffled = [...asks.values()].map((one) => ({ one, at: random(1_000_000) })).sort((a, b) => a.at - b.at);
  process.stdout.write(`${JSON.stringify({ what, asks: shuffled.map(({ one }) => one) })}\n`);
  const { done, value } = await answers.next();
  if (done || value !== "go on") break;
}
process.exit(0);

/** Random trees of definitions, and whatever may happen to one, done with plain file system calls. */
import {
  chmodSync,
  closeSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import fc from "fast-check";

export const MAX_FILE_BYTES = 4096;

const LONG = "n".repeat(200);
export const TYPES = ["swamp/echo", "swamp/worker", "swamp/echo/sub", "aws/ec2", "@acme/db", "swamp/dir.yaml", ""];
/** None is the beginning of another with a slash behind. */
export const ROOT_DIRS = { models: "one/models", auto: "two/.swamp/auto" } as const;
export type RootName = keyof typeof ROOT_DIRS;
export const ROOTS = Object.keys(ROOT_DIRS) as RootName[];

export const IDS = [1, 2, 3, 4].map((n) => `0000000${n}-1111-4222-8333-00000000000${n}`).concat("plain-id", "web");
export const NAMES = [
  "web",
  "db",
  IDS[0]!,
  "Has Space",
  "@acme/scoped",
  "naïve",
  "\u{1F600}",
  "\uFF21",
  "\ud800",
  "\ufffd",
  "0123",
  "yes",
  LONG,
  "x".repeat(3000),
];

const FILENAMES = [
  ...["web", "db", "copy", "zz", "naïve", "\u{1F600}", "\uFF21", "\ufffd", LONG, ...IDS].map((stem) => `${stem}.yaml`),
  ".dotted.yaml",
  "Web.yaml",
  "web.yml",
  "web.YAML",
  "web.yaml~",
  ".1234.tmp",
  "notes.txt",
];

/** Where a file lies. */
export interface Place {
  root: RootName;
  type: string;
  filename: string;
}

export interface Content {
  id: string;
  name: string;
  type: string | null;
  form: (typeof FORMS)[number];
}

const FORMS = ["plain", "quoted", "flow", "json", "crlf", "late", "merge", ...brokenForms()] as const;

function brokenForms() {
  return [
    "syntax",
    "tab",
    "empty",
    "comment",
    "no-id",
    "no-name",
    "number",
    "list",
    "two",
    "twice",
    "alias",
    "nul",
    "huge",
  ] as const;
}

export function textOfContent({ id, name, type, form }: Content): string {
  // JSON escapes half a surrogate pair, which UTF-8 cannot hold.
  const quoted = (text: string): string => JSON.stringify(text);
  const plain = (text: string): string => (/^[a-z][a-z-]*$/.test(text) && text !== "yes" ? text : quoted(text));
  const typed = type === null ? "" : `type: ${quoted(type)}\n`;
  switch (form) {
    case "plain":
      return `${typed}typeVersion: 2026.06.09.1\nid: ${plain(id)}\nname: ${plain(name)}\nversion: 1\ntags: {}\nmethods: {}\n`;
    case "quoted":
      return `---\n"id": ${quoted(id)} # the id\n'name': ${quoted(name)}\n${typed}`;
    case "flow":
      return `{ id: ${quoted(id)}, name: ${quoted(name)}${type === null ? "" : `, type: ${quoted(type)}`} }\n`;
    case "json":
      return JSON.stringify({ id, name, ...(type === null ? {} : { type }), nested: { id: "decoy", name: "decoy" } });
    case "crlf":
      return `${typed}id: ${quoted(id)}\nname: ${quoted(name)}\n`.replaceAll("\n", "\r\n");
    case "late":
      return `nested:\n  id: decoy\n  name: decoy\ntext: |\n  id: decoy\n  name: decoy\n${typed}name: ${quoted(name)}\nid: ${quoted(id)}`;
    case "merge":
      return `base: &base\n  id: ${quoted(id)}\n  name: ${quoted(name)}\n<<: *base\n${typed}`;
    case "syntax":
      return `id: ${quoted(id)}\nname: ${quoted(name)}\nlist: [1, 2\n`;
    case "tab":
      return `type: x\n\tid: ${quoted(id)}\n\tname: ${quoted(name)}\n`;
    case "empty":
      return "";
    case "comment":
      return "# nothing yet\n";
    case "no-id":
      return `${typed}name: ${quoted(name)}\n`;
    case "no-name":
      return `${typed}id: ${quoted(id)}\nname:\n`;
    case "number":
      return `id: ${quoted(id)}\nname: 5\n`;
    case "list":
      return `- id: ${quoted(id)}\n- name: ${quoted(name)}\n`;
    case "two":
      return `id: ${quoted(id)}\nname: ${quoted(name)}\n---\nid: ${quoted(id)}\nname: ${quoted(name)}\n`;
    case "twice":
      return `id: ${quoted(id)}\nname: ${quoted(name)}\nname: ${quoted(name)}\n`;
    case "alias":
      return `id: ${quoted(id)}\nname: *nowhere\n`;
    case "nul":
      return `id: ${quoted(`${id}\0`)}\nname: ${quoted(name)}\n`;
    case "huge":
      return `id: ${quoted(id)}\nname: ${quoted(name)}\ntext: ${"y".repeat(MAX_FILE_BYTES)}\n`;
  }
}

/** What a symbolic link leads to. */
export type Target =
  | { to: "place"; place: Place }
  | { to: "vendor" | "vendor-2" | "outside" | "nowhere" | "directory" };

export type Edit =
  | { kind: "write"; place: Place; content: Content }
  | { kind: "replace"; place: Place; content: Content }
  | { kind: "rename-inside"; place: Place; name: string; keepTimes: boolean }
  | { kind: "truncate"; place: Place }
  | { kind: "move"; from: Place; to: Place }
  | { kind: "move-away"; place: Place }
  | { kind: "swap"; a: Place; b: Place }
  | { kind: "delete"; place: Place }
  | { kind: "delete-type"; root: RootName; type: string }
  | { kind: "move-type"; root: RootName; from: string; to: string }
  | { kind: "replace-type"; root: RootName; type: string; place: Place; content: Content }
  | { kind: "deep"; root: RootName; content: Content }
  | { kind: "link"; place: Place; target: Target }
  | { kind: "write-vendor"; which: "vendor" | "vendor-2"; content: Content }
  | { kind: "replace-vendor"; which: "vendor" | "vendor-2"; content: Content }
  | { kind: "directory-link"; root: RootName; from: string }
  | { kind: "chmod"; place: Place }
  | { kind: "utimes"; place: Place }
  | {
      kind: "replace-root";
      root: RootName;
      how: "aside-and-back" | "aside-and-new" | "removed" | "parent-aside-and-new";
    };

const type = fc.constantFrom(...TYPES);
const root = fc.constantFrom(...ROOTS);
const name = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom("web", "db") },
  { weight: 2, arbitrary: fc.constantFrom(...NAMES) },
);
const filename = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom("web.yaml", "db.yaml", "copy.yaml") },
  { weight: 2, arbitrary: fc.constantFrom(...FILENAMES) },
);
const place: fc.Arbitrary<Place> = fc.record({
  root,
  type: fc.oneof({ weight: 3, arbitrary: fc.constant("swamp/echo") }, { weight: 2, arbitrary: type }),
  filename,
});
const declared = fc.constantFrom(null, "swamp/echo", "AWS::EC2::VPC", "");
const content: fc.Arbitrary<Content> = fc.record({
  id: fc.constantFrom(...IDS),
  name,
  type: declared,
  form: fc.oneof(
    { weight: 5, arbitrary: fc.constant("plain" as const) },
    { weight: 4, arbitrary: fc.constantFrom(...FORMS) },
  ),
});
const target: fc.Arbitrary<Target> = fc.oneof(
  fc.record({ to: fc.constant("place" as const), place }),
  fc.record({
    to: fc.constantFrom(
      "vendor" as const,
      "vendor-2" as const,
      "outside" as const,
      "nowhere" as const,
      "directory" as const,
    ),
  }),
);

export const randomWrite: fc.Arbitrary<Edit> = fc.record({ kind: fc.constant("write" as const), place, content });

export const randomEdit: fc.Arbitrary<Edit> = fc.oneof(
  { weight: 4, arbitrary: randomWrite },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("replace" as const), place, content }) },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant("rename-inside" as const), place, name, keepTimes: fc.boolean() }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("truncate" as const), place }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("move" as const), from: place, to: place }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("move-away" as const), place }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("swap" as const), a: place, b: place }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("delete" as const), place }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("delete-type" as const), root, type }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("move-type" as const), root, from: type, to: type }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("replace-type" as const), root, type, place, content }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("deep" as const), root, content }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("link" as const), place, target }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom("write-vendor" as const, "replace-vendor" as const),
      which: fc.constantFrom("vendor" as const, "vendor-2" as const),
      content,
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("directory-link" as const), root, from: type }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("chmod" as const), place }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("utimes" as const), place }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("replace-root" as const),
      root,
      how: fc.constantFrom(
        "aside-and-back" as const,
        "aside-and-new" as const,
        "removed" as const,
        "parent-aside-and-new" as const,
      ),
    }),
  },
);

export const randomTree: fc.Arbitrary<Edit[]> = fc.array(randomWrite, { maxLength: 25 });

/** `repo` in `base` is the boundary; the roots, the vendored files and what is set aside lie in it; `outside` does not. */
export function layOut(base: string): { boundary: string; roots: { name: RootName; dir: string }[] } {
  const boundary = join(base, "repo");
  mkdirSync(join(boundary, "vendor"), { recursive: true });
  mkdirSync(join(base, "outside"));
  writeFileSync(join(base, "outside/secret.yaml"), `id: ${IDS[0]}\nname: web\n`);
  return { boundary, roots: ROOTS.map((r) => ({ name: r, dir: join(boundary, ROOT_DIRS[r]) })) };
}

let aside = 0;

/** Does it, as far as it can be done: what a missing file forbids, is left. */
export function applyEdit(base: string, edit: Edit): void {
  try {
    attempt(join(base, "repo"), edit);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const usual = ["ENOENT", "ENOTDIR", "EISDIR", "EEXIST", "ENOTEMPTY", "EINVAL", "ELOOP", "ERR_FS_EISDIR", "EPERM"];
    if (code === undefined || !usual.includes(code)) throw error;
  }
}

type Doers = { [K in Edit["kind"]]: (edit: Extract<Edit, { kind: K }>) => void };

function attempt(repo: string, edit: Edit): void {
  const dirOf = (r: RootName, t: string): string => join(repo, ROOT_DIRS[r], t);
  const pathOf = (p: Place): string => join(dirOf(p.root, p.type), p.filename);
  const vendorOf = (which: string): string => join(repo, "vendor", `${which}.yaml`);
  const away = (): string => join(repo, "vendor", `aside-${aside++}`);
  const doers: Doers = {
    write: ({ place: p, content: c }) => write(pathOf(p), textOfContent(c)),
    replace: ({ place: p, content: c }) => replace(pathOf(p), textOfContent(c)),
    "rename-inside": (e) => renameInside(pathOf(e.place), e.name, e.keepTimes),
    truncate: (e) => truncateSync(pathOf(e.place)),
    move: ({ from, to }) => moveTo(pathOf(from), pathOf(to)),
    "move-away": (e) => renameSync(pathOf(e.place), away()),
    swap: ({ a, b }) => swap(pathOf(a), pathOf(b), away()),
    delete: (e) => unlinkSync(pathOf(e.place)),
    "delete-type": (e) => rmSync(dirOf(e.root, e.type), { recursive: true }),
    "move-type": (e) => moveTo(dirOf(e.root, e.from), dirOf(e.root, e.to)),
    "replace-type": (e) => {
      renameSync(dirOf(e.root, e.type), away());
      write(join(dirOf(e.root, e.type), e.place.filename), textOfContent(e.content));
    },
    deep: (e) => write(join(dirOf(e.root, "deep/a/b/c"), "web.yaml"), textOfContent(e.content)),
    link: (e) => link(repo, pathOf(e.place), e.target, pathOf),
    "write-vendor": (e) => write(vendorOf(e.which), textOfContent(e.content)),
    "replace-vendor": (e) => replace(vendorOf(e.which), textOfContent(e.content)),
    "directory-link": (e) => symlinkSync(dirOf(e.root, e.from), join(dirOf(e.root, "swamp"), "linked-type")),
    chmod: (e) => chmodSync(pathOf(e.place), 0o600),
    utimes: (e) => utimesSync(pathOf(e.place), 1_000_000, 1_000_000),
    "replace-root": (e) => replaceRoot(repo, e.root, e.how, away()),
  };
  (doers[edit.kind] as (edit: Edit) => void)(edit);
}

function moveTo(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true });
  renameSync(from, to);
}

function swap(a: string, b: string, between: string): void {
  if (a === b || !lstatSync(a).isFile() || !lstatSync(b).isFile()) return;
  renameSync(a, between);
  renameSync(b, a);
  renameSync(between, b);
}

function write(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

function replace(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  const temporary = join(dirname(path), `.${aside++}.tmp`);
  writeFileSync(temporary, text);
  try {
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary);
    throw error;
  }
}

/** Writes another name over the one in the file, where it lies and with the file's size kept, as an editor might. */
function renameInside(path: string, to: string, keepTimes: boolean): void {
  const before = readFileSync(path, "utf8");
  const from = ["web", "db"].find((known) => before.includes(`name: ${known}\n`));
  if (from === undefined) return;
  const short = to.length <= from.length && /^[a-z]+$/.test(to) ? to : from === "web" ? "wob" : "do";
  const after = before.replace(`name: ${from}\n`, `name: ${short}${" ".repeat(from.length - short.length)}\n`);
  const { atime, mtime } = lstatSync(path);
  const fd = openSync(path, "r+");
  writeSync(fd, after, 0);
  closeSync(fd);
  if (keepTimes) utimesSync(path, atime, mtime);
}

function link(repo: string, path: string, target: Target, pathOf: (p: Place) => string): void {
  mkdirSync(dirname(path), { recursive: true });
  rmSync(path, { force: true });
  const to = {
    place: () => (target.to === "place" ? pathOf(target.place) : ""),
    vendor: () => join(repo, "vendor/vendor.yaml"),
    "vendor-2": () => join(repo, "vendor/vendor-2.yaml"),
    outside: () => join(repo, "../outside/secret.yaml"),
    nowhere: () => `./nowhere-${basename(path)}`,
    directory: () => join(repo, "vendor"),
  }[target.to]();
  symlinkSync(to, path);
}

function replaceRoot(
  repo: string,
  r: RootName,
  how: "aside-and-back" | "aside-and-new" | "removed" | "parent-aside-and-new",
  away: string,
): void {
  const dir = join(repo, ROOT_DIRS[r]);
  if (how === "removed") {
    rmSync(dir, { recursive: true });
    return;
  }
  if (how === "parent-aside-and-new") renameSync(dirname(dir), away);
  else renameSync(dir, away);
  if (how === "aside-and-back") renameSync(away, dir);
  else write(join(dir, "swamp/echo/fresh.yaml"), `id: ${IDS[1]}\nname: db\n`);
}

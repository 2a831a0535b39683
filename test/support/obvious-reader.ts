/**
 * What definitions.md says, the slow and obvious way: read everything, then look. It shares no code with the library, so
 * that a mistake there is not repeated here.
 */
import { lstatSync, readdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { parseDocument } from "yaml";

export interface ObviousRoot {
  name: string;
  dir: string;
}

export interface ObviousEntry {
  root: string;
  path: string;
  type: string;
  id: string;
  name: string;
  declaredType: string | null;
  naming: "name" | "uuid" | "mismatched";
  document: Record<string, unknown>;
}

export interface ObviousProblem {
  root: string;
  path: string;
  type: string;
  kind: string;
  message: string;
}

export interface ObviousReading {
  roots: readonly ObviousRoot[];
  /** Per root, in byte order of path. */
  entries: ObviousEntry[];
  /** Only those that keep a file from being found. */
  problems: ObviousProblem[];
}

export interface ObviousOptions {
  boundary?: string;
  maxFileBytes?: number;
}

export function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

export function readObviously(roots: readonly ObviousRoot[], options: ObviousOptions = {}): ObviousReading {
  const reading: ObviousReading = { roots, entries: [], problems: [] };
  for (const root of roots) {
    const found: (ObviousEntry | ObviousProblem)[] = [];
    readDirectory(root, root.dir, "", options, found);
    found.sort((a, b) => byBytes(a.path, b.path));
    for (const one of found) {
      if ("kind" in one) reading.problems.push(one);
      else reading.entries.push(one);
    }
  }
  return reading;
}

function readDirectory(
  root: ObviousRoot,
  dir: string,
  type: string,
  options: ObviousOptions,
  found: (ObviousEntry | ObviousProblem)[],
): void {
  let names: Buffer[];
  try {
    names = readdirSync(dir, { encoding: "buffer" });
  } catch (error) {
    if (isGone(error)) return;
    throw error;
  }
  for (const bytes of names) {
    const name = bytes.toString("utf8");
    const path = `${dir}/${name}`;
    const stat = lstatSync(path, { throwIfNoEntry: false });
    // A name that is not UTF-8 does not survive the round trip (Deno hands it out already decoded).
    const decodable = Buffer.from(name).equals(bytes) && !(stat === undefined && name.includes("\uFFFD"));
    if (!decodable) {
      if (name.endsWith(".yaml")) found.push(problem(root, type, path, "bad-filename"));
    } else if (stat?.isDirectory()) {
      readDirectory(root, path, type === "" ? name : `${type}/${name}`, options, found);
    } else if (name.endsWith(".yaml") && (stat?.isFile() || stat?.isSymbolicLink())) {
      const one = readOne(root, type, path, name, stat.isSymbolicLink(), options);
      if (one !== null) found.push(one);
    }
  }
}

/** What one path holds; null when that is no definition file at all. */
export function readOne(
  root: ObviousRoot,
  type: string,
  path: string,
  filename: string,
  isLink: boolean,
  options: ObviousOptions,
): ObviousEntry | ObviousProblem | null {
  if (isLink) {
    const target = resolveLink(path);
    if (target === null) return problem(root, type, path, "dangling-symlink");
    if (options.boundary !== undefined && !`${target}/`.startsWith(`${realpathSync(options.boundary)}/`)) {
      return problem(root, type, path, "outside-boundary");
    }
    if (!statSync(target).isFile()) return null;
  }
  const bytes = readFileSync(path);
  if (bytes.length > (options.maxFileBytes ?? 1024 * 1024)) return problem(root, type, path, "too-large");
  const parsed = parseObviously(bytes.toString("utf8"));
  if (!parsed.ok) return problem(root, type, path, "syntax", parsed.message);
  const { document } = parsed;
  if (typeof document !== "object" || document === null || Array.isArray(document)) {
    return problem(root, type, path, "invalid");
  }
  const fields = document as Record<string, unknown>;
  const id = Object.hasOwn(fields, "id") ? fields["id"] : undefined;
  const name = Object.hasOwn(fields, "name") ? fields["name"] : undefined;
  const declared = Object.hasOwn(fields, "type") ? fields["type"] : undefined;
  if (!isKey(id) || !isKey(name)) return problem(root, type, path, "invalid");
  return {
    root: root.name,
    path,
    type,
    id,
    name,
    declaredType: typeof declared === "string" ? declared : null,
    naming: filename === `${name}.yaml` ? "name" : filename === `${id}.yaml` ? "uuid" : "mismatched",
    document: fields,
  };
}

function isKey(value: unknown): value is string {
  return typeof value === "string" && value !== "" && !value.includes("\0") && value.isWellFormed();
}

function parseObviously(text: string): { ok: true; document: unknown } | { ok: false; message: string } {
  try {
    const document = parseDocument(text, { merge: true, prettyErrors: false });
    const error = document.errors[0];
    if (error !== undefined) return { ok: false, message: error.message };
    return { ok: true, document: document.toJS() };
  } catch (error) {
    return { ok: false, message: String(error) };
  }
}

function resolveLink(path: string): string | null {
  try {
    return realpathSync(path);
  } catch {
    return null;
  }
}

function isGone(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === "ENOENT" || code === "ENOTDIR";
}

function problem(root: ObviousRoot, type: string, path: string, kind: string, message = kind): ObviousProblem {
  return { root: root.name, path, type, kind, message };
}

// ── the questions ───────────────────────────────────────────────────────────────────────────────────

/** All files that match, in order of precedence. */
export function matchesOf(
  reading: ObviousReading,
  query: { by: "name" | "id"; key: string; type: string | null; roots?: readonly string[] | undefined },
): ObviousEntry[] {
  const matches: ObviousEntry[] = [];
  for (const root of query.roots ?? reading.roots.map((r) => r.name)) {
    const here = reading.entries.filter((entry) => entry.root === root && entry[query.by] === query.key);
    if (query.type === null) {
      matches.push(...here);
    } else {
      const ofType = here.filter((entry) => entry.type === query.type);
      const called = (entry: ObviousEntry): boolean => filenameOf(entry.path) === `${query.key}.yaml`;
      matches.push(...ofType.filter(called), ...ofType.filter((entry) => !called(entry)));
    }
  }
  return matches;
}

/** The problem that keeps "not found" from being the answer to a look-up by name in a type. */
function problemOf(
  reading: ObviousReading,
  query: { key: string; type: string; roots?: readonly string[] | undefined },
): ObviousProblem | null {
  for (const root of query.roots ?? reading.roots.map((r) => r.name)) {
    for (const one of reading.problems) {
      const concerned = one.root === root && one.type === query.type;
      if (concerned && one.kind !== "bad-filename" && filenameOf(one.path) === `${query.key}.yaml`) return one;
    }
  }
  return null;
}

/** What `findByName` and its like must answer: an entry's path, null, or the path of the problem that it must throw. */
export function answerOf(
  reading: ObviousReading,
  query: { by: "name" | "id"; key: string; type: string | null; roots?: readonly string[] | undefined },
): { found: string } | { problem: string } | null {
  const winner = matchesOf(reading, query)[0];
  if (winner !== undefined) return { found: winner.path };
  const one = query.by === "name" && query.type !== null ? problemOf(reading, { ...query, type: query.type }) : null;
  return one === null ? null : { problem: one.path };
}

/** The problems of files that are found all the same, one a file and kind. */
export function softProblemsOf(reading: ObviousReading): { path: string; kind: string }[] {
  const found: { path: string; kind: string }[] = [];
  for (const entry of reading.entries) {
    const beside = reading.entries.filter((o) => o !== entry && o.root === entry.root && o.type === entry.type);
    if (entry.naming === "mismatched") found.push({ path: entry.path, kind: "mismatched" });
    if (beside.some((o) => o.name === entry.name)) found.push({ path: entry.path, kind: "duplicate-name" });
    if (beside.some((o) => o.id === entry.id)) found.push({ path: entry.path, kind: "duplicate-id" });
  }
  return found;
}

function filenameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

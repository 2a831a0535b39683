/** The two small files beside an environment: what it is, and how it was last left. */
import { readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { endianness } from "node:os";
import { join } from "node:path";
import { currentProcessIdentity } from "../process-identity.ts";
import { DATA_FILE } from "./shared.ts";

/** What an environment is for, as its user sees it: an environment whose identity differs in any field is rebuilt. */
export type EnvironmentIdentity = Readonly<Record<string, string | number | boolean>>;

export interface Description {
  /** Of this file, and of what the room puts beside an environment. */
  schema: 1;
  /** Of LMDB, whose file format has changed under one name before. */
  lmdb: string;
  architecture: string;
  /** A copy on another machine describes files that are not there. */
  machine: string;
  identity: EnvironmentIdentity;
}

const DESCRIPTION_FILE = "environment.json";
const SESSION_FILE = "session.json";

/** The files that this room and LMDB put into the directory of an environment. */
export function isOurs(name: string): boolean {
  return [DESCRIPTION_FILE, SESSION_FILE, DATA_FILE, "lock.mdb"].includes(name.replace(/\.tmp$/, ""));
}

/** Whether these are the files of an environment that this room has made, and nothing else. */
export function areOurs(names: readonly string[]): boolean {
  return names.includes(DESCRIPTION_FILE) && names.every(isOurs);
}

export function describe(identity: EnvironmentIdentity, lmdbVersion: string): Description {
  return {
    schema: 1,
    lmdb: lmdbVersion,
    architecture: `${process.arch}-${endianness()}`,
    machine: currentProcessIdentity().machineId ?? "unknown",
    identity: sorted(identity),
  };
}

export function writeDescription(dir: string, description: Description): void {
  writeWhole(join(dir, DESCRIPTION_FILE), description);
}

/** In which field the environment in `dir` differs from what is wanted; null when in none. */
export function differenceFrom(wanted: Description, dir: string): string | null {
  const found = readJson(join(dir, DESCRIPTION_FILE)) as Partial<Description> | null;
  if (found === null) return `${DESCRIPTION_FILE} is missing or unreadable`;
  for (const field of ["schema", "lmdb", "architecture", "machine"] as const) {
    if (found[field] !== wanted[field]) return `${field} is ${found[field]}, not ${wanted[field]}`;
  }
  const identity = found.identity ?? {};
  for (const field of Object.keys({ ...wanted.identity, ...identity })) {
    if (identity[field] !== wanted.identity[field]) {
      return `${field} is ${JSON.stringify(identity[field])}, not ${JSON.stringify(wanted.identity[field])}`;
    }
  }
  return null;
}

/** How an environment was left. The session is written `open` before the file is mapped, and closed after. */
interface Session {
  open: boolean;
  /** Sessions in a row that ended without closing, this one not counted. */
  uncleanEnds: number;
  /** Somebody found what is inside to be damaged. */
  condemned?: string;
  /** Of the data file when it was closed. */
  size?: number;
  modifiedMs?: number;
}

/** A damaged page can end the process long after a good open: two unclean ends in a row are not given a third. */
const MOST_UNCLEAN_ENDS = 2;

export interface SessionCheck {
  /** Why the environment must not be opened; null when it may be. */
  why: string | null;
  /** In a row, up to now. */
  uncleanEnds: number;
  /** The data file is, byte for byte, what was closed: its length needs no further check. */
  measured: boolean;
}

/** What the last session says about the data file, which must exist. */
export function checkSession(dir: string): SessionCheck {
  const session = readJson(join(dir, SESSION_FILE)) as Session | null;
  const uncleanEnds = session === null ? 1 : session.open ? session.uncleanEnds + 1 : 0;
  const no = (why: string): SessionCheck => ({ why, uncleanEnds, measured: false });
  if (session?.condemned !== undefined) return no(session.condemned);
  if (uncleanEnds >= MOST_UNCLEAN_ENDS) return no(`it was left without being closed ${uncleanEnds} times in a row`);
  if (uncleanEnds > 0 || session?.size === undefined) return { why: null, uncleanEnds, measured: false };
  const now = measure(dir);
  const same = session.size === now.size && session.modifiedMs === now.modifiedMs;
  return same ? { why: null, uncleanEnds, measured: true } : no("it was changed after it had been closed");
}

export function writeOpenSession(dir: string, uncleanEnds: number): void {
  writeWhole(join(dir, SESSION_FILE), { open: true, uncleanEnds } satisfies Session);
}

/** Only after LMDB has closed the data file, which writes to it. */
export function writeClosedSession(dir: string): void {
  writeWhole(join(dir, SESSION_FILE), { open: false, uncleanEnds: 0, ...measure(dir) } satisfies Session);
}

/** At the end of the process, when LMDB may have the data file open still. */
export function writeEndedSession(dir: string): void {
  writeWhole(join(dir, SESSION_FILE), { open: false, uncleanEnds: 0 } satisfies Session);
}

export function writeCondemned(dir: string, why: string): void {
  writeWhole(join(dir, SESSION_FILE), { open: true, uncleanEnds: 0, condemned: why } satisfies Session);
}

/** Milliseconds: not every runtime tells more. */
function measure(dir: string): { size: number; modifiedMs: number } {
  const { size, mtimeMs } = statSync(join(dir, DATA_FILE));
  return { size, modifiedMs: Math.floor(mtimeMs) };
}

function sorted(identity: EnvironmentIdentity): EnvironmentIdentity {
  return Object.fromEntries(Object.entries(identity).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Null for what is missing, cut off or not an object: a crash may leave any of these. */
function readJson(path: string): object | null {
  try {
    const value: unknown = JSON.parse(readFileSync(path, "utf8"));
    return typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}

function writeWhole(path: string, value: object): void {
  writeFileSync(`${path}.tmp`, `${JSON.stringify(value, null, 2)}\n`);
  renameSync(`${path}.tmp`, path);
}

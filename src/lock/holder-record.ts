/** What the file of a name's holder says, and whether a file that was met was left behind. */
import { userInfo } from "node:os";
import { environmentVariable } from "../permissions.ts";
import { currentProcessIdentity, type ProcessIdentity, verdictByPid } from "../process-identity.ts";

/** `holder`, `hostname`, `pid`, `acquiredAt`, `ttlMs` and `nonce` are swamp's; the rest tells who it is for certain. */
export interface HolderRecord extends ProcessIdentity {
  /** user@host */
  holder: string;
  /** ISO, of the last renewal. */
  acquiredAt: string;
  ttlMs: number;
  nonce: string;
}

export function newRecord(ttlMs: number): HolderRecord {
  const { hostname, pid, ...identity } = currentProcessIdentity();
  const acquiredAt = new Date().toISOString();
  return {
    holder: `${userName()}@${hostname}`,
    hostname,
    pid,
    acquiredAt,
    ttlMs,
    nonce: crypto.randomUUID(),
    ...identity,
  };
}

/** Always of the same length, so that a renewal can be written over it. */
export function toText(record: HolderRecord): string {
  return `${JSON.stringify(record)}\n`;
}

/** Null for what is empty, cut off, or not an object. */
export function parseRecord(text: string | null): Partial<HolderRecord> | null {
  try {
    const value: unknown = JSON.parse(text ?? "");
    return typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}

/** A file, as it was seen to stay the same for a while. */
export interface Watched {
  readonly text: string;
  readonly record: Partial<HolderRecord> | null;
  /** Changes with every renewal and every replacement. */
  readonly stamp: string;
  /** How long the file may stay the same: what it says, or the reader's own where it says nothing. */
  readonly ttlMs: number;
  readonly unchangedMs: number;
  readonly lookedAt: number;
}

export function firstLook(text: string, stamp: string, lookedAt: number, ownTtlMs: number): Watched {
  const record = parseRecord(text);
  const ttlMs = typeof record?.ttlMs === "number" && record.ttlMs > 0 ? record.ttlMs : ownTtlMs;
  return { text, record, stamp, ttlMs, unchangedMs: 0, lookedAt };
}

/**
 * The same file with the same stamp. Times are of this process's monotonic clock, and a long gap between two looks
 * counts as a short one: whoever stopped us (a frozen container, a busy machine) may have stopped the holder too.
 */
export function lookAgain(before: Watched, lookedAt: number): Watched {
  const longest = Math.min(1000, before.ttlMs / 8);
  return { ...before, lookedAt, unchangedMs: before.unchangedMs + Math.min(lookedAt - before.lookedAt, longest) };
}

/**
 * Nobody holds it any more: it was not renewed for its TTL, or its process is dead by its PID. `mutexIsProof`: the
 * caller holds the mutex that every process of this library on this machine holds with its file, so that a file of one
 * of them was left behind.
 */
export function isStale({ record, unchangedMs, ttlMs }: Watched, mutexIsProof: boolean): boolean {
  if (unchangedMs >= ttlMs) return true;
  if (record === null) return false;
  const { bootId } = currentProcessIdentity();
  const isOurs = typeof record.instanceId === "string" && bootId !== null && record.bootId === bootId;
  return (isOurs && mutexIsProof) || verdictByPid(record) === "dead";
}

let knownUser: string | undefined;

function userName(): string {
  try {
    knownUser ??= userInfo().username;
  } catch {
    knownUser = environmentVariable("USER") ?? "unknown"; // No entry in the user database, or Deno without --allow-sys.
  }
  return knownUser;
}

/** Opening the environment in a slot that this process holds: what is there is used, or set aside for a new one. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { RootDatabase, RootDatabaseOptionsWithPath } from "lmdb";
import { makeDirectory } from "../directories.ts";
import { damageOf } from "./damage.ts";
import { DATA_FILE, type EnvironmentLimits, environmentOptions } from "./shared.ts";
import {
  checkSession,
  type Description,
  differenceFrom,
  isOurs,
  writeDescription,
  writeOpenSession,
} from "./side-files.ts";
import { type Slot, setAside } from "./slots.ts";

type Open = (options: RootDatabaseOptionsWithPath) => RootDatabase;
type Condition = { use: "as it is"; uncleanEnds: number } | { use: "none"; why: string } | { use: "new" };

/** `freshReason` is null when what was there is used. Synchronous; throws when not even a new one can be opened. */
export function openSlot(
  slot: Slot,
  open: Open,
  description: Description,
  limits: EnvironmentLimits,
  warn: (message: string) => void,
): { root: RootDatabase; freshReason: string | null } {
  const options = environmentOptions(slot.path, limits);
  const condition = inspect(slot.path, description);
  let freshReason = "new";
  if (condition.use === "as it is") {
    writeOpenSession(slot.path, condition.uncleanEnds);
    try {
      return { root: open(options), freshReason: null };
    } catch (error) {
      freshReason = `LMDB cannot open it (${error instanceof Error ? error.message : String(error)})`;
    }
  } else if (condition.use === "none") {
    freshReason = condition.why;
  }
  if (freshReason !== "new") {
    setAside(slot);
    warn(`The index at ${slot.path} cannot be used: ${freshReason}. It was set aside, and is built anew.`);
  }
  makeDirectory(slot.path);
  writeDescription(slot.path, description);
  writeOpenSession(slot.path, 0);
  return { root: open(options), freshReason };
}

function inspect(path: string, description: Description): Condition {
  const names = namesIn(path);
  if (names === "not a directory") return { use: "none", why: "there is something that is not a directory" };
  if (!names.includes(DATA_FILE)) {
    // A crash between making the directory and opening LMDB leaves nothing that is worth keeping.
    return names.every(isOurs) ? { use: "new" } : { use: "none", why: "there are files of somebody else" };
  }
  const session = checkSession(path);
  const damage = damageOf(join(path, DATA_FILE), { wholePages: !session.measured });
  const why = damage ?? session.why ?? differenceFrom(description, path);
  return why === null ? { use: "as it is", uncleanEnds: session.uncleanEnds } : { use: "none", why };
}

function namesIn(path: string): string[] | "not a directory" {
  try {
    return readdirSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return [];
    if (code === "ENOTDIR") return "not a directory";
    throw error;
  }
}

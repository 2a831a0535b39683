/**
 * The lookup that report 3984 describes, as the baseline: the name's path first; on a miss, every file of the type is read
 * and parsed, in each root; a new name has it done twice, before the lock and under it.
 */
import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse, stringify } from "yaml";

export interface LinearScan {
  findByName(type: string, name: string): Promise<Record<string, unknown> | null>;
  /** Looks up, looks up again, and writes. `onLookup` gets the time that each of the two took, in milliseconds. */
  create(type: string, name: string, document: Record<string, unknown>, onLookup?: (ms: number) => void): Promise<void>;
}

export function linearScan(roots: readonly string[], signal?: AbortSignal): LinearScan {
  const findByName = async (type: string, name: string): Promise<Record<string, unknown> | null> => {
    for (const root of roots) {
      const found =
        readDocument(join(root, type, `${name}.yaml`)) ?? (await scanDirectory(join(root, type), name, signal));
      if (found !== null && found["name"] === name) return found;
    }
    return null;
  };
  return {
    findByName,
    async create(type, name, document, onLookup) {
      for (let time = 0; time < 2; time++) {
        const start = performance.now();
        if ((await findByName(type, name)) !== null) return;
        onLookup?.(performance.now() - start);
      }
      const dir = join(roots.at(-1) ?? "", type);
      mkdirSync(dir, { recursive: true });
      writeFileSync(join(dir, `${name}.yaml.tmp`), stringify(document));
      renameSync(join(dir, `${name}.yaml.tmp`), join(dir, `${name}.yaml`));
    },
  };
}

/** Reads and parses one file; null when there is none. */
export function readDocument(path: string): Record<string, unknown> | null {
  try {
    return parse(readFileSync(path, "utf8")) as Record<string, unknown>;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

async function scanDirectory(
  dir: string,
  name: string,
  signal: AbortSignal | undefined,
): Promise<Record<string, unknown> | null> {
  let filenames: string[];
  try {
    filenames = readdirSync(dir);
  } catch {
    return null;
  }
  let found: Record<string, unknown> | null = null;
  for (const [n, filename] of filenames.entries()) {
    if (!filename.endsWith(".yaml")) continue;
    const document = readDocument(join(dir, filename));
    if (found === null && document?.["name"] === name) found = document;
    // Only so that the demo can be stopped; it costs nothing beside a thousand parses.
    if (n % 1000 === 999) {
      await new Promise((resolve) => setImmediate(resolve));
      signal?.throwIfAborted();
    }
  }
  return found;
}

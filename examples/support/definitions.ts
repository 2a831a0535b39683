/** Generates stored definitions as swamp leaves them behind: one tenth of them called after their id, or otherwise. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { DefinitionCodec } from "../../src/index.ts";

export const WORKER_TYPE = "swamp/worker";
/** Below a repository's directory. */
export const AUTO_ROOT = ".swamp/auto-definitions";
export const MODELS_ROOT = "models";

export interface StoredDefinition {
  id: string;
  name: string;
  filename: string;
}

/** The n-th definition: every twentieth is called after its id, every other tenth something else. */
export function storedDefinition(n: number): StoredDefinition {
  const id = idOf(n);
  const name = `fleet-a-${hex(n, 8)}`;
  if (n % 20 === 7) return { id, name, filename: `${id}.yaml` };
  if (n % 20 === 17) return { id, name, filename: `renamed-${hex(n, 8)}.yaml` };
  return { id, name, filename: `${name}.yaml` };
}

/** Writes `count` of them, and lets others work meanwhile. */
export async function generateDefinitions(
  repoDir: string,
  count: number,
  options: { signal?: AbortSignal; onProgress?: (written: number) => void } = {},
): Promise<void> {
  const dir = join(repoDir, AUTO_ROOT, WORKER_TYPE);
  mkdirSync(dir, { recursive: true });
  for (let n = 0; n < count; n++) {
    const { id, name, filename } = storedDefinition(n);
    writeFileSync(`${dir}/${filename}`, textOf(id, name));
    if (n % 500 === 499) {
      options.onProgress?.(n + 1);
      await new Promise((resolve) => setImmediate(resolve));
      options.signal?.throwIfAborted();
    }
  }
  await flush(dir);
  options.onProgress?.(count);
}

/** A server's definitions are long on the disk; what still waited to be written would be written with its first flush. */
async function flush(dir: string): Promise<void> {
  const sync = spawn("sync", ["-f", dir], { stdio: "ignore" });
  await once(sync, "close").catch(() => {}); // Where there is no such program, nothing is promised of times either.
}

export interface WorkerDefinition {
  id: string;
  name: string;
}

export const workerCodec: DefinitionCodec<WorkerDefinition> = {
  decode(document) {
    const { id, name } = document as WorkerDefinition;
    return { id, name };
  },
  encode: workerDocument,
};

/** The document of a worker's definition. */
export function workerDocument({ id, name }: WorkerDefinition): Record<string, unknown> {
  return {
    type: WORKER_TYPE,
    typeVersion: "2026.06.09.1",
    id,
    name,
    version: 1,
    tags: {},
    globalArguments: {},
    methods: {},
  };
}

function textOf(id: string, name: string): string {
  return `type: ${WORKER_TYPE}
typeVersion: 2026.06.09.1
id: ${id}
name: ${name}
version: 1
tags: {}
globalArguments: {}
methods: {}
`;
}

function idOf(n: number): string {
  return `${hex(n, 8)}-1111-4222-8333-${hex(n, 12)}`;
}

function hex(n: number, digits: number): string {
  return n.toString(16).padStart(digits, "0");
}

/** Stored definitions to ask for, generated once, and the library's index over them. */
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import {
  AUTO_ROOT,
  generateDefinitions,
  MODELS_ROOT,
  storedDefinition,
  WORKER_TYPE,
  type WorkerDefinition,
  workerDocument,
} from "../../examples/support/definitions.ts";
import type { DefinitionCodec, DefinitionIndex, DefinitionRepository } from "../../src/definitions/index.ts";
import { generated, isAlive } from "./cache.ts";
import { type Context, count } from "./context.ts";
import { load } from "./library.ts";

export const TYPE = WORKER_TYPE;
export { storedDefinition, type WorkerDefinition, workerDocument };

export interface Stored {
  n: number;
  /** With the generated repository, and what is kept beside it. */
  dir: string;
  repoDir: string;
  roots: { name: string; dir: string }[];
  /** Where all of them lie. */
  typeDir: string;
  indexDir: string;
}

export async function storedDefinitions(context: Context, n: number): Promise<Stored> {
  const dir = await generated(`definitions-${n}`, (draft) =>
    generateDefinitions(join(draft, "repo"), n, {
      onProgress: (done) => context.progress(`generate ${count(n)} definitions`, done, n),
    }),
  );
  const repoDir = join(dir, "repo");
  const stored: Stored = {
    n,
    dir,
    repoDir,
    roots: [
      { name: "models", dir: join(repoDir, MODELS_ROOT) },
      { name: "auto", dir: join(repoDir, AUTO_ROOT) },
    ],
    typeDir: join(repoDir, AUTO_ROOT, TYPE),
    indexDir: join(dir, `index-${context.runtime}`),
  };
  removeLeftovers(stored.typeDir);
  return stored;
}

export async function openIndex(
  context: Context,
  stored: Stored,
  indexDir = stored.indexDir,
): Promise<DefinitionIndex> {
  const { openDefinitionIndex } = await load(context.library, "definitions");
  return openDefinitionIndex({ roots: stored.roots, indexDir, boundary: stored.repoDir });
}

/** The answer to it comes after everything has been looked through. */
export const NOBODY = "nobody-is-called-so";

/** Open, and exact. */
export async function openReady(context: Context, stored: Stored, indexDir?: string): Promise<DefinitionIndex> {
  const index = await openIndex(context, stored, indexDir);
  context.progress(`index ${count(stored.n)}`, 0, 1);
  await index.findByName(TYPE, NOBODY);
  await index.refresh();
  context.progress(`index ${count(stored.n)}`, 1, 1);
  return index;
}

export const codec: DefinitionCodec<WorkerDefinition> = {
  decode(document) {
    const { id, name } = document as WorkerDefinition;
    return { id, name };
  },
  encode: workerDocument,
};

export async function repositoryOver(
  context: Context,
  index: DefinitionIndex,
): Promise<DefinitionRepository<WorkerDefinition>> {
  const { createDefinitionRepository } = await load(context.library, "definitions");
  return createDefinitionRepository(index, { codec, writeRoot: "auto" });
}

/** Names whose file is called after them, spread over all that are stored. */
export function storedNames(n: number, howMany: number): string[] {
  const names: string[] = [];
  for (let i = 0; names.length < howMany; i++) {
    const { name, filename } = storedDefinition((i * 7919) % n);
    if (filename === `${name}.yaml`) names.push(name);
  }
  return names;
}

export function missingNames(howMany: number): string[] {
  return Array.from({ length: howMany }, (_, i) => `fleet-b-${i.toString(16).padStart(8, "0")}`);
}

/** One after the other, over and over. */
export function cycle<T>(items: readonly T[]): () => T {
  let at = 0;
  return () => items[at++ % items.length] as T;
}

// ── names that the bench creates, and removes again ─────────────────────────────────────────────────────────────

let created = 0;

export function newName(): string {
  return nameOf(created++);
}

function nameOf(n: number): string {
  return `bench-${process.pid}-${n}`;
}

/** By directory: so many of the names were removed. */
const removed = new Map<string, number>();

/** Removes what was created there under new names. Without a listing, whose garbage would be in the way of what is measured next. */
export function removeCreated(typeDir: string): void {
  for (let n = removed.get(typeDir) ?? 0; n < created; n++) rmSync(join(typeDir, `${nameOf(n)}.yaml`), { force: true });
  removed.set(typeDir, created);
}

/** Removes all that this process has created, and what one that was ended early has left behind. */
export function removeLeftovers(typeDir: string): void {
  for (const filename of readdirSync(typeDir)) {
    const pid = Number(/^bench-(\d+)-/.exec(filename)?.[1] ?? Number.NaN);
    if (pid === process.pid || (pid > 0 && !isAlive(pid))) rmSync(join(typeDir, filename));
  }
}

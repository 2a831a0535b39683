/** Repositories to try things on: over the obvious index and over the real one, exact and bounded. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";
import { type DefinitionIndex, openDefinitionIndex } from "../../src/definitions/index.ts";
import {
  createDefinitionRepository,
  type DefinitionRepository,
  type DefinitionRepositoryOptions,
} from "../../src/definitions/repository.ts";
import { openObviousIndex } from "./obvious-index.ts";
import { tempDir } from "./spawn.ts";
import { type Thing, thingCodec } from "./things.ts";

export * from "./things.ts";

// A worker for each of hundreds of small indexes would be most of the time that these tests take.
process.env["TUSSOCK_NO_WORKERS"] = "1";

export const indexKinds = ["obvious", "exact", "bounded"] as const;
export type IndexKind = (typeof indexKinds)[number];

export interface World {
  base: string;
  models: string;
  auto: string;
  index: DefinitionIndex;
  repository<T = Thing>(options?: Partial<DefinitionRepositoryOptions<T>>): DefinitionRepository<T>;
  /** Writes a file of `models` (or of `auto`, with that prefix) and returns its path. */
  put(path: string, text: string): string;
  read(path: string): string;
  /** All files below the roots with their contents, lock files left out. */
  files(): Record<string, string>;
}

export async function openWorld(kind: IndexKind = "exact", base = tempDir()): Promise<World> {
  const models = join(base, "models");
  const auto = join(base, "auto");
  const roots = [
    { name: "models", dir: models },
    { name: "auto", dir: auto },
  ];
  const index =
    kind === "obvious"
      ? openObviousIndex({ roots, boundary: base })
      : await openDefinitionIndex({
          roots,
          boundary: base,
          indexDir: join(base, "index"),
          watch: kind === "exact",
        });
  onTestFinished(() => index.close());
  return {
    base,
    models,
    auto,
    index,
    repository: (options) => {
      // Most tests are about what is there, not about the disk; those about the disk ask for the flush.
      const defaults = { codec: thingCodec, writeRoot: "models", durability: "written" };
      return createDefinitionRepository(index, {
        ...defaults,
        ...options,
      } as DefinitionRepositoryOptions<never>) as never;
    },
    put(path, text) {
      const full = join(base, /^(models|auto|index)\//.test(path) ? path : `models/${path}`);
      mkdirSync(dirname(full), { recursive: true });
      writeFileSync(full, text);
      return full;
    },
    read: (path) => readFileSync(join(base, path), "utf8"),
    files: () => ({ ...filesBelow(models, "models"), ...filesBelow(auto, "auto") }),
  };
}

function filesBelow(dir: string, prefix: string): Record<string, string> {
  const files: Record<string, string> = {};
  let names: string[];
  try {
    names = readdirSync(dir, { withFileTypes: true }).map((entry) =>
      entry.isDirectory() ? `${entry.name}/` : entry.name,
    );
  } catch {
    return files;
  }
  for (const name of names.sort()) {
    if (name === ".auto-definition-create/") continue;
    if (name.endsWith("/")) Object.assign(files, filesBelow(join(dir, name), `${prefix}/${name.slice(0, -1)}`));
    else files[`${prefix}/${name}`] = readFileSync(join(dir, name), "utf8");
  }
  return files;
}

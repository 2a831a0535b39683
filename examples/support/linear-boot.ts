/**
 * The boot of report 1955 as it was, on the same artifacts: read and parse every lease, then end each stale one by an
 * update that first lists all data items of the model, one after the other.
 */
import { readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { parse } from "yaml";
import { type WriteOptions, writeVersion } from "./artifacts.ts";

export interface LinearBoot {
  artifactsRead: number;
  readMs: number;
  expired: number;
  sweepMs: number;
}

export interface Item {
  path: string;
  version: number;
  content: Record<string, unknown>;
}

export async function linearBoot(dataDir: string, options: WriteOptions): Promise<LinearBoot> {
  const typeDir = join(dataDir, "swamp/step-lease");
  const start = performance.now();
  const items = readdirSync(typeDir).flatMap((modelId) => listItems(join(typeDir, modelId)));
  const read = performance.now();
  const stale = items.filter(({ content }) => content["state"] === "active");
  for (const [index, item] of stale.entries()) {
    options.signal?.throwIfAborted();
    expire(item);
    options.onProgress?.(index + 1, stale.length);
    await new Promise((resolve) => setTimeout(resolve));
  }
  return {
    artifactsRead: items.length,
    readMs: read - start,
    expired: stale.length,
    sweepMs: performance.now() - read,
  };
}

/** Every item of the model with its latest version: the marker, the metadata and the content are read and parsed. */
export function listItems(modelDir: string): Item[] {
  return readdirSync(modelDir).map((name) => {
    const path = join(modelDir, name);
    const version = Number(readFileSync(join(path, "latest"), "utf8"));
    parse(readFileSync(join(path, String(version), "metadata.yaml"), "utf8"));
    const content = JSON.parse(readFileSync(join(path, String(version), "raw"), "utf8")) as Item["content"];
    return { path, version, content };
  });
}

function expire({ path, content }: Item): void {
  // What every update begins with, and what makes it take the longer the more leases there ever were.
  const current = listItems(join(path, "..")).find((item) => item.path === path);
  const version = (current?.version ?? 0) + 1;
  const ended = { ...content, state: "expired", endedAt: new Date().toISOString(), error: "orchestrator restart" };
  writeVersion(path, version, ended, {
    type: "swamp/step-lease",
    modelId: basename(join(path, "..")),
    modelName: "leases",
    specName: "lease",
    name: basename(path),
    createdAt: Date.now(),
  });
  writeFileSync(join(path, ".latest.tmp"), String(version));
  renameSync(join(path, ".latest.tmp"), join(path, "latest"));
}

/** What report 1955 found a boot to do: read and parse every artifact, to find the few that matter. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { REPORTED, writeFleet } from "../../examples/support/artifacts.ts";
import { generated } from "../support/cache.ts";
import { type Context, count } from "../support/context.ts";

/** A data directory with so many step leases, 19 of them active. */
export function leaseArtifacts(context: Context, leases: number): Promise<string> {
  return generated(`artifacts-${leases}`, async (dir) => {
    await writeFleet(
      dir,
      { ...REPORTED, leases },
      {
        onProgress: (done, total) => context.progress(`generate ${count(leases)} artifacts`, done, total),
      },
    );
  });
}

/** The latest version of every lease: its marker, metadata and content are read and parsed. Returns the active ones. */
export function readEveryLease(dataDir: string): Record<string, unknown>[] {
  const active: Record<string, unknown>[] = [];
  const typeDir = join(dataDir, "swamp/step-lease");
  for (const model of readdirSync(typeDir))
    for (const item of readdirSync(join(typeDir, model))) {
      const version = readFileSync(join(typeDir, model, item, "latest"), "utf8");
      const dir = join(typeDir, model, item, version);
      parse(readFileSync(join(dir, "metadata.yaml"), "utf8"));
      const content = JSON.parse(readFileSync(join(dir, "raw"), "utf8")) as Record<string, unknown>;
      if (content["state"] === "active") active.push(content);
    }
  return active;
}

/** The scan of definitions, and those of artifacts. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { writeFleet } from "../../examples/support/artifacts.ts";
import { scan } from "../../src/scan/index.ts";
import {
  leasesFromArtifacts,
  pendingDispatchesFromArtifacts,
  recordsFromArtifacts,
  scanArtifacts,
  stepLeaseArtifacts,
  workersFromArtifacts,
} from "../../src/swamp/index.ts";
import { writeDefinitions } from "../scan/tree.ts";
import { type Call, having, iterate, type Room, reading } from "./call.ts";

const FILES = 300;
const LEASES = 40;

type Items = (dir: string, o: { signal?: AbortSignal }) => AsyncIterable<object>;

function scans(items: Items, count: number): Call<string> {
  return {
    repeats: 10,
    prepare: (dir) =>
      reading(
        (signal, reached) => iterate(items(dir, having(signal)), reached),
        (all) => expect(all.filter((item) => !isMark(item))).toHaveLength(count),
      ),
  };
}

/** How far an artifact scan has come, or an import from one. */
function isMark(item: object): boolean {
  return "watermark" in item && !("id" in item);
}

export const scanning: Room<string> = {
  name: "scans",
  async open(dir) {
    writeDefinitions(join(dir, "definitions"), FILES);
    writeFileSync(join(dir, "definitions", "broken.yaml"), "id: [");
    await writeFleet(join(dir, "data"), { leases: LEASES, active: 5, pending: 10, workers: 10 });
    return dir;
  },
  close() {},
  calls: {
    scan: scans((dir, o) => scan(join(dir, "definitions"), o), FILES + 1),
    "scan, by workers": {
      ...scans((dir, o) => scan(join(dir, "definitions"), { ...o, concurrency: 1 }), FILES + 1),
      sparse: true,
      repeats: 2,
    },
    scanArtifacts: scans((dir, o) => scanArtifacts(join(dir, "data"), stepLeaseArtifacts.type, o), LEASES),
    recordsFromArtifacts: scans((dir, o) => recordsFromArtifacts(join(dir, "data"), stepLeaseArtifacts, o), LEASES),
    leasesFromArtifacts: { ...scans((dir, o) => leasesFromArtifacts(join(dir, "data"), o), LEASES), sparse: true },
    pendingDispatchesFromArtifacts: {
      ...scans((dir, o) => pendingDispatchesFromArtifacts(join(dir, "data"), o), 10),
      sparse: true,
    },
    workersFromArtifacts: { ...scans((dir, o) => workersFromArtifacts(join(dir, "data"), o), 10), sparse: true },
  },
};

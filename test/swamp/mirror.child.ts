/** Writes one lease's changes through the mirror, as fast as it can, and says after each which one is on disk. */
import { artifactMirror } from "../../src/swamp/artifact-mirror.ts";
import { stepLeaseArtifacts } from "../../src/swamp/artifact-records.ts";

const [dataDir = "", id = "", changes = "0"] = process.argv.slice(2);
const mirror = artifactMirror(dataDir, { kind: stepLeaseArtifacts, modelId: "m1", modelName: "leases" });
for (let n = 1; n <= Number(changes); n++) {
  const record = {
    id,
    state: "active",
    since: 0,
    createdAt: 0,
    revision: n,
    epoch: 1,
    cursor: "",
    data: { n },
  } as const;
  await mirror.write({ sequence: n, id, from: "active", to: "active", record });
  console.log(n);
}

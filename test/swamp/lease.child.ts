/**
 * A server with a lease index that artifacts follow: acquires and completes leases, and says so after each is
 * durable.
 */
import { openLeaseIndex } from "../../src/state/index.ts";
import { artifactMirror, stepLeaseArtifacts } from "../../src/swamp/index.ts";

const [dir = "", dataDir = ""] = process.argv.slice(2);
const mirror = artifactMirror(dataDir, { kind: stepLeaseArtifacts, modelId: "m1", modelName: "leases" });
const leases = await openLeaseIndex({ dir, mirror });
for (let n = 0; ; n++) {
  await leases.insert({ id: `lease-${n}`, data: { workerName: "w", hasWrites: false } });
  await leases.update(`lease-${n}`, { hasWrites: true });
  await leases.transition(`lease-${n}`, n % 2 === 0 ? "completed" : "failed");
  console.log(n);
}

/**
 * What an author of an extension bundles into one file, for Deno: run where no package and no worker program lies beside it.
 * Prints what is not as it should be. (Where it is bundled, its imports are from `tussock/…`; as it lies here, it needs no build.)
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { currentProcessIdentity, livenessOf } from "../src/liveness/index.ts";
import { scan } from "../src/scan/index.ts";
import { createTransitionQueue } from "../src/transitions/index.ts";

/** More than a scan reads without asking for workers. */
const FILES = 6_000;

const problems: string[] = [];
const dir = mkdtempSync(join(tmpdir(), "tussock-bundle-"));
try {
  mkdirSync(join(dir, "worker"));
  for (let n = 0; n < FILES; n++)
    writeFileSync(join(dir, "worker", `${n}.yaml`), `id: id-${n}\nname: "${n}"\ntype: worker\n`);
  // Only the full parser reads these.
  writeFileSync(join(dir, "worker", "anchor.yaml"), "id: &id anchor\nname: *id\n? type\n: !!str worker\n");
  let found = 0;
  for await (const result of scan(dir)) {
    if (result.ok) found++;
    else problems.push(JSON.stringify(result.problem));
  }
  if (found !== FILES + 1) problems.push(`found ${found} of ${FILES + 1} files`);
  if (livenessOf(currentProcessIdentity()) !== "alive") problems.push("this process is not alive");
  if ((await createTransitionQueue().run("key", () => 7)) !== 7) problems.push("a transition gave something else");
} finally {
  rmSync(dir, { recursive: true, force: true });
}
console.log(JSON.stringify(problems));

/** Prints the stamps of a few paths below the directory given. */
import { symlinkSync } from "node:fs";
import { granularityOfStamp, readStamp, STAMP_BYTES } from "../../src/scan/stamp.ts";

const dir = process.argv[2]!;
try {
  symlinkSync("nowhere", `${dir}/dangling`);
} catch {
  // The other child was first.
}
const stamp = new Uint8Array(STAMP_BYTES);
for (const [path, follow] of [
  [dir, false],
  [`${dir}/missing`, false],
  [`${dir}/${"x".repeat(300)}`, false],
  [`/dev/null/below`, false],
  [`${dir}/dangling`, false],
  [`${dir}/dangling`, true],
] as const) {
  const kind = readStamp(path, follow, stamp.fill(0), 0);
  console.log(
    JSON.stringify({ kind, granularityNs: granularityOfStamp(stamp, 0), hex: Buffer.from(stamp).toString("hex") }),
  );
}

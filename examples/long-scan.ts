/**
 * A long scan with a progress bar that Ctrl-C stops at once: `node examples/long-scan.ts [directory]`. Reads every
 * definition below the directory (default: this one) and says what is wrong with those that are none.
 */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { scan } from "../src/index.ts";
import { untilInterrupted } from "./support/program.ts";
import { showProgress } from "./support/progress.ts";

const dir = process.argv[2] ?? ".";
const signal = untilInterrupted();
const progress = showProgress("scan");
let [valid, problems] = [0, 0];
try {
  const total = await countFiles(dir);
  for await (const result of scan(dir, { signal, onProgress: ({ files }) => progress.update(files, total) })) {
    if (result.ok) valid++;
    else if (++problems <= 10) console.error(`${result.problem.path}: ${result.problem.message}`);
  }
  progress.stop();
  console.log(`${valid} definitions, ${problems} files that are none`);
} catch (error) {
  progress.stop();
  if (error !== signal.reason) throw error;
  // The scan has ended its workers and closed its files before it rejected: nothing keeps the process.
  console.log(`${signal.reason.message} after ${valid} definitions`);
  process.exitCode = 130;
}

/** So that the bar knows where it ends. */
async function countFiles(at: string): Promise<number> {
  let count = 0;
  for (const entry of await readdir(at, { withFileTypes: true })) {
    signal.throwIfAborted();
    if (entry.isDirectory()) count += await countFiles(join(at, entry.name));
    else if (entry.name.endsWith(".yaml")) count++;
  }
  return count;
}

/** Adds up what vitest's JSON reports say; a run that left none counts as a failure. Prints one line, and fails on any. */
import { readFileSync } from "node:fs";

interface Report {
  numPassedTests: number;
  numFailedTests: number;
  numPendingTests: number;
  /** False also when a file could not be loaded, whose tests nobody has counted. */
  success: boolean;
}

let passed = 0;
let failed = 0;
let skipped = 0;
for (const file of process.argv.slice(2)) {
  const report = read(file);
  passed += report.numPassedTests;
  failed += report.success ? report.numFailedTests : Math.max(1, report.numFailedTests);
  skipped += report.numPendingTests;
}
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`);
if (failed > 0 || passed === 0) process.exitCode = 1;

function read(file: string): Report {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as Report;
  } catch {
    return { numPassedTests: 0, numFailedTests: 0, numPendingTests: 0, success: false };
  }
}

/** Holds locks at the command of a test: `try PATH`, `acquire PATH`, `probe PATH`, `release`, `sleeper`, `churn PATH` on stdin, one answer a line. */
import { spawn } from "node:child_process";
import { closeSync, openSync, rmSync } from "node:fs";
import { createInterface } from "node:readline";
import { acquireFileLock, type FileLock, probeFileLock, tryFileLock } from "../../src/lock/file-lock.ts";

let lock: FileLock | null = null;
console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [command, path = ""] = line.split(" ");
  if (command === "try") {
    lock = tryFileLock(path);
    console.log(lock?.mechanism ?? "refused");
  } else if (command === "acquire") {
    console.log("waiting");
    lock = await acquireFileLock(path);
    console.log(lock?.mechanism ?? "refused");
  } else if (command === "probe") {
    console.log(probeFileLock(path));
  } else if (command === "probe-forever") {
    console.log("probing");
    for (;;) for (let i = 0; i < 1000; i++) probeFileLock(path);
  } else if (command === "churn") {
    // As whoever removes a temporary slot does: unlink while locked, then release.
    for (let taken = 0; taken < 500; ) {
      const mine = tryFileLock(path);
      if (mine === null) continue;
      closeSync(openSync(`${path}.inside`, "wx")); // Throws when another one is inside.
      rmSync(`${path}.inside`);
      rmSync(path);
      mine.release();
      taken++;
    }
    console.log("churned");
  } else if (command === "release") {
    lock?.release();
    console.log("released");
  } else if (command === "sleeper") {
    const child = spawn("sleep", ["60"], { stdio: "ignore" });
    console.log(child.pid);
  }
}

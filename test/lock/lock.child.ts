/** Holds locks at the command of a test: `try PATH`, `acquire PATH`, `probe PATH`, `release`, `sleeper` on stdin, one answer a line. */
import { spawn } from "node:child_process";
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
  } else if (command === "release") {
    lock?.release();
    console.log("released");
  } else if (command === "sleeper") {
    const child = spawn("sleep", ["60"], { stdio: "ignore" });
    console.log(child.pid);
  }
}

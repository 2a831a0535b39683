/**
 * A process in a container: says who it is, then judges what it is told to, one JSON line each.
 * `serve {instancesDir or ""}` | `write {file}` | `judge {file}`
 */
import { readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import {
  announceInstance,
  currentProcessIdentity,
  livenessOf,
  type ProcessIdentity,
} from "../../src/liveness/index.ts";
import type { RunRecord } from "../../src/state/model.ts";
import { reapRuns } from "../../src/state/reap-runs.ts";

type Question = { verdictOf: Partial<ProcessIdentity> } | { reap: RunRecord[]; ttlMs: number };

const [mode = "", path = ""] = process.argv.slice(2);
if (mode === "write") writeFileSync(path, JSON.stringify(currentProcessIdentity()));
if (mode === "judge") {
  const other = JSON.parse(readFileSync(path, "utf8")) as ProcessIdentity;
  console.log(JSON.stringify({ self: currentProcessIdentity(), other, verdict: livenessOf(other) }));
}
if (mode === "serve") {
  const options = path === "" ? {} : { instancesDir: path };
  if (path !== "") await announceInstance(path);
  console.log(JSON.stringify(currentProcessIdentity()));
  // One source for all questions: what has been seen of a heartbeat is remembered with it.
  let rows: RunRecord[] = [];
  const source = {
    async *running() {
      yield* rows;
    },
    end: async () => true,
  };
  for await (const line of createInterface({ input: process.stdin })) {
    const question = JSON.parse(line) as Question;
    if ("verdictOf" in question) console.log(livenessOf(question.verdictOf, options));
    else {
      rows = question.reap;
      console.log(JSON.stringify(await reapRuns(source, { ...options, ttlMs: question.ttlMs })));
    }
  }
}

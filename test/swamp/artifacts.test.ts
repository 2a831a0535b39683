import { basename, join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  leasesFromArtifacts,
  pendingDispatchesFromArtifacts,
  workersFromArtifacts,
} from "../../src/swamp/artifact-import.ts";
import { scanArtifacts } from "../../src/swamp/artifact-scan.ts";
import { collect } from "../support/collect.ts";
import { copyFixture, expectedOf } from "../support/fixtures.ts";

interface Expected {
  stepLeases: Record<string, string[]>;
  problems: Record<string, string>;
  ignored: Record<string, string>;
  pendingDispatches: Record<string, string[]>;
  workers: Record<string, string[]>;
}

describe("swamp's artifacts as they lie", () => {
  const expected = expectedOf<Expected>("leases");

  test("step leases: every state, every problem with its path and reason", async () => {
    const dataDir = join(copyFixture("leases"), "data");
    const items = await collect(leasesFromArtifacts(dataDir));
    const { states, problems } = sorted(items);
    expect(states).toEqual(expected.stepLeases);
    expect(problems).toEqual(expected.problems);
  });

  test("what is ignored, and why", async () => {
    const dataDir = join(copyFixture("leases"), "data");
    const ignored: Record<string, string> = {};
    for await (const result of scanArtifacts(dataDir, "swamp/step-lease")) {
      if (result.kind === "ignored") ignored[basename(result.path)] = result.reason;
    }
    expect(ignored).toEqual(expected.ignored);
  });

  test("pending dispatches and workers", async () => {
    const dataDir = join(copyFixture("leases"), "data");
    const dispatches = await collect(pendingDispatchesFromArtifacts(dataDir));
    expect(sorted(dispatches)).toEqual({ states: expected.pendingDispatches, problems: {} });
    const workers = await collect(workersFromArtifacts(dataDir));
    expect(sorted(workers)).toEqual({ states: expected.workers, problems: {} });
  });
});

function sorted(items: readonly object[]) {
  const states: Record<string, string[]> = {};
  const problems: Record<string, string> = {};
  for (const item of items as { id?: string; state?: string; problem?: { path: string; reason: string } }[]) {
    if (item.id !== undefined && item.state !== undefined) {
      states[item.state] = [...(states[item.state] ?? []), item.id];
    }
    if (item.problem !== undefined) problems[basename(item.problem.path)] = item.problem.reason;
  }
  for (const ids of Object.values(states)) ids.sort();
  return { states, problems };
}

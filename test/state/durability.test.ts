import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { openLeaseIndex } from "../../src/state/open.ts";
import { type Child, isLong, spawnChild, tempDir } from "../support/spawn.ts";

const CHILD = new URL("writer.child.ts", import.meta.url);

/** A PID namespace of its own, which dies with `unshare`. */
const NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL"];

function refusalOf(command: readonly string[]): string | null {
  try {
    execFileSync(command[0]!, [...command.slice(1), "true"], { stdio: "pipe" });
    return null;
  } catch (error) {
    return String((error as { stderr?: Buffer }).stderr ?? error).trim();
  }
}

/** What was acknowledged, by id: the latest revision and its state. */
class Acknowledged {
  readonly #latest = new Map<string, { revision: number; state: string }>();

  get size(): number {
    return this.#latest.size;
  }

  /** Everything that the child says until it ends. */
  async hear(child: Child): Promise<void> {
    for await (const line of child.lines) {
      const [id, revision, state] = line.split(" ");
      // The last line may be cut off by the kill.
      if (id !== undefined && state !== undefined && STATES.includes(state)) {
        this.#latest.set(id, { revision: Number(revision), state });
      }
    }
  }

  /** Each is there, in that state or one change further: the one that was under way. And everything agrees. */
  async isIn(dir: string): Promise<void> {
    const index = await openLeaseIndex({ dir });
    const lost: unknown[] = [];
    for (const [id, { revision, state }] of this.#latest) {
      const record = await index.get(id);
      if (record?.revision === revision ? record.state !== state : record?.revision !== revision + 1) {
        lost.push({ id, acknowledged: { revision, state }, stored: record });
      }
    }
    expect(lost).toEqual([]);
    const report = await index.verify();
    expect(report.problems).toEqual([]);
    expect(report.records).toBe(await index.count());
    await index.close();
  }
}

const STATES = ["active", "completed", "failed", "expired"];

/** Kills the children at a random moment of their work, and looks at what is left. */
async function round(dir: string, acknowledged: Acknowledged, children: Child[]): Promise<void> {
  const heard = children.map((child) => acknowledged.hear(child));
  const killAt = performance.now() + 100 + Math.random() * 400;
  const before = acknowledged.size;
  // Not before all of them work: the moment is random within their work, not within their start.
  while (performance.now() < killAt || acknowledged.size < before + 50 * children.length) {
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  for (const child of children) child.process.kill("SIGKILL");
  await Promise.all(heard);
  await Promise.all(children.map((child) => child.exit));
  await acknowledged.isIn(dir);
}

describe("what was acknowledged is there after SIGKILL, and every index and counter agrees", () => {
  test("with 36 writers in one process", async () => {
    const dir = tempDir();
    const acknowledged = new Acknowledged();
    for (let n = 0; n < (isLong ? 50 : 5); n++) await round(dir, acknowledged, [spawnChild(CHILD, [dir, `r${n}`])]);
    expect(acknowledged.size).toBeGreaterThan(200);
  });

  test("with three processes at once", async () => {
    const dir = tempDir();
    const acknowledged = new Acknowledged();
    for (let n = 0; n < (isLong ? 20 : 2); n++) {
      const children = ["a", "b", "c"].map((name) => spawnChild(CHILD, [dir, `${name}${n}`, "12"]));
      await round(dir, acknowledged, children);
    }
  });

  const refusal = refusalOf(NAMESPACE);
  test.skipIf(refusal !== null)(
    `with three processes in three PID namespaces${refusal ? ` (skipped: ${refusal})` : ""}`,
    async () => {
      const dir = tempDir();
      const acknowledged = new Acknowledged();
      for (let n = 0; n < (isLong ? 20 : 1); n++) {
        const children = ["a", "b", "c"].map((name) =>
          spawnChild(CHILD, [dir, `${name}${n}`, "12"], { prefix: NAMESPACE }),
        );
        await round(dir, acknowledged, children);
      }
    },
  );

  test("with three processes of which some have no FFI and some no workers", async () => {
    const dir = tempDir();
    const acknowledged = new Acknowledged();
    for (let n = 0; n < (isLong ? 20 : 1); n++) {
      const children = [{}, { TUSSOCK_NO_FFI: "1" }, { TUSSOCK_NO_WORKERS: "1" }].map((env, at) =>
        spawnChild(CHILD, [dir, `${at}-${n}`, "12"], { env }),
      );
      await round(dir, acknowledged, children);
    }
  });
});

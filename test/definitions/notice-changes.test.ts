import { utimesSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { noticeChanges } from "../../src/definitions/repository.ts";
import { indexKinds, openWorld, textOf, thing } from "../support/repositories.ts";

const TYPE = "swamp/echo";

class SyncService {
  #pulls = 0;
  pushed: string[] = [];
  readonly pull: () => unknown;
  constructor(pull: () => unknown) {
    this.pull = pull;
  }
  get pulls(): number {
    return this.#pulls;
  }
  async pullChanged(..._args: unknown[]): Promise<unknown> {
    this.#pulls++;
    return this.pull();
  }
  async pushChanged(path: string): Promise<number> {
    this.pushed.push(path);
    return this.#pulls;
  }
}

describe.each(indexKinds.filter((kind) => kind !== "obvious"))("a sync service over the %s index", (kind) => {
  it("has its pulls noticed: also an edit in place that looks as it did", async () => {
    const world = await openWorld(kind);
    const path = world.put("swamp/echo/odd.yaml", textOf(TYPE, thing(1, "one")));
    const old = new Date("2020-01-01");
    utimesSync(path, old, old);
    const repository = world.repository();
    expect((await repository.findByName(TYPE, "one"))?.id).toBe(thing(1, "one").id);
    const service = new SyncService(() => {
      writeFileSync(path, textOf(TYPE, thing(1, "two")));
      utimesSync(path, old, old);
      return 1;
    });
    const wrapped = noticeChanges(service, world.index);
    expect(await wrapped.pullChanged({ some: "options" })).toBe(1);
    expect(await repository.findByName(TYPE, "one")).toBeNull();
    expect((await repository.findByName(TYPE, "two"))?.id).toBe(thing(1, "two").id);
  });

  it("has a failed pull noticed, and keeps its failure", async () => {
    const world = await openWorld(kind);
    const path = world.put("swamp/echo/odd.yaml", textOf(TYPE, thing(1, "one")));
    const repository = world.repository();
    await repository.findByName(TYPE, "one");
    const wrapped = noticeChanges(
      new SyncService(() => {
        writeFileSync(path, textOf(TYPE, thing(1, "six")));
        throw new Error("connection lost");
      }),
      world.index,
    );
    await expect(wrapped.pullChanged()).rejects.toThrow("connection lost");
    expect(await repository.findByName(TYPE, "six")).not.toBeNull();
  });

  it("tells only the paths that it knows to have changed", async () => {
    const world = await openWorld(kind);
    const repository = world.repository();
    world.put("swamp/echo/one.yaml", textOf(TYPE, thing(1, "one")));
    await repository.findByName(TYPE, "nobody");
    let swept = 0;
    const applied: string[][] = [];
    const index = {
      refresh: (...args: Parameters<typeof world.index.refresh>) => {
        swept++;
        return world.index.refresh(...args);
      },
      applyChanges: (paths: Iterable<string>) => {
        applied.push([...paths]);
        return world.index.applyChanges(applied.at(-1)!);
      },
      stats: () => world.index.stats(),
    };
    const service = new SyncService(() => [world.put("swamp/echo/odd.yaml", textOf(TYPE, thing(2, "two")))]);
    const wrapped = noticeChanges(service, index, { changedPaths: (result) => result as string[] });
    const [path] = (await wrapped.pullChanged()) as string[];
    expect(applied).toEqual([[path]]);
    expect(swept).toBe(0);
    expect((await repository.findByName(TYPE, "two"))?.id).toBe(thing(2, "two").id);
  });
});

describe("the wrapped service", () => {
  it("is the service in all else, private fields, frozen objects and all", async () => {
    const world = await openWorld("exact");
    const service = new SyncService(() => 0);
    const wrapped = noticeChanges(service, world.index);
    expect(wrapped).toBeInstanceOf(SyncService);
    await wrapped.pullChanged();
    expect(wrapped.pulls).toBe(1);
    expect(await wrapped.pushChanged("x")).toBe(1);
    wrapped.pushed = ["y"];
    expect(service.pushed).toEqual(["y"]);
    expect("pushed" in wrapped && Object.keys(wrapped).includes("pushed")).toBe(true);
    const frozen = noticeChanges(
      Object.freeze({ pullChanged: async (n: number) => n + 1, kind: "frozen" }),
      world.index,
    );
    expect(await frozen.pullChanged(1)).toBe(2);
    expect({ ...frozen }.kind).toBe("frozen");
  });
});

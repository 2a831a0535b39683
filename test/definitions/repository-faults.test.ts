import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { DefinitionWriteError, StorageFullError } from "../../src/errors.ts";
import { crashAt, failAt, type Step, withSteps } from "../support/fs-steps.ts";
import { readObviously } from "../support/obvious-reader.ts";
import { idOf, openWorld, textOf, thing, type World } from "../support/repositories.ts";

/** Each in a type of its own, so that one index serves all steps of all scenarios. */
interface Scenario {
  name: string;
  /** File → content before. */
  before: (type: string) => Record<string, string>;
  act: (world: World, type: string) => Promise<unknown>;
  /** Whether the id must be found by then, before, after and at every moment. */
  keeps: boolean;
}

const flushed = { durability: "flushed" } as const;

const saving = (name: string, note = "new") => {
  return (world: World, type: string): Promise<void> => world.repository(flushed).save(type, thing(1, name, note));
};

const scenarios: Scenario[] = [
  { name: "a new definition", before: () => ({}), act: saving("web"), keeps: false },
  {
    name: "one replaced in place",
    before: (type) => ({ "web.yaml": textOf(type, thing(1, "web", "old")) }),
    act: saving("web"),
    keeps: true,
  },
  {
    name: "one that moves from its id to its name",
    before: (type) => ({ [`${idOf(1)}.yaml`]: textOf(type, thing(1, "web", "old")) }),
    act: saving("web"),
    keeps: true,
  },
  {
    name: "one that is renamed",
    before: (type) => ({ "app.yaml": textOf(type, thing(1, "app", "old")) }),
    act: saving("web"),
    keeps: true,
  },
  {
    name: "one that is created on a miss",
    before: () => ({}),
    act: (world, type) => world.repository(flushed).resolveOrCreate(type, "web", () => thing(1, "web", "new")),
    keeps: false,
  },
  {
    name: "one that is deleted",
    before: (type) => ({ "web.yaml": textOf(type, thing(1, "web", "old")) }),
    act: (world, type) => world.repository(flushed).delete(type, idOf(1)),
    keeps: false,
  },
];

interface Attempt {
  world: World;
  type: string;
  before: Record<string, string>;
  outcome: { value: unknown } | { error: unknown };
  steps: Step[];
}

/** Runs the scenario once for every step that it has, and once more for none; `at` says what happens at a step. */
async function atEachStep(
  world: World,
  scenario: Scenario,
  label: string,
  at: (number: number, type: string) => (step: Step) => void,
  check: (attempt: Attempt, number: number) => Promise<void> | void,
): Promise<number> {
  for (let number = 1; ; number++) {
    const type = `${label}/${scenarios.indexOf(scenario)}/${number}`;
    const before = scenario.before(type);
    for (const [file, text] of Object.entries(before)) world.put(`${type}/${file}`, text);
    const steps: Step[] = [];
    const onStep = at(number, type);
    const outcome = await withSteps(
      world.models,
      (step) => {
        steps.push(step);
        onStep(step);
      },
      () => scenario.act(world, type),
    ).then(
      (value) => ({ value }),
      (error: unknown) => ({ error }),
    );
    await check({ world, type, before, outcome, steps }, number);
    if (steps.length < number) return number - 1;
  }
}

function entriesOf(world: World, type: string) {
  return readObviously([{ name: "models", dir: world.models }]).entries.filter((entry) => entry.type === type);
}

function temporaryFiles(world: World): string[] {
  return Object.keys(world.files()).filter((path) => path.endsWith(".tmp"));
}

describe.each(scenarios)("saving $name", (scenario) => {
  it("that dies at any step leaves its id with one content, the old or the new, and the next save finishes", async () => {
    const world = await openWorld("exact");
    const steps = await atEachStep(world, scenario, "crash", crashAt, async ({ type, before }) => {
      const held = entriesOf(world, type).filter(({ id }) => id === idOf(1));
      const texts = new Set(held.map(({ path }) => readFileSync(path, "utf8")));
      if (scenario.keeps) expect(held.length).toBeGreaterThan(0);
      expect(texts.size).toBeLessThanOrEqual(1);
      const known = [...Object.values(before), textOf(type, thing(1, "web", "new"))];
      for (const text of texts) expect(known).toContain(text);
      expect((await world.repository().findById(type, idOf(1)))?.note).toBe(
        held.length === 0 ? undefined : [...texts][0]!.includes("note: new") ? "new" : "old",
      );
      await world.repository().save(type, thing(1, "web", "after"));
      expect(entriesOf(world, type).map(({ path }) => path)).toEqual([join(world.models, type, "web.yaml")]);
    });
    expect(steps).toBeGreaterThan(1);
  });

  it.each(["EIO", "ENOSPC"])(
    "that fails with %s at any step loses nothing and leaves no temporary file",
    async (code) => {
      const world = await openWorld("exact");
      await atEachStep(
        world,
        scenario,
        "fail",
        (number) => failAt(number, code),
        async ({ type, before, outcome, steps }, number) => {
          const texts = entriesOf(world, type).map(({ path }) => readFileSync(path, "utf8"));
          const wanted = textOf(type, thing(1, "web", "new"));
          const failed = steps[number - 1];
          if ("error" in outcome) {
            // A failed flush of the directory is told, though the change is there to see.
            const isDirectory = failed?.call === "fsync" && !failed.path.endsWith(".tmp");
            expect(outcome.error, `${failed?.call} ${failed?.path}`).toBeInstanceOf(
              code === "ENOSPC" && !isDirectory ? StorageFullError : DefinitionWriteError,
            );
            if (!isDirectory) expect(texts).toEqual(Object.values(before));
          } else if (scenario.name !== "one that is deleted") {
            expect(new Set(texts)).toEqual(new Set([wanted]));
          }
          if (failed?.call !== "unlinkSync") expect(temporaryFiles(world)).toEqual([]);
          await world.repository().save(type, thing(1, "web", "after"));
          expect(entriesOf(world, type)).toHaveLength(1);
          for (const path of temporaryFiles(world)) rmSync(join(world.base, path));
        },
      );
    },
  );

  it("never overwrites what somebody else puts in its way at any step", async () => {
    const world = await openWorld("exact");
    const foreign = (type: string): string => textOf(type, thing(9, "foreign", "precious"));
    const appear = (path: string, text: string): void => {
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(`${path}.theirs`, text);
      renameSync(`${path}.theirs`, path);
    };
    for (const filename of ["web.yaml", `${idOf(1)}.yaml`, "app.yaml"]) {
      if (filename in scenario.before("")) continue; // Its own file: another id in it is the next test.
      const at = (number: number, type: string) => (step: Step) => {
        if (step.number !== number) return;
        const path = join(world.models, type, filename);
        if (!existsSync(path)) appear(path, foreign(type));
      };
      await atEachStep(world, scenario, `foreign-${filename.slice(0, 3)}`, at, async ({ type, outcome }, number) => {
        const path = join(world.models, type, filename);
        const theirs = entriesOf(world, type).filter(({ id }) => id === idOf(9));
        if (existsSync(path) && theirs.length > 0) expect(readFileSync(theirs[0]!.path, "utf8")).toBe(foreign(type));
        const mine = await world.repository().findById(type, idOf(1));
        if ("value" in outcome && scenario.name !== "one that is deleted") expect(mine?.note, `${number}`).toBe("new");
        if ("error" in outcome && scenario.keeps) expect(mine).not.toBeNull();
      });
      const appeared = readObviously([{ name: "models", dir: world.models }]).entries;
      expect(appeared.filter(({ id }) => id === idOf(9)).length, filename).toBeGreaterThan(0);
      rmSync(world.models, { recursive: true });
    }
  });

  it("leaves alone a file that somebody else has put in the place of its own, up to the call that replaces it", async () => {
    const world = await openWorld("exact");
    const own = Object.keys(scenario.before(""))[0];
    if (own === undefined) return;
    const theirs = (type: string): string => textOf(type, thing(9, "theirs", "precious"));
    let replaced = 0;
    const at = (number: number, type: string) => (step: Step) => {
      // Between its last look, which is in the same instant, and the call itself, nobody can know better.
      const last = step.call === "renameSync" || (step.call === "unlinkSync" && step.path.endsWith(own));
      if (step.number !== number || last) return;
      const path = join(world.models, type, own);
      if (!existsSync(path)) return;
      writeFileSync(`${path}.theirs`, theirs(type));
      renameSync(`${path}.theirs`, path);
      replaced++;
    };
    await atEachStep(world, scenario, "theirs", at, ({ type }) => {
      const path = join(world.models, type, own);
      const held = entriesOf(world, type).filter(({ id }) => id === idOf(9));
      for (const entry of held) expect(readFileSync(entry.path, "utf8")).toBe(theirs(type));
      if (existsSync(path)) expect(readFileSync(path, "utf8")).not.toBe("");
    });
    const kept = readObviously([{ name: "models", dir: world.models }]).entries.filter(({ id }) => id === idOf(9));
    expect(kept).toHaveLength(replaced);
    // A deletion has no step before its last.
    if (scenario.name !== "one that is deleted") expect(replaced).toBeGreaterThan(0);
  });
});

describe("the order of a save's calls", () => {
  const callsOf = async (world: World, act: () => Promise<unknown>): Promise<string[]> => {
    const calls: string[] = [];
    await withSteps(
      world.models,
      ({ call, path }) => {
        const what = path.endsWith(".tmp")
          ? "draft"
          : path.endsWith(".yaml")
            ? path.slice(path.lastIndexOf("/") + 1)
            : "dir";
        calls.push(`${call} ${what}`);
      },
      act,
    );
    return calls;
  };
  const draft = ["openSync draft", "writeFileSync draft", "fsync draft"];

  it("has content on the disk before a name, each directory after its entries, and the new name before the old one goes", async () => {
    const world = await openWorld("exact");
    const repository = world.repository(flushed);
    const created = await callsOf(world, () => repository.save("t", thing(1, "app")));
    // The root, with the lock's directory in it, and the type's.
    const made = [
      "mkdirSync dir",
      "mkdirSync dir",
      ...draft,
      "linkSync draft",
      "unlinkSync draft",
      "fsync dir",
      "fsync dir",
    ];
    expect(created).toEqual(made);
    const replaced = await callsOf(world, () => repository.save("t", thing(1, "app", "x")));
    expect(replaced).toEqual([...draft, "renameSync draft", "unlinkSync draft", "fsync dir"]);
    const moved = await callsOf(world, () => repository.save("t", thing(1, "web", "x")));
    const inPlaceThenLinked = [...draft, "renameSync draft", "linkSync app.yaml", "unlinkSync draft"];
    expect(moved).toEqual([...inPlaceThenLinked, "fsync dir", "unlinkSync app.yaml", "fsync dir"]);
    expect(await callsOf(world, () => repository.delete("t", idOf(1)))).toEqual([
      "unlinkSync web.yaml",
      "rmdirSync dir",
      "fsync dir",
    ]);
  });

  it("flushes nothing where it need only be written", async () => {
    const world = await openWorld("exact");
    const repository = world.repository({ durability: "written" });
    const calls = [
      ...(await callsOf(world, () => repository.save("t", thing(1, "app")))),
      ...(await callsOf(world, () => repository.save("t", thing(1, "web")))),
      ...(await callsOf(world, () => repository.delete("t", idOf(1)))),
    ];
    expect(calls.filter((call) => call.startsWith("fsync"))).toEqual([]);
  });

  it("shares the flush of a directory among all that wait for it", async () => {
    const world = await openWorld("exact");
    const repository = world.repository(flushed);
    await repository.save("t", thing(0, "first"));
    const calls = await callsOf(world, () =>
      Promise.all(Array.from({ length: 30 }, (_, n) => repository.save("t", thing(n + 1, `name-${n}`)))),
    );
    expect(calls.filter((call) => call === "fsync draft")).toHaveLength(30);
    expect(calls.filter((call) => call === "fsync dir").length).toBeLessThan(30);
  });
});

describe("a file system without hard links", () => {
  it.each(scenarios)("stores $name all the same, and overwrites nothing", async (scenario) => {
    const world = await openWorld("exact");
    const type = "t";
    for (const [file, text] of Object.entries(scenario.before(type))) world.put(`${type}/${file}`, text);
    const noLinks = ({ call }: Step): void => {
      if (call === "linkSync") throw Object.assign(new Error("EPERM: no links here"), { code: "EPERM" });
    };
    await withSteps(world.models, noLinks, () => scenario.act(world, type));
    const expected =
      scenario.name === "one that is deleted" ? {} : { "models/t/web.yaml": textOf(type, thing(1, "web", "new")) };
    expect(world.files()).toEqual(expected);
  });
});

describe("between the hook that is told and the file that changes", () => {
  it.each(["save", "delete"] as const)("%s notices that the file holds another definition now", async (call) => {
    const world = await openWorld("exact");
    const path = world.put("swamp/echo/web.yaml", textOf("swamp/echo", thing(1, "web")));
    const theirs = textOf("swamp/echo", thing(9, "theirs", "precious"));
    const onWillWrite = (): void => {
      writeFileSync(`${path}.theirs`, theirs);
      renameSync(`${path}.theirs`, path);
    };
    const repository = world.repository({ onWillWrite });
    await (call === "save"
      ? repository.save("swamp/echo", thing(1, "web", "x"))
      : repository.delete("swamp/echo", idOf(1)));
    expect(readFileSync(path, "utf8")).toBe(theirs);
    expect((await repository.findById("swamp/echo", idOf(1)))?.note).toBe(call === "save" ? "x" : undefined);
  });
});

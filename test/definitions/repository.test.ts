import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { DefinitionIndex } from "../../src/definitions/index.ts";
import { createDefinitionRepository, type DefinitionChange } from "../../src/definitions/repository.ts";
import {
  DefinitionConflictError,
  DefinitionProblemError,
  DefinitionTypeError,
  InvalidArgumentError,
  UnsafePathError,
} from "../../src/errors.ts";
import { idOf, indexKinds, openWorld, type Thing, textOf, thing, thingCodec } from "../support/repositories.ts";

const TYPE = "swamp/echo";
const DIR = `models/${TYPE}`;

describe.each(indexKinds)("the repository over the %s index", (kind) => {
  it("finds by what the file holds, in order of roots, and gives the type that it declares", async () => {
    const world = await openWorld(kind);
    world.put("swamp/echo/web.yaml", textOf("AWS::EC2::VPC", thing(1, "web")));
    world.put("swamp/echo/mismatch.yaml", `id: ${idOf(2)}\nname: untyped\nversion: 1\n`);
    world.put("auto/swamp/echo/web.yaml", textOf(TYPE, thing(3, "web")));
    world.put("auto/swamp/echo/only.yaml", textOf(TYPE, thing(4, "only")));
    const repository = world.repository();
    expect((await repository.findByName(TYPE, "web"))?.id).toBe(idOf(1));
    expect((await repository.findByName("Swamp::Echo", "untyped"))?.id).toBe(idOf(2));
    expect((await repository.findById(TYPE, idOf(4)))?.name).toBe("only");
    expect(await repository.findByName(TYPE, "nobody")).toBeNull();
    expect(await repository.findById(TYPE, idOf(99))).toBeNull();
    expect(await repository.findByNameGlobal("web")).toEqual({ definition: thing(1, "web"), type: "aws/ec2/vpc" });
    expect(await repository.findByIdGlobal(idOf(2))).toEqual({ definition: thing(2, "untyped"), type: TYPE });
    const reversed = world.repository({ lookupRoots: ["auto", "models"] });
    expect((await reversed.findByName(TYPE, "web"))?.id).toBe(idOf(3));
    const modelsOnly = world.repository({ lookupRoots: ["models"] });
    expect(await modelsOnly.findByName(TYPE, "only")).toBeNull();
  });

  it("lists the write root, or the list roots, in byte order of path", async () => {
    const world = await openWorld(kind);
    world.put("swamp/echo/b.yaml", textOf(TYPE, thing(1, "b")));
    world.put("swamp/echo/a.yaml", textOf(TYPE, thing(2, "a")));
    world.put("swamp/echo/ü.yaml", textOf(TYPE, thing(3, "ü")));
    world.put("swamp/echo/\u{1F600}.yaml", textOf(TYPE, thing(4, "smile")));
    world.put("swamp/echo/\uFF21.yaml", textOf(TYPE, thing(5, "wide")));
    world.put("swamp/echo/broken.yaml", "id: [");
    world.put("swamp/echo/sub/c.yaml", textOf("swamp/echo/sub", thing(6, "c")));
    world.put("swamp/echo-2/d.yaml", textOf("swamp/echo-2", thing(7, "d")));
    world.put("auto/swamp/echo/e.yaml", textOf(TYPE, thing(8, "e")));
    const repository = world.repository({ lookupRoots: ["models", "auto"] });
    expect((await repository.findAll(TYPE)).map(({ name }) => name)).toEqual(["a", "b", "ü", "wide", "smile"]);
    expect((await repository.findAllGlobal()).map(({ definition, type }) => `${type} ${definition.name}`)).toEqual([
      "swamp/echo-2 d",
      ...["a", "b"].map((name) => `${TYPE} ${name}`),
      "swamp/echo/sub c",
      ...["ü", "wide", "smile"].map((name) => `${TYPE} ${name}`),
    ]);
    const both = world.repository({ listRoots: ["models", "auto"] });
    expect((await both.findAll(TYPE)).map(({ name }) => name)).toEqual(["e", "a", "b", "ü", "wide", "smile"]);
  });

  it("goes on to the next candidate where the codec refuses one, and lists the refused file as a problem", async () => {
    const world = await openWorld(kind);
    const refused = world.put("swamp/echo/web.yaml", `id: ${idOf(1)}\nname: web\nversion: soon\n`);
    world.put("swamp/echo/zweb.yaml", textOf(TYPE, thing(2, "web")));
    const repository = world.repository();
    expect((await repository.findByName(TYPE, "web"))?.id).toBe(idOf(2));
    expect(await repository.findById(TYPE, idOf(1))).toBeNull();
    expect((await repository.findAll(TYPE)).map(({ id }) => id)).toEqual([idOf(2)]);
    const problems = [];
    for await (const { path, kind, message } of world.index.problems()) problems.push({ path, kind, message });
    expect(problems).toContainEqual({ path: refused, kind: "invalid", message: "version must be a number" });
    rmSync(join(world.base, DIR, "zweb.yaml"));
    await expect(repository.findByName(TYPE, "web")).rejects.toThrow(DefinitionProblemError);
    writeFileSync(refused, textOf(TYPE, thing(1, "web")));
    expect((await repository.findByName(TYPE, "web"))?.id).toBe(idOf(1));
    writeFileSync(refused, `id: ${idOf(1)}\nname: web\nversion: soon\n`);
    await expect(repository.findByName(TYPE, "web")).rejects.toThrow(DefinitionProblemError);
    rmSync(refused);
    expect(await repository.findByName(TYPE, "web")).toBeNull();
  });

  it("hands out objects that a caller may change without changing the next one's", async () => {
    const world = await openWorld(kind);
    world.put("swamp/echo/web.yaml", textOf(TYPE, thing(1, "web")));
    const codec = { ...thingCodec, decode: (document: unknown) => document as Thing };
    const repository = world.repository({ codec });
    const first = await repository.findByName(TYPE, "web");
    first!.name = "scribbled";
    expect((await repository.findByName(TYPE, "web"))?.name).toBe("web");
  });

  it("makes the caller's types, and takes them", async () => {
    const world = await openWorld(kind);
    class ModelType {
      readonly normalized: string;
      constructor(normalized: string) {
        this.normalized = normalized;
      }
    }
    const repository = createDefinitionRepository<Thing, ModelType>(world.index, {
      codec: thingCodec,
      writeRoot: "models",
      typeOf: (normalized) => new ModelType(normalized),
    });
    await repository.save(new ModelType("aws/ec2"), thing(1, "web"));
    const found = await repository.findByNameGlobal("web");
    expect(found?.type).toBeInstanceOf(ModelType);
    expect(await repository.findById(found!.type, idOf(1))).toEqual(thing(1, "web"));
    expect((await repository.findAllGlobal())[0]?.type.normalized).toBe("aws/ec2");
  });

  it("encodes asynchronously, with the normalized type", async () => {
    const world = await openWorld(kind);
    const types: string[] = [];
    const codec = {
      ...thingCodec,
      encode: async (definition: Thing, type: string) => {
        types.push(type);
        await new Promise((resolve) => setImmediate(resolve));
        return { ...definition };
      },
      identify: ({ id, name }: Thing) => ({ id, name }),
    };
    await world.repository({ codec }).save("Swamp.Echo", thing(1, "web"));
    expect(types).toEqual([TYPE]);
    const failing = { ...codec, encode: () => Promise.reject(new Error("no")) };
    await expect(world.repository({ codec: failing }).save(TYPE, thing(1, "web", "x"))).rejects.toThrow("no");
    expect((await world.repository().findByName(TYPE, "web"))?.note).toBeUndefined();
  });

  it("knows paths: the last known at once, the certain one when asked, a likely one for what it does not know", async () => {
    const world = await openWorld(kind);
    const repository = world.repository();
    const path = world.put("swamp/echo/odd.yaml", textOf(TYPE, thing(1, "web")));
    expect(await repository.findPath(TYPE, idOf(1))).toBe(path);
    expect(repository.getPath(TYPE, idOf(1))).toBe(path);
    expect(await repository.findPath(TYPE, idOf(2))).toBeNull();
    expect(repository.getPath("Swamp::Echo", idOf(2))).toBe(join(world.base, DIR, `${idOf(2)}.yaml`));
    expect(() => repository.getPath(TYPE, "../../../etc/passwd")).toThrow(UnsafePathError);
    expect(repository.getPath("../../etc", "x")).toBe(join(world.models, "etc/x.yaml"));
    expect(repository.nextId()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(repository.nextId()).not.toBe(repository.nextId());
  });

  it("deletes the file found for the id, in the write root only, and the directories that it leaves empty", async () => {
    const world = await openWorld(kind);
    const repository = world.repository();
    world.put("a/b/c/web.yaml", textOf("a/b/c", thing(1, "web")));
    world.put("a/keep/other.yaml", textOf("a/keep", thing(2, "other")));
    world.put("auto/a/b/c/web.yaml", textOf("a/b/c", thing(1, "web", "auto")));
    await repository.delete("a/b/c", idOf(3));
    await repository.delete("a/b/c", idOf(1));
    expect(Object.keys(world.files())).toEqual(["models/a/keep/other.yaml", "auto/a/b/c/web.yaml"]);
    expect(existsSync(join(world.models, "a/b"))).toBe(false);
    expect((await repository.findById("a/b/c", idOf(1)))?.note).toBe("auto");
    await repository.delete("a/b/c", idOf(1));
    await repository.delete("a/keep", idOf(2));
    expect(Object.keys(world.files())).toEqual(["auto/a/b/c/web.yaml"]);
    expect(existsSync(world.models)).toBe(true);
    expect(existsSync(join(world.models, "a"))).toBe(false);
  });

  it("deletes a mismatched file, and leaves what only looks like the definition", async () => {
    const world = await openWorld(kind);
    const repository = world.repository();
    world.put("swamp/echo/odd.yaml", textOf(TYPE, thing(1, "web")));
    world.put(`swamp/echo/${idOf(1)}.yaml`, textOf(TYPE, thing(2, "other")));
    world.put("swamp/echo/web.yaml", textOf(TYPE, thing(3, "third")));
    await repository.delete(TYPE, idOf(1));
    expect(Object.keys(world.files())).toEqual([`${DIR}/${idOf(1)}.yaml`, `${DIR}/web.yaml`]);
  });

  it("keeps a directory that holds anything, however small", async () => {
    const world = await openWorld(kind);
    world.put("swamp/echo/web.yaml", textOf(TYPE, thing(1, "web")));
    world.put("swamp/notes.txt", "keep");
    await world.repository().delete(TYPE, idOf(1));
    expect(world.files()).toEqual({ "models/swamp/notes.txt": "keep" });
  });

  it("tells hooks before and after: the paths that may change, and what did", async () => {
    const world = await openWorld(kind);
    const log: unknown[] = [];
    const repository = world.repository({
      onWillWrite: async (paths) => {
        await new Promise((resolve) => setImmediate(resolve));
        log.push(["before", paths.map((path) => path.slice(world.base.length + 1)), Object.keys(world.files())]);
      },
      onChange: ({ path, ...change }: DefinitionChange) => {
        log.push(["after", { ...change, path: path.slice(world.base.length + 1) }, Object.keys(world.files())]);
      },
    });
    const web = `${DIR}/web.yaml`;
    const app = `${DIR}/app.yaml`;
    const change = (kind: string, name: string, path: string) => ({ kind, type: TYPE, id: idOf(1), name, path });
    await repository.save(TYPE, thing(1, "web"));
    await repository.save(TYPE, thing(1, "web", "changed"));
    await repository.save(TYPE, thing(1, "app"));
    await repository.delete(TYPE, idOf(1));
    await repository.delete(TYPE, idOf(1));
    expect(log).toEqual([
      ["before", [web], []],
      ["after", change("created", "web", web), [web]],
      ["before", [web], [web]],
      ["after", change("updated", "web", web), [web]],
      ["before", [web, app], [web]],
      ["after", change("updated", "app", app), [app]],
      ["before", [app], [app]],
      ["after", change("deleted", "app", app), []],
    ]);
  });

  it("changes nothing when the hook before throws, and has changed it when the one after does", async () => {
    const world = await openWorld(kind);
    world.put("swamp/echo/web.yaml", textOf(TYPE, thing(1, "web")));
    const before = world.files();
    const refusing = world.repository({ onWillWrite: () => Promise.reject(new Error("offline")) });
    await expect(refusing.save(TYPE, thing(1, "web", "x"))).rejects.toThrow("offline");
    await expect(refusing.save(TYPE, thing(2, "new"))).rejects.toThrow("offline");
    await expect(refusing.delete(TYPE, idOf(1))).rejects.toThrow("offline");
    await expect(refusing.resolveOrCreate(TYPE, "new", () => thing(2, "new"))).rejects.toThrow("offline");
    expect(world.files()).toEqual(before);
    const warnings: string[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning.message);
    process.on("warning", onWarning);
    try {
      const deaf = world.repository({ onChange: () => Promise.reject(new Error("no listener")) });
      await deaf.save(TYPE, thing(1, "web", "x"));
      expect((await deaf.resolveOrCreate(TYPE, "new", () => thing(2, "new"))).created).toBe(true);
      await deaf.delete(TYPE, idOf(1));
      await new Promise((resolve) => setImmediate(resolve));
    } finally {
      process.off("warning", onWarning);
    }
    expect(Object.keys(world.files())).toEqual([`${DIR}/new.yaml`]);
    expect(warnings.filter((message) => message.includes("no listener"))).toHaveLength(3);
  });

  it("resolves what exists without creating, and creates what does not, once", async () => {
    const world = await openWorld(kind);
    const repository = world.repository();
    world.put(`auto/swamp/echo/${idOf(1)}.yaml`, textOf(TYPE, thing(1, "legacy")));
    let made = 0;
    const create = (name: string) => () => thing(100 + made++, name);
    expect(await repository.resolveOrCreate(TYPE, "legacy", create("legacy"))).toEqual({
      definition: thing(1, "legacy"),
      created: false,
      path: join(world.base, `auto/swamp/echo/${idOf(1)}.yaml`),
    });
    expect(made).toBe(0);
    const all = await Promise.all(
      Array.from({ length: 50 }, () => repository.resolveOrCreate(TYPE, "web", create("web"))),
    );
    expect(made).toBe(1);
    expect(all.filter(({ created }) => created)).toHaveLength(1);
    expect(new Set(all.map(({ definition, path }) => `${definition.id} ${path}`)).size).toBe(1);
    expect(Object.keys(world.files())).toContain(`${DIR}/web.yaml`);
    expect((await repository.resolveOrCreate(TYPE, "Unsafe Name", create("Unsafe Name"))).path).toBe(
      join(world.base, DIR, `${idOf(101)}.yaml`),
    );
  });

  it("lets the next caller try when one's create fails", async () => {
    const world = await openWorld(kind);
    const repository = world.repository();
    const outcomes = await Promise.allSettled(
      [0, 1, 2].map((n) =>
        repository.resolveOrCreate(TYPE, "web", () => {
          if (n === 0) throw new Error("first fails");
          return thing(n, "web");
        }),
      ),
    );
    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "fulfilled", "fulfilled"]);
    expect(world.files()).toEqual({ [`${DIR}/web.yaml`]: textOf(TYPE, thing(1, "web")) });
  });

  it("refuses what create must not return: another name, or the id of an existing definition", async () => {
    const world = await openWorld(kind);
    const repository = world.repository();
    world.put("swamp/echo/app.yaml", textOf(TYPE, thing(1, "app")));
    const before = world.files();
    await expect(repository.resolveOrCreate(TYPE, "web", () => thing(2, "other"))).rejects.toThrow(
      InvalidArgumentError,
    );
    await expect(repository.resolveOrCreate(TYPE, "web", () => thing(1, "web"))).rejects.toThrow(
      DefinitionConflictError,
    );
    expect(world.files()).toEqual(before);
  });

  it("with global scope, finds a name under its declared type and refuses it under another", async () => {
    const world = await openWorld(kind);
    const repository = world.repository();
    world.put("aws/ec2/web.yaml", textOf("aws/ec2", thing(1, "web")));
    world.put("swamp/echo/both.yaml", textOf(TYPE, thing(2, "both")));
    world.put("aws/ec2/both.yaml", textOf("aws/ec2", thing(3, "both")));
    world.put("aws/ec2/moved.yaml", textOf("Swamp::Echo", thing(4, "moved")));
    const create = (): Thing => thing(9, "web");
    const refused = await repository.resolveOrCreate(TYPE, "web", create, { scope: "global" }).catch((e: unknown) => e);
    expect(refused).toBeInstanceOf(DefinitionTypeError);
    expect(refused).toMatchObject({ wanted: TYPE, actual: "aws/ec2" });
    const own = await repository.resolveOrCreate(TYPE, "both", create, { scope: "global" });
    expect(own.definition.id).toBe(idOf(2));
    const moved = await repository.resolveOrCreate(TYPE, "moved", create, { scope: "global" });
    expect(moved.definition.id).toBe(idOf(4));
    expect((await repository.resolveOrCreate(TYPE, "web", create)).created).toBe(true);
  });

  it("sees a save and a delete in every later lookup, while roots vanish and come back", async () => {
    const world = await openWorld(kind);
    const repository = world.repository();
    await repository.save(TYPE, thing(1, "web"));
    renameSync(world.models, join(world.base, "aside"));
    expect(await repository.findByName(TYPE, "web")).toBeNull();
    await repository.save(TYPE, thing(2, "web"));
    expect((await repository.findByName(TYPE, "web"))?.id).toBe(idOf(2));
    await repository.delete(TYPE, idOf(2));
    expect(await repository.findById(TYPE, idOf(2))).toBeNull();
    rmSync(world.models, { recursive: true });
    renameSync(join(world.base, "aside"), world.models);
    expect((await repository.findByName(TYPE, "web"))?.id).toBe(idOf(1));
    mkdirSync(join(world.models, "empty"));
    await repository.save(TYPE, thing(1, "web", "again"));
    expect((await repository.findById(TYPE, idOf(1)))?.note).toBe("again");
  });
});

describe("createDefinitionRepository", () => {
  it("names what it cannot use", async () => {
    const { index } = await openWorld("obvious");
    const options = { codec: thingCodec, writeRoot: "models" };
    expect(() => createDefinitionRepository({} as DefinitionIndex, options)).toThrow(/index: expected/);
    const wrong: Record<string, object> = {
      writeRoot: { writeRoot: "nowhere" },
      lookupRoots: { lookupRoots: ["models", "nowhere"] },
      listRoots: { listRoots: ["nowhere"] },
      durability: { durability: "maybe" },
    };
    for (const [argument, option] of Object.entries(wrong)) {
      expect(() => createDefinitionRepository(index, { ...options, ...option })).toThrow(`${argument}: expected`);
    }
    expect(() => createDefinitionRepository(index, { ...options, lookupRoots: ["auto"] })).toThrow("lookupRoots");
  });
});

import {
  chmodSync,
  chownSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  DefinitionConflictError,
  DefinitionProblemError,
  InvalidArgumentError,
  KeyTooLongError,
  UnsafePathError,
} from "../../src/errors.ts";
import { idOf, indexKinds, openWorld, type Thing, textOf, thing } from "../support/repositories.ts";
import { isLong } from "../support/spawn.ts";

const TYPE = "swamp/echo";
const DIR = `models/${TYPE}`;

// What is particular to a bounded index is in its lookups; the rules of saving are the same over each.
describe.each(isLong ? indexKinds : (["obvious", "exact"] as const))("save, over the %s index", (kind) => {
  it("writes {name}.yaml, creating the root and the type's directory, and leaves no temporary file", async () => {
    const world = await openWorld(kind);
    const repository = world.repository();
    await repository.save(TYPE, thing(1, "web", "hello"));
    expect(world.files()).toEqual({ [`${DIR}/web.yaml`]: textOf(TYPE, thing(1, "web", "hello")) });
    expect(await repository.findByName(TYPE, "web")).toEqual(thing(1, "web", "hello"));
    expect(await repository.findById(TYPE, idOf(1))).toEqual(thing(1, "web", "hello"));
  });

  it("writes {id}.yaml for a name that makes no safe filename", async () => {
    const world = await openWorld(kind);
    const repository = world.repository();
    const names = [
      "@acme/scoped",
      "Has Caps",
      "naïve",
      "a".repeat(65),
      "-dash",
      "dot.ted",
      "a..b",
      "\u{1F600}",
      "\uFFFD",
    ];
    for (const [n, name] of names.entries()) await repository.save(TYPE, thing(n, name));
    expect(Object.keys(world.files())).toEqual(names.map((_, n) => `${DIR}/${idOf(n)}.yaml`));
    for (const [n, name] of names.entries()) expect(await repository.findByName(TYPE, name)).toEqual(thing(n, name));
  });

  it("replaces the file of the id, with its mode and owner", async () => {
    const world = await openWorld(kind);
    const repository = world.repository();
    const path = world.put("swamp/echo/web.yaml", textOf(TYPE, thing(1, "web")));
    chmodSync(path, 0o640);
    if (process.getuid?.() === 0) chownSync(path, 12345, 23456);
    const before = statSync(path);
    await repository.save(TYPE, thing(1, "web", "changed"));
    expect(world.files()).toEqual({ [`${DIR}/web.yaml`]: textOf(TYPE, thing(1, "web", "changed")) });
    const { mode, uid, gid } = statSync(path);
    expect({ mode, uid, gid }).toEqual({ mode: before.mode, uid: before.uid, gid: before.gid });
  });

  it("moves a UUID-named file to its name, keeping its mode", async () => {
    const world = await openWorld(kind);
    chmodSync(world.put(`swamp/echo/${idOf(1)}.yaml`, textOf(TYPE, thing(1, "web"))), 0o600);
    await world.repository().save(TYPE, thing(1, "web", "changed"));
    expect(world.files()).toEqual({ [`${DIR}/web.yaml`]: textOf(TYPE, thing(1, "web", "changed")) });
    expect(statSync(join(world.base, DIR, "web.yaml")).mode & 0o7777).toBe(0o600);
  });

  it("moves a renamed definition, and the old name is free", async () => {
    const world = await openWorld(kind);
    const repository = world.repository();
    await repository.save(TYPE, thing(1, "old"));
    await repository.save(TYPE, thing(1, "new"));
    expect(Object.keys(world.files())).toEqual([`${DIR}/new.yaml`]);
    expect(await repository.findByName(TYPE, "old")).toBeNull();
    expect((await repository.findByName(TYPE, "new"))?.id).toBe(idOf(1));
    await repository.save(TYPE, thing(2, "old"));
    expect(Object.keys(world.files())).toEqual([`${DIR}/new.yaml`, `${DIR}/old.yaml`]);
  });

  it("moves a definition that takes an unsafe name to {id}.yaml, and back", async () => {
    const world = await openWorld(kind);
    const repository = world.repository();
    await repository.save(TYPE, thing(1, "web"));
    await repository.save(TYPE, thing(1, "Web Server"));
    expect(Object.keys(world.files())).toEqual([`${DIR}/${idOf(1)}.yaml`]);
    await repository.save(TYPE, thing(1, "web"));
    expect(Object.keys(world.files())).toEqual([`${DIR}/web.yaml`]);
  });

  it("swaps two names by way of a third, losing neither", async () => {
    const world = await openWorld(kind);
    const repository = world.repository();
    await repository.save(TYPE, thing(1, "a"));
    await repository.save(TYPE, thing(2, "b"));
    await expect(repository.save(TYPE, thing(1, "b"))).rejects.toThrow(DefinitionConflictError);
    await repository.save(TYPE, thing(1, "c"));
    await repository.save(TYPE, thing(2, "a"));
    await repository.save(TYPE, thing(1, "b"));
    expect(world.files()).toEqual({
      [`${DIR}/a.yaml`]: textOf(TYPE, thing(2, "a")),
      [`${DIR}/b.yaml`]: textOf(TYPE, thing(1, "b")),
    });
  });

  it("writes {id}.yaml where {name}.yaml is a definition of another name", async () => {
    const world = await openWorld(kind);
    const repository = world.repository();
    const foreign = textOf(TYPE, thing(9, "other"));
    world.put("swamp/echo/web.yaml", foreign);
    await repository.save(TYPE, thing(1, "web"));
    expect(world.files()).toEqual({
      [`${DIR}/${idOf(1)}.yaml`]: textOf(TYPE, thing(1, "web")),
      [`${DIR}/web.yaml`]: foreign,
    });
    expect((await repository.findByName(TYPE, "web"))?.id).toBe(idOf(1));
    await repository.save(TYPE, thing(1, "web", "again"));
    expect(world.read(`${DIR}/${idOf(1)}.yaml`)).toBe(textOf(TYPE, thing(1, "web", "again")));
    expect(world.read(`${DIR}/web.yaml`)).toBe(foreign);
  });

  it("refuses when both {name}.yaml and {id}.yaml are other definitions", async () => {
    const world = await openWorld(kind);
    world.put("swamp/echo/web.yaml", textOf(TYPE, thing(8, "other")));
    world.put(`swamp/echo/${idOf(1)}.yaml`, textOf(TYPE, thing(9, "another")));
    const before = world.files();
    await expect(world.repository().save(TYPE, thing(1, "web"))).rejects.toThrow(DefinitionConflictError);
    expect(world.files()).toEqual(before);
  });

  it("writes {id}.yaml where a directory is called {name}.yaml", async () => {
    const world = await openWorld(kind);
    world.put("swamp/echo/web.yaml/inner.yaml", textOf(TYPE, thing(9, "inner")));
    await world.repository().save(TYPE, thing(1, "web"));
    expect(Object.keys(world.files())).toContain(`${DIR}/${idOf(1)}.yaml`);
  });

  it("refuses where {name}.yaml is a problem, and leaves it as it is", async () => {
    const world = await openWorld(kind);
    const repository = world.repository();
    const problems = [
      "id: [\n",
      "",
      "name: web\n",
      `id: ${idOf(7)}\nname: web\nversion: soon\n`, // The codec refuses it …
      `id: ${idOf(1)}\nname: web\nversion: soon\n`, // … and this one is the very definition, half edited.
      `id: ${idOf(1)}\nname: web\nnote: ${"x".repeat(1 << 20)}\n`,
    ];
    const types = problems.map((_, n) => `swamp/t${n}`);
    for (const [n, text] of problems.entries()) world.put(`swamp/t${n}/web.yaml`, text);
    const before = world.files();
    for (const type of types) {
      await expect(repository.save(type, thing(1, "web")), type).rejects.toThrow(DefinitionProblemError);
      await expect(repository.findByName(type, "web"), type).rejects.toThrow(DefinitionProblemError);
      const created = repository.resolveOrCreate(type, "web", () => thing(2, "web"));
      await expect(created, type).rejects.toThrow(DefinitionProblemError);
      await repository.delete(type, idOf(1)).catch((error) => expect(error).toBeInstanceOf(DefinitionProblemError));
    }
    expect(world.files()).toEqual(before);
  });

  it("refuses a new file for an id whose {id}.yaml somebody may just be editing", async () => {
    const world = await openWorld(kind);
    world.put(`swamp/echo/${idOf(1)}.yaml`, `id: ${idOf(1)}\nname: we`.slice(0, -12));
    const before = world.files();
    await expect(world.repository().save(TYPE, thing(1, "web"))).rejects.toThrow(DefinitionProblemError);
    await world.repository().delete(TYPE, idOf(1));
    expect(world.files()).toEqual(before);
  });

  it("refuses where {name}.yaml is a dangling symbolic link, or one that leads out of the boundary", async () => {
    const world = await openWorld(kind);
    mkdirSync(join(world.base, DIR), { recursive: true });
    symlinkSync("./nowhere.yaml", join(world.base, DIR, "web.yaml"));
    symlinkSync("/etc/hostname", join(world.base, DIR, "out.yaml"));
    const repository = world.repository();
    await expect(repository.save(TYPE, thing(1, "web"))).rejects.toThrow(DefinitionProblemError);
    await expect(repository.save(TYPE, thing(1, "out"))).rejects.toThrow(DefinitionProblemError);
    expect(readdirSync(join(world.base, DIR)).sort()).toEqual(["out.yaml", "web.yaml"]);
  });

  it("refuses a name that another id has, wherever its file lies, and in any lookup root", async () => {
    const world = await openWorld(kind);
    world.put(`swamp/echo/${idOf(7)}.yaml`, textOf(TYPE, thing(7, "web")));
    world.put("auto/swamp/echo/behind.yaml", textOf(TYPE, thing(8, "behind")));
    const repository = world.repository();
    const before = world.files();
    for (const name of ["web", "behind"]) {
      const error = await repository.save(TYPE, thing(1, name)).catch((e: unknown) => e);
      expect(error).toBeInstanceOf(DefinitionConflictError);
      expect((error as DefinitionConflictError).existing.name).toBe(name);
    }
    await expect(repository.save("aws/ec2", thing(1, "web"))).resolves.toBeUndefined();
    expect(world.files()).toMatchObject(before);
  });

  it("of two that have one name already, saves each where it lies, and the winner stays", async () => {
    const world = await openWorld(kind);
    world.put("swamp/echo/a-copy.yaml", textOf(TYPE, thing(1, "web")));
    world.put("swamp/echo/b-copy.yaml", textOf(TYPE, thing(2, "web")));
    const repository = world.repository();
    await repository.save(TYPE, thing(2, "web", "changed"));
    expect(Object.keys(world.files())).toEqual([`${DIR}/a-copy.yaml`, `${DIR}/b-copy.yaml`]);
    expect((await repository.findByName(TYPE, "web"))?.id).toBe(idOf(1));
    expect((await repository.findById(TYPE, idOf(2)))?.note).toBe("changed");
  });

  it("refuses to choose between two files that hold one id", async () => {
    const world = await openWorld(kind);
    world.put("swamp/echo/web.yaml", textOf(TYPE, thing(1, "web", "one")));
    world.put("swamp/echo/copy.yaml", textOf(TYPE, thing(1, "web", "other")));
    const before = world.files();
    await expect(world.repository().save(TYPE, thing(1, "web"))).rejects.toThrow(/two files hold the id/);
    expect(world.files()).toEqual(before);
  });

  it("finishes a move that was cut off between link and unlink", async () => {
    const world = await openWorld(kind);
    const old = world.put(`swamp/echo/${idOf(1)}.yaml`, textOf(TYPE, thing(1, "web", "moved")));
    linkSync(old, join(world.base, DIR, "web.yaml"));
    const repository = world.repository();
    expect((await repository.findByName(TYPE, "web"))?.note).toBe("moved");
    await repository.save(TYPE, thing(1, "web", "later"));
    expect(world.files()).toEqual({ [`${DIR}/web.yaml`]: textOf(TYPE, thing(1, "web", "later")) });
  });

  it("writes through neither a link out of the root nor into its target", async () => {
    const world = await openWorld(kind);
    mkdirSync(join(world.base, DIR), { recursive: true });
    mkdirSync(join(world.base, "vendor"));
    const vendored = textOf(TYPE, thing(1, "web"));
    writeFileSync(join(world.base, "vendor/web.yaml"), vendored);
    symlinkSync("../../../vendor/web.yaml", join(world.base, DIR, "web.yaml"));
    await world.repository().save(TYPE, thing(1, "web", "changed"));
    expect(lstatSync(join(world.base, DIR, "web.yaml")).isFile()).toBe(true);
    expect(world.read(`${DIR}/web.yaml`)).toBe(textOf(TYPE, thing(1, "web", "changed")));
    expect(world.read("vendor/web.yaml")).toBe(vendored);
  });

  it("copies a definition of a later root into the write root, where it is found first", async () => {
    const world = await openWorld(kind);
    const original = textOf(TYPE, thing(1, "web"));
    world.put("auto/swamp/echo/web.yaml", original);
    const repository = world.repository();
    await repository.save(TYPE, { ...(await repository.findByName(TYPE, "web"))!, note: "changed" });
    expect(world.files()).toEqual({
      [`${DIR}/web.yaml`]: textOf(TYPE, thing(1, "web", "changed")),
      "auto/swamp/echo/web.yaml": original,
    });
    expect((await repository.findById(TYPE, idOf(1)))?.note).toBe("changed");
    await repository.delete(TYPE, idOf(1));
    expect(await repository.findByName(TYPE, "web")).toEqual(thing(1, "web"));
  });

  it("refuses to write behind a root that is looked up first: nobody would see it", async () => {
    const world = await openWorld(kind);
    world.put("swamp/echo/web.yaml", textOf(TYPE, thing(1, "web")));
    const before = world.files();
    const behind = world.repository({ writeRoot: "auto" });
    await expect(behind.save(TYPE, thing(1, "web", "changed"))).rejects.toThrow(/looked up before/);
    expect(world.files()).toEqual(before);
    world.put("auto/swamp/echo/web.yaml", textOf(TYPE, thing(1, "web", "own")));
    await behind.save(TYPE, thing(1, "web", "changed"));
    expect(world.read("auto/swamp/echo/web.yaml")).toBe(textOf(TYPE, thing(1, "web", "changed")));
  });

  it("normalizes the type", async () => {
    const world = await openWorld(kind);
    const repository = world.repository();
    await repository.save("AWS::EC2::VPC", thing(1, "a"));
    await repository.save("aws.ec2 vpc/", thing(2, "b"));
    expect(Object.keys(world.files())).toEqual(["models/aws/ec2/vpc/a.yaml", "models/aws/ec2/vpc/b.yaml"]);
    expect(await repository.findByName("Aws.Ec2.Vpc", "a")).toEqual(thing(1, "a"));
  });

  it("refuses types, names and ids that lead out of the root, taken at their word", async () => {
    const world = await openWorld(kind);
    const repository = world.repository();
    const refused = async (saving: Promise<unknown>, what: string): Promise<void> => {
      await expect(saving, JSON.stringify(what)).rejects.toThrow(UnsafePathError);
      expect(readdirSync(world.base).filter((name) => name !== "index")).toEqual([]);
    };
    for (const type of ["../up", "a/../../b", "..", "/etc", "a\0b", "C:\\temp", "", "::", "a/\ud800"]) {
      await refused(repository.save(type, thing(1, "web")), type);
      await refused(repository.delete(type, idOf(1)), type);
      await refused(
        repository.resolveOrCreate(type, "web", () => thing(1, "web")),
        type,
      );
    }
    for (const name of ["../up", "a/../b", "..", "/etc/passwd", "a\0b", "\ud800"]) {
      await refused(repository.save(TYPE, thing(1, name)), name);
      await refused(
        repository.resolveOrCreate(TYPE, name, () => thing(1, name)),
        name,
      );
    }
    // An id matters only where the file would be called after it.
    for (const id of ["../up", "a/b", "a\\b", "/x", "a\0b"]) {
      await expect(repository.save(TYPE, { id, name: "Unsafe Name", version: 1 }), id).rejects.toThrow(UnsafePathError);
    }
    expect(world.files()).toEqual({});
    await repository.save(TYPE, { id: "../up", name: "safe", version: 1 });
    expect(Object.keys(world.files())).toEqual([`${DIR}/safe.yaml`]);
  });

  it("refuses what is too long for a file's name, and takes a long name whose id is not", async () => {
    const world = await openWorld(kind);
    const repository = world.repository();
    await expect(repository.save(TYPE, { ...thing(1, "Long Id"), id: "x".repeat(251) })).rejects.toThrow(
      KeyTooLongError,
    );
    await expect(repository.save("x".repeat(256), thing(1, "web"))).rejects.toThrow(KeyTooLongError);
    await repository.save(TYPE, thing(1, "n".repeat(5000)));
    expect((await repository.findByName(TYPE, "n".repeat(5000)))?.id).toBe(idOf(1));
  });

  it("refuses a symbolic link in the type's path", async () => {
    for (const link of ["models/swamp", "models/swamp/echo"]) {
      const world = await openWorld(kind);
      const outside = join(world.base, "outside");
      mkdirSync(join(outside, "echo"), { recursive: true });
      mkdirSync(join(world.base, link, ".."), { recursive: true });
      symlinkSync(outside, join(world.base, link));
      await expect(world.repository().save(TYPE, thing(1, "web"))).rejects.toThrow(UnsafePathError);
      expect(readdirSync(outside)).toEqual(["echo"]);
      expect(readdirSync(join(outside, "echo"))).toEqual([]);
    }
  });

  it("refuses a file where a directory of the type belongs", async () => {
    const world = await openWorld(kind);
    const path = world.put("swamp/echo", "somebody's notes");
    await expect(world.repository().save(TYPE, thing(1, "web"))).rejects.toThrow(UnsafePathError);
    expect(world.read("models/swamp/echo")).toBe("somebody's notes");
    expect(path).toContain("swamp/echo");
  });

  it("puts nothing in place that could not be found again", async () => {
    const world = await openWorld(kind);
    const good = textOf(TYPE, thing(1, "web"));
    world.put("swamp/echo/web.yaml", good);
    const bad: Record<string, (document: Record<string, unknown>) => string> = {
      "another name": (d) => `id: ${d["id"]}\nname: other\n`,
      "no YAML": () => "id: [",
      "too large": (d) => `id: ${d["id"]}\nname: ${d["name"]}\nnote: ${"x".repeat(1 << 20)}\n`,
      "half a surrogate": (d) => `id: ${d["id"]}\nname: "${d["name"]}\ud800"\n`,
      "no text": (d) => Buffer.from(`id: ${d["id"]}\nname: ${d["name"]}\n`) as never,
    };
    for (const stringify of Object.values(bad)) {
      await expect(world.repository({ stringify }).save(TYPE, thing(1, "web"))).rejects.toThrow(InvalidArgumentError);
      await expect(world.repository({ stringify }).save(TYPE, thing(2, "new"))).rejects.toThrow(InvalidArgumentError);
    }
    for (const note of [() => "now", Symbol("s")]) {
      const saving = world.repository().save(TYPE, { ...thing(2, "new"), note } as never);
      await expect(saving).rejects.toMatchObject({ code: "INVALID_ARGUMENT", argument: "codec.encode(…)" });
    }
    const encode = (definition: Thing): Record<string, unknown> => ({ ...definition, id: "another" });
    const codec = { decode: (document: unknown) => document as Thing, encode };
    await expect(world.repository({ codec }).save(TYPE, thing(1, "web"))).rejects.toThrow(InvalidArgumentError);
    expect(world.files()).toEqual({ [`${DIR}/web.yaml`]: good });
  });

  it("refuses what has no identity", async () => {
    const world = await openWorld(kind);
    const { repository } = world;
    const nobody = [{ id: "", name: "web" }, { id: idOf(1), name: "" }, { id: 5, name: "web" }, { name: "web" }, null];
    for (const definition of nobody) {
      await expect(repository().save(TYPE, definition as never)).rejects.toThrow(InvalidArgumentError);
    }
    expect(world.files()).toEqual({});
  });

  it("saves 60 at once, new and old, each as asked", async () => {
    const world = await openWorld(kind);
    const repository = world.repository();
    const all = Array.from({ length: 60 }, (_, n) => thing(n, `name-${n}`));
    await Promise.all(all.slice(0, 30).map((one) => repository.save(TYPE, one)));
    await Promise.all(all.map((one) => repository.save(TYPE, { ...one, note: "second" })));
    expect(world.files()).toEqual(
      Object.fromEntries(all.map((one) => [`${DIR}/${one.name}.yaml`, textOf(TYPE, { ...one, note: "second" })])),
    );
  });

  it("renames one definition many times at once, and it ends in one file", async () => {
    const world = await openWorld(kind);
    const repository = world.repository();
    await repository.save(TYPE, thing(1, "start"));
    await Promise.all(
      Array.from({ length: 30 }, (_, n) => repository.save(TYPE, thing(1, `name-${n % 9}`, `round ${n}`))),
    );
    const found = await repository.findById(TYPE, idOf(1));
    expect(world.files()).toEqual({ [`${DIR}/${found?.name}.yaml`]: textOf(TYPE, found as Thing) });
  });

  it("saves into a directory that a delete is about to remove, and is there afterwards", async () => {
    const world = await openWorld(kind);
    const repository = world.repository();
    for (let n = 0; n < 10; n++) {
      await repository.save("a/b", thing(1, "gone"));
      await Promise.all([repository.delete("a/b", idOf(1)), repository.save("a/b", thing(2, "stays", `round ${n}`))]);
      expect(world.files()).toEqual({ "models/a/b/stays.yaml": textOf("a/b", thing(2, "stays", `round ${n}`)) });
      await repository.delete("a/b", idOf(2));
      expect(world.files()).toEqual({});
    }
  });
});

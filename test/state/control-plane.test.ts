import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { StorageFullError } from "../../src/errors.ts";
import { openControlPlaneStore } from "../../src/state/control-plane.ts";
import { controlPlaneConformance } from "../conformance/control-plane.ts";
import { isLong, spawnChild, tempDir } from "../support/spawn.ts";

const CHILD = new URL("control-plane.child.ts", import.meta.url);

describe("control-plane records in plain files", () => {
  const cases = controlPlaneConformance(async () => {
    const dir = mkdtempSync(join(tmpdir(), "tussock-control-plane-"));
    return {
      open: () => openControlPlaneStore({ dir: join(dir, "records") }),
      remove: async () => rmSync(dir, { recursive: true }),
    };
  });
  for (const { name, run } of cases) test(name, run);

  test("eight processes claim at once, and each time exactly one wins", async () => {
    const dir = tempDir();
    const children = Array.from({ length: 8 }, (_, n) => spawnChild(CHILD, [dir, `process-${n}`]));
    for (const child of children) await child.line();
    const store = await openControlPlaneStore({ dir });
    for (let round = 0; round < (isLong ? 2_000 : 50); round++) {
      const key = `claims/reconcile-instance/${round}`;
      for (const child of children) child.send(`claim ${key}`);
      const won = await Promise.all(children.map((child) => child.line()));
      expect(won.filter((answer) => answer === "true")).toHaveLength(1);
      expect(new TextDecoder().decode((await store.get(key)) ?? undefined)).toBe(`process-${won.indexOf("true")}`);
    }
    for (const child of children) child.process.stdin?.end();
    for (const child of children) expect((await child.exit).code).toBe(0);
    await store.close();
    expect(readdirSync(join(dir, ".tmp"))).toEqual([]);
  });

  test("directories that come and go under many processes lose no record", async () => {
    const dir = tempDir();
    const children = Array.from({ length: 4 }, (_, n) => spawnChild(CHILD, [dir, `process-${n}`]));
    for (const child of children) await child.line();
    for (const child of children) child.send("churn 60");
    for (const child of children) expect(await child.line()).toBe("done");
    for (const child of children) child.process.stdin?.end();
    for (const child of children) expect((await child.exit).code).toBe(0);
    const store = await openControlPlaneStore({ dir });
    expect(await store.list("")).toEqual([0, 1, 2, 3].map((n) => `shared/done/process-${n}`));
    expect(readdirSync(dir).sort()).toEqual([".tmp", "shared"]);
    expect(readdirSync(join(dir, "shared"))).toEqual(["done"]);
  });

  test("a process that is killed while it writes leaves whole records, and drafts that nobody sees", async () => {
    const dir = tempDir();
    for (const lines of [1, 5, 20]) {
      const child = spawnChild(CHILD, [dir, "doomed"]);
      await child.line();
      child.send("flood");
      for (let n = 0; n < lines; n++) await child.line();
      child.process.kill("SIGKILL");
      let last = lines - 1;
      for await (const line of child.lines) last = Number(line);
      await child.exit;
      const store = await openControlPlaneStore({ dir });
      for (const key of await store.list("")) {
        const text = new TextDecoder().decode((await store.get(key)) ?? undefined);
        expect(text).toHaveLength(20_000);
        expect(key).toBe(`flood/${Number(text) % 5}`);
      }
      const acknowledged = new TextDecoder().decode((await store.get(`flood/${last % 5}`)) ?? undefined);
      expect([last, last + 5]).toContain(Number(acknowledged));
      await store.close();
    }
  });

  test("drafts of the dead are removed when they are old, and what is not a record is left alone", async () => {
    const dir = tempDir();
    mkdirSync(join(dir, ".tmp"));
    for (const name of ["old", "young"]) writeFileSync(join(dir, ".tmp", name), "half");
    utimesSync(join(dir, ".tmp", "old"), 0, Date.now() / 1000 - 2 * 3_600);
    for (const name of ["README", "%zz=", "a%62=", "b c="]) writeFileSync(join(dir, name), "not ours");
    const store = await openControlPlaneStore({ dir });
    await store.put("a", Uint8Array.of(1));
    expect(await store.list("")).toEqual(["a"]);
    expect(readdirSync(join(dir, ".tmp"))).toEqual(["young"]);
    expect(readdirSync(dir).sort()).toEqual(["%zz=", ".tmp", "README", "a%62=", "a=", "b c="].sort());
  });

  test("a draft that is taken for abandoned is written again", async () => {
    const dir = tempDir();
    const store = await openControlPlaneStore({ dir });
    const writes = Promise.allSettled(Array.from({ length: 200 }, (_, n) => store.put(`k/${n}`, Uint8Array.of(n))));
    let writing = true;
    writes.then(() => (writing = false));
    const met = new Set<string>();
    while (writing) {
      for (const name of readdirSync(join(dir, ".tmp"))) {
        if (!met.has(name) && met.size % 3 === 0) rmSync(join(dir, ".tmp", name), { force: true });
        met.add(name);
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect((await writes).filter(({ status }) => status === "rejected")).toEqual([]);
    expect(met.size).toBeGreaterThan(0);
    expect(await store.list("k/")).toHaveLength(200);
  });

  test("a full disk is an error that says so; nothing of the call is left, and what was there stays", async (context) => {
    const dir = tempDir();
    try {
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=128k", "tmpfs", dir], { stdio: "ignore" });
    } catch {
      return context.skip("needs the right to mount a tmpfs");
    }
    onTestFinished(() => void execFileSync("umount", [dir]));
    const store = await openControlPlaneStore({ dir });
    await store.put("kept", Uint8Array.of(1));
    const tooLarge = new Uint8Array(256 * 1024);
    await expect(store.put("kept", tooLarge)).rejects.toBeInstanceOf(StorageFullError);
    await expect(store.putIfAbsent("new", tooLarge)).rejects.toMatchObject({
      code: "STORAGE_FULL",
      path: join(dir, "new="),
    });
    expect(await store.get("kept")).toEqual(Uint8Array.of(1));
    expect(await store.list("")).toEqual(["kept"]);
    expect(readdirSync(join(dir, ".tmp"))).toEqual([]);
    await store.put("kept", new Uint8Array(10_000));
    await store.close();
  });

  test("a place that cannot be one is refused by name", async () => {
    const dir = tempDir();
    writeFileSync(join(dir, "file"), "");
    await expect(openControlPlaneStore({ dir: "" })).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    await expect(openControlPlaneStore({ dir: join(dir, "file") })).rejects.toMatchObject({
      code: "STATE_STORE_UNAVAILABLE",
      path: join(dir, "file"),
    });
  });
});

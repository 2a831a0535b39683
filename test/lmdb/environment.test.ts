import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import { IndexUnavailableError, InvalidArgumentError, UnsupportedFileSystemError } from "../../src/errors.ts";
import { type OpenEnvironmentOptions, type OwnedEnvironment, openOwnedEnvironment } from "../../src/lmdb/index.ts";
import { probeFileLock, tryFileLock } from "../../src/lock/index.ts";
import { tempDir } from "../support/spawn.ts";

const network = vi.hoisted(() => ({ dir: "" }));
vi.mock(import("../../src/ffi/file-system.ts"), async (original) => {
  const real = await original();
  const fileSystemOf: typeof real.fileSystemOf = (dir) =>
    dir === network.dir ? real.classify(0x6969) : real.fileSystemOf(dir);
  return { ...real, fileSystemOf };
});

const opened: OwnedEnvironment[] = [];
afterEach(async () => {
  for (const environment of opened.splice(0)) await environment.close();
});

const warnings: string[] = [];
async function open(dir: string, options: Partial<OpenEnvironmentOptions> = {}): Promise<OwnedEnvironment> {
  warnings.length = 0;
  const warn = (message: string): void => void warnings.push(message);
  const environment = await openOwnedEnvironment({ dir, identity: { schema: 1 }, warn, ...options });
  opened.push(environment);
  return environment;
}

/** One value in the root database: enough to see whether the content is still there. */
function write({ root }: OwnedEnvironment, value: string): void {
  root.transactionSync(() => {
    root.put("value", value);
  });
}

const openFiles = (): number => readdirSync("/proc/self/fd").length;
const asides = (dir: string): string[] => readdirSync(dir).filter((name) => name.includes(".aside-"));

describe("an environment", () => {
  test("is new once, keeps its content, and frees its slot when it is closed, twice", async () => {
    const dir = join(tempDir(), "deep", "index.d");
    const first = await open(dir);
    expect(first).toMatchObject({ dir, slot: 0, path: join(dir, "0"), fresh: true, freshReason: "new" });
    expect(first.lockMechanism).toBe("flock");
    expect(warnings).toEqual([]);
    write(first, "kept");
    expect(probeFileLock(join(dir, "0.lock"))).toBe("held");
    await Promise.all([first.close(), first.close()]);
    await first[Symbol.asyncDispose]();
    expect(probeFileLock(join(dir, "0.lock"))).toBe("free");

    const second = await open(dir);
    expect(second).toMatchObject({ slot: 0, fresh: false, freshReason: null });
    expect(second.root.get("value")).toBe("kept");
  });

  test("lies in a directory that says that it is a cache and not to be synced", async () => {
    const dir = tempDir();
    await open(dir);
    expect(readFileSync(join(dir, ".nosync"), "utf8")).toContain("do not sync");
    expect(readFileSync(join(dir, "CACHEDIR.TAG"), "utf8")).toMatch(/^Signature: 8a477f597d28d172789f06886806bc55\n/);
  });

  test("opened and closed 50 times leaves no descriptor and no listener", async () => {
    const dir = tempDir();
    await (await open(dir)).close();
    const before = openFiles();
    const listeners = process.listenerCount("exit");
    for (let i = 0; i < 50; i++) await (await open(dir)).close();
    expect(openFiles()).toBe(before);
    expect(process.listenerCount("exit")).toBe(listeners);
  });
});

describe("in one process", () => {
  test("who wants the same shares one handle, which closes with the last of them", async () => {
    const dir = tempDir();
    symlinkSync(dir, `${dir}-link`);
    const [first, second] = await Promise.all([open(dir), open(`${dir}-link`)]);
    rmSync(`${dir}-link`);
    expect(second.root).toBe(first.root);
    expect([first.fresh, second.fresh]).toEqual([true, false]);
    await first.close();
    await first.close();
    write(second, "still open");
    expect(tryFileLock(join(dir, "0.lock"))).toBeNull();
    await second.close();
    tryFileLock(join(dir, "0.lock"))!.release();
  });

  test("who wants another, or will not share, gets the next slot, and finds it again", async () => {
    const dir = tempDir();
    const mine = await open(dir);
    const other = await open(dir, { identity: { schema: 2 } });
    const alone = await open(dir, { shared: false });
    expect([mine.slot, other.slot, alone.slot]).toEqual([0, 1, 2]);
    for (const each of [mine, other, alone]) await each.close();
    expect(await open(dir, { identity: { schema: 2 } })).toMatchObject({ slot: 1, fresh: false });
    expect(warnings).toEqual([]);
  });

  test("who opens while another closes waits for that, and does not take a further slot", async () => {
    const dir = tempDir();
    for (const shared of [true, false]) {
      const first = await open(dir, { shared });
      write(first, "kept");
      const closing = first.close();
      const second = await open(dir, { shared });
      expect(second.slot).toBe(0);
      expect(second.root.get("value")).toBe("kept");
      await closing;
      await second.close();
    }
  });
});

describe("an environment that does not fit", () => {
  test.each<[string, Partial<OpenEnvironmentOptions>, (description: Record<string, unknown>) => void]>([
    ["schema is 1, not 2", { identity: { schema: 2 } }, () => {}],
    ['roots is undefined, not "a,b"', { identity: { schema: 1, roots: "a,b" } }, () => {}],
    ["lmdb is LMDB 0.9.24, not LMDB", {}, (description) => Object.assign(description, { lmdb: "LMDB 0.9.24" })],
    ["architecture is arm-LE, not", {}, (description) => Object.assign(description, { architecture: "arm-LE" })],
    ["machine is another, not", {}, (description) => Object.assign(description, { machine: "another" })],
  ])("(%s) is set aside with one warning", async (why, options, change) => {
    const dir = tempDir();
    const first = await open(dir, { slots: 1 });
    write(first, "old");
    await first.close();
    const file = join(first.path, "environment.json");
    const description = JSON.parse(readFileSync(file, "utf8"));
    change(description);
    writeFileSync(file, JSON.stringify(description));

    const second = await open(dir, { slots: 1, ...options });
    expect(second).toMatchObject({ slot: 0, fresh: true });
    expect(second.freshReason).toContain(why);
    expect(second.root.get("value")).toBeUndefined();
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain(second.path);
    expect(warnings[0]).toContain(why);
    expect(asides(dir)).toHaveLength(1);
    await second.close();
    expect(await open(dir, { slots: 1, ...options })).toMatchObject({ fresh: false });
    expect(warnings).toEqual([]);
  });

  test("is kept, the newest only", async () => {
    const dir = tempDir();
    for (let schema = 0; schema < 4; schema++) {
      const environment = await open(dir, { identity: { schema } });
      write(environment, `schema ${schema}`);
      await environment.close();
    }
    expect(asides(dir)).toHaveLength(1);
    renameSync(join(dir, asides(dir)[0]!), join(dir, "0.back"));
    rmSync(join(dir, "0"), { recursive: true });
    renameSync(join(dir, "0.back"), join(dir, "0"));
    expect((await open(dir, { identity: { schema: 2 } })).root.get("value")).toBe("schema 2");
  });

  test.each([
    ["a directory with files of somebody", "0/mine.txt"],
    ["a file", "0"],
    ["a directory of LMDB that is not ours", "0/data.mdb"],
  ])("because there is %s is moved, not removed", async (_, file) => {
    const dir = tempDir();
    mkdirSync(join(dir, file, ".."), { recursive: true });
    writeFileSync(join(dir, file), "precious");
    const environment = await open(dir);
    expect(environment).toMatchObject({ slot: 0, fresh: true });
    expect(warnings).toHaveLength(1);
    const [aside] = asides(dir);
    expect(readFileSync(join(dir, file.replace("0", aside!)), "utf8")).toBe("precious");
  });

  test("because it is somebody else's stays for ever, whatever is set aside after it", async () => {
    const dir = tempDir();
    mkdirSync(join(dir, "0"));
    writeFileSync(join(dir, "0", "mine.txt"), "precious");
    for (let n = 0; n < 3; n++) {
      await (await open(dir, { shared: false })).close();
      writeFileSync(join(dir, "0", "data.mdb"), Buffer.alloc(8_192, 9));
    }
    await (await open(dir, { shared: false })).close();
    await vi.waitFor(() => expect(asides(dir)).toHaveLength(2));
    const kept = asides(dir).flatMap((aside) => readdirSync(join(dir, aside)));
    expect(kept).toContain("mine.txt");
  });

  test("because a crash came before its first opening is completed without a word", async () => {
    const dir = tempDir();
    await (await open(dir)).close();
    rmSync(join(dir, "0", "data.mdb"));
    writeFileSync(join(dir, "0", "session.json.tmp"), "{");
    expect(await open(dir)).toMatchObject({ fresh: true, freshReason: "new" });
    expect(warnings).toEqual([]);
    expect(asides(dir)).toEqual([]);
  });

  test("because its user condemned it is set aside by the next", async () => {
    const dir = tempDir();
    const first = await open(dir);
    write(first, "nonsense");
    first.condemn("an entry without a type");
    const meanwhile = await open(dir);
    expect(meanwhile.slot).toBe(1);
    await first.close();
    const next = await open(dir, { shared: false });
    expect(next).toMatchObject({ slot: 0, freshReason: "an entry without a type" });
  });
});

test("a directory deleted under the open handle is noticed, and what is made there by others is left alone", async () => {
  const dir = tempDir();
  const first = await open(dir);
  expect(first.isStillThere()).toBe(true);
  rmSync(dir, { recursive: true });
  expect(first.isStillThere()).toBe(false);
  const second = await open(dir);
  expect(second).toMatchObject({ slot: 0, fresh: true });
  write(second, "new");
  const session = readFileSync(join(second.path, "session.json"), "utf8");
  await first.close();
  expect(readFileSync(join(second.path, "session.json"), "utf8")).toBe(session);
  expect(second.isStillThere()).toBe(true);
  expect(second.root.get("value")).toBe("new");
});

describe("is refused with an error that names the directory", () => {
  test("on a network file system, before anything is made", async () => {
    network.dir = join(tempDir(), "index");
    const failure = await open(network.dir).catch((error) => error);
    expect(failure).toBeInstanceOf(UnsupportedFileSystemError);
    expect(failure).toMatchObject({ code: "UNSUPPORTED_FILE_SYSTEM", path: network.dir, fileSystem: "nfs" });
    expect(existsSync(network.dir)).toBe(false);
  });

  test("where there is a file instead of a directory", async () => {
    const dir = join(tempDir(), "file");
    writeFileSync(dir, "precious");
    const failure = await open(dir).catch((error) => error);
    expect(failure).toBeInstanceOf(IndexUnavailableError);
    expect(failure).toMatchObject({ code: "INDEX_UNAVAILABLE", path: dir, cause: { code: "EEXIST" } });
    expect(readFileSync(dir, "utf8")).toBe("precious");
  });

  test.each([{ slots: 0 }, { slots: 1.5 }, { dir: "" }])("for %o", async (options) => {
    await expect(open(tempDir(), options)).rejects.toBeInstanceOf(InvalidArgumentError);
  });
});

test("an abort before the slot is taken leaves nothing", async () => {
  const dir = join(tempDir(), "index");
  const reason = new Error("enough");
  await expect(open(dir, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  const controller = new AbortController();
  const opening = open(dir, { signal: controller.signal });
  controller.abort(reason);
  await expect(opening).rejects.toBe(reason);
  expect(existsSync(dir)).toBe(false);
});

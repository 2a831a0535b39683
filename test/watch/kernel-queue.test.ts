import { appendFileSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  DIRECTORY_CHANGES,
  IN_CREATE,
  IN_DELETE,
  IN_ISDIR,
  type KernelQueue,
  openKernelQueue,
} from "../../src/watch/kernel-queue.ts";
import { tempDir } from "../support/spawn.ts";

interface Event {
  wd: number;
  mask: number;
  name: string;
}

describe.skipIf(process.platform !== "linux")("the kernel's queue", () => {
  function watched(...dirs: string[]): { queue: KernelQueue; wds: number[] } {
    const queue = openKernelQueue() as KernelQueue;
    onTestFinished(() => queue.close());
    return { queue, wds: dirs.map((dir) => queue.watch(dir, DIRECTORY_CHANGES) as number) };
  }

  function drained(queue: KernelQueue): { events: Event[]; count: number } {
    const events: Event[] = [];
    const count = queue.drain((wd, mask, name) => events.push({ wd, mask, name }));
    return { events, count };
  }

  const names = (events: Event[]): string[] => events.map(({ name }) => name);

  test("hands over one event for all that befell a file at a stretch, and counts them all", () => {
    const dir = tempDir();
    const { queue } = watched(dir);
    for (let i = 0; i < 100; i++) appendFileSync(join(dir, "a.yaml"), "x");
    const { events, count } = drained(queue);
    expect(names(events)).toEqual(["a.yaml"]);
    // 100 times a change and a closing; the kernel joins none, as they alternate.
    expect(count).toBeGreaterThan(200);
    // What comes later is another matter, though it is the same file.
    appendFileSync(join(dir, "a.yaml"), "x");
    expect(names(drained(queue).events)).toEqual(["a.yaml"]);
  });

  test("what is prepared is watched as ever, and leaves no descriptor", async () => {
    const open = (): number => readdirSync("/proc/self/fd").length;
    const [dir, other] = [tempDir(), tempDir()];
    for (let n = 0; n < 50; n++) writeFileSync(join(dir, `${n}.yaml`), "x");
    const { queue } = watched();
    const before = open();
    const releases = await Promise.all([dir, dir, other, join(dir, "none")].map((each) => queue.prepare(each)));
    const wd = queue.watch(dir, DIRECTORY_CHANGES);
    await Promise.all(releases.map((release) => release()));
    appendFileSync(join(dir, "7.yaml"), "x");
    appendFileSync(join(other, "7.yaml"), "x");
    const { events } = drained(queue);
    expect(events.map(({ wd, name }) => [wd, name])).toEqual([[wd, "7.yaml"]]);
    expect(open()).toBe(before);
    await (await queue.prepare(dir))();
    expect(open()).toBe(before);
  });

  test("what is prepared when the queue is closed is let go", async () => {
    const open = (): number => readdirSync("/proc/self/fd").length;
    const before = open();
    const queue = openKernelQueue() as KernelQueue;
    const preparing = queue.prepare(tempDir());
    await queue.close();
    await (await preparing)();
    expect(open()).toBe(before);
  });

  test("tells apart names that differ in one byte, and the same name in two directories", () => {
    const [one, two] = [tempDir(), tempDir()];
    const { queue, wds } = watched(one, two);
    const written = ["n1.yaml", "n2.yaml", "n12.yaml", `${"long".repeat(20)}1.yaml`, `${"long".repeat(20)}2.yaml`];
    for (const name of written) for (const dir of [one, two]) writeFileSync(join(dir, name), "x");
    const { events } = drained(queue);
    expect(events.map(({ wd, name }) => [wd, name])).toEqual(written.flatMap((name) => wds.map((wd) => [wd, name])));
  });

  test("leaves out files of other names; a directory of any name is handed over each time", () => {
    const dir = tempDir();
    const { queue } = watched(dir);
    for (const name of ["yaml", ".yml", "a.yaml~", "a.json", "b.yaml.tmp"]) writeFileSync(join(dir, name), "x");
    renameSync(join(dir, "b.yaml.tmp"), join(dir, "b.yaml"));
    for (let i = 0; i < 2; i++) {
      mkdirSync(join(dir, "d"));
      rmSync(join(dir, "d"), { recursive: true });
    }
    writeFileSync(join(dir, ".yaml"), "x");
    const { events } = drained(queue);
    expect(names(events)).toEqual(["b.yaml", "d", "d", "d", "d", ".yaml"]);
    expect(events.slice(1, 5).map(({ mask }) => mask)).toEqual(
      [IN_CREATE, IN_DELETE, IN_CREATE, IN_DELETE].map((mask) => (mask | IN_ISDIR) >>> 0),
    );
  });

  test("names are whole, whatever their length and script", () => {
    const dir = tempDir();
    const { queue } = watched(dir);
    const written = ["é.yaml", "名前.yaml", "😀.yaml", "~.yaml", ...Array.from({ length: 40 }, (_, i) => "x".repeat(i))]
      .map((name) => (name.endsWith(".yaml") ? name : `${name}.yaml`))
      .concat(`${"x".repeat(250)}.yaml`);
    for (const name of written) writeFileSync(join(dir, name), "x");
    expect(names(drained(queue).events)).toEqual(written);
  });

  test("a file between two changes of another hides neither", () => {
    const dir = tempDir();
    const { queue } = watched(dir);
    for (let i = 0; i < 3; i++) for (const name of ["a.yaml", "b.yaml"]) writeFileSync(join(dir, name), "x");
    expect(names(drained(queue).events)).toEqual(["a.yaml", "b.yaml", "a.yaml", "b.yaml", "a.yaml", "b.yaml"]);
  });

  test("more than fits the buffer comes whole", () => {
    const dir = tempDir();
    const { queue } = watched(dir);
    const written = Array.from({ length: 2_000 }, (_, i) => `${"n".repeat(i % 200)}${i}.yaml`);
    for (const name of written) writeFileSync(join(dir, name), "x");
    expect([...new Set(names(drained(queue).events))]).toEqual(written);
  });
});

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import {
  announceInstance,
  currentProcessIdentity,
  livenessOf,
  type ProcessIdentity,
} from "../../src/liveness/index.ts";
import { tryFileLock } from "../../src/lock/index.ts";
import { type Child, spawnChild, tempDir } from "../support/spawn.ts";

const children: Child[] = [];
afterEach(async () => {
  for (const child of children.splice(0)) await kill(child);
});

async function instance(dir = ""): Promise<{ child: Child; identity: ProcessIdentity }> {
  const child = spawnChild(new URL("./instance.child.ts", import.meta.url), [dir]);
  children.push(child);
  return { child, identity: JSON.parse(await child.line()) as ProcessIdentity };
}

async function kill(child: Child): Promise<void> {
  child.process.kill("SIGKILL");
  await child.exit;
}

const self = currentProcessIdentity();
const stranger = "00000000-0000-4000-8000-000000000000";

test("an identity is complete, and the same each time", () => {
  expect(self).toMatchObject({ pid: process.pid, bootId: expect.any(String), pidNamespace: expect.any(String) });
  expect(self.startTime).toBeGreaterThan(0);
  expect(self.instanceId).toMatch(/^[0-9a-f-]{36}$/);
  expect(currentProcessIdentity()).toBe(self);
  expect(livenessOf(self)).toBe("alive");
  expect(livenessOf({ instanceId: self.instanceId })).toBe("alive");
});

test("another process that runs is alive by its PID and start time, and dead when it has ended", async () => {
  const { child, identity } = await instance();
  expect(identity.instanceId).not.toBe(self.instanceId);
  expect(livenessOf(identity)).toBe("alive");
  await kill(child);
  expect(livenessOf(identity)).toBe("dead");
});

test("a PID that now belongs to somebody else is dead, our own PID too", async () => {
  const { child, identity } = await instance();
  expect(livenessOf({ ...identity, startTime: identity.startTime! - 1 })).toBe("dead");
  expect(livenessOf({ ...self, instanceId: stranger, startTime: self.startTime! - 1 })).toBe("dead");
  await kill(child);
});

test("a zombie is dead", async () => {
  const parent = spawn("sh", ["-c", "sleep 0 & echo $!; exec sleep 60"], { stdio: ["ignore", "pipe", "ignore"] });
  const [chunk] = await once(parent.stdout, "data");
  const pid = Number(String(chunk));
  let fields: string[];
  do fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!.split(" ");
  while (fields[0] !== "Z");
  expect(livenessOf({ ...self, instanceId: stranger, pid, startTime: Number(fields[19]) })).toBe("dead");
  const ended = once(parent, "exit");
  parent.kill("SIGKILL");
  await ended;
});

test.each<[string, Partial<ProcessIdentity>]>([
  ["another boot", { ...self, instanceId: stranger, bootId: stranger }],
  ["another PID namespace", { ...self, instanceId: stranger, pidNamespace: "pid:[1]" }],
  ["only the old fields", { hostname: self.hostname, pid: self.pid }],
  ["only the old fields, of a PID that nobody has", { hostname: self.hostname, pid: 2 ** 30 }],
  ["no start time, and a PID that somebody has", { ...self, instanceId: stranger, startTime: null }],
  ["nonsense for a PID", { ...self, instanceId: stranger, pid: -1 }],
  ["nothing", {}],
])("%s is unknown", (_, identity) => {
  expect(livenessOf(identity)).toBe("unknown");
});

test("an announced instance is alive while it runs and dead at once after SIGKILL, whatever its PID says", async () => {
  const instancesDir = join(tempDir(), "instances");
  const { child, identity } = await instance(instancesDir);
  const misleading = [
    { instanceId: identity.instanceId },
    identity,
    { ...identity, pid: 2 ** 30 },
    { ...identity, pid: self.pid, startTime: self.startTime },
    { ...identity, pidNamespace: "pid:[1]" },
    { ...identity, bootId: stranger },
  ];
  for (const each of misleading) expect(livenessOf(each, { instancesDir })).toBe("alive");
  await kill(child);
  for (const each of misleading) expect(livenessOf(each, { instancesDir })).toBe("dead");
});

test("an announcement that was taken back leaves no file, and the PID decides again", async () => {
  const instancesDir = tempDir();
  const { child, identity } = await instance(instancesDir);
  child.send("close");
  expect(await child.line()).toBe("close");
  expect(readdirSync(instancesDir)).toEqual([]);
  expect(livenessOf(identity, { instancesDir })).toBe("alive");
  await kill(child);
  expect(livenessOf(identity, { instancesDir })).toBe("dead");
  expect(livenessOf({ instanceId: identity.instanceId }, { instancesDir })).toBe("unknown");
});

test("announcements of one directory in one process are counted", async () => {
  const instancesDir = tempDir();
  const first = await announceInstance(instancesDir);
  const second = await announceInstance(join(instancesDir, "."));
  expect(first.path).toBe(second.path);
  expect(readdirSync(instancesDir)).toEqual([self.instanceId]);
  await first.close();
  await first.close();
  expect(tryFileLock(second.path)).toBeNull();
  await second[Symbol.asyncDispose]();
  expect(readdirSync(instancesDir)).toEqual([]);
});

test("files of processes dead for 30 days go; younger ones, live ones and files of others stay", async () => {
  const instancesDir = tempDir();
  const longAgo = new Date(Date.now() - 31 * 24 * 3_600_000);
  const { identity } = await instance(instancesDir);
  for (const name of [stranger, "notes.txt"]) writeFileSync(join(instancesDir, name), "");
  const young = stranger.replace("4", "5");
  for (const name of readdirSync(instancesDir)) utimesSync(join(instancesDir, name), longAgo, longAgo);
  writeFileSync(join(instancesDir, young), "");
  await using _ = await announceInstance(instancesDir);
  expect(readdirSync(instancesDir).sort()).toEqual([young, identity.instanceId, self.instanceId, "notes.txt"].sort());
});

test("an instance id is never taken for a path", async () => {
  const dir = tempDir();
  const instancesDir = join(dir, "instances");
  await using _ = await announceInstance(instancesDir);
  writeFileSync(join(dir, "free"), "");
  expect(livenessOf({ instanceId: "../free" }, { instancesDir })).toBe("unknown");
  expect(existsSync(join(dir, "free"))).toBe(true);
});

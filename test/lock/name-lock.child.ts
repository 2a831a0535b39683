/**
 * One of many processes that want the same names. Commands on stdin, one answer a line:
 * `create DIR OUT NAME…`: for each name at once, creates OUT/NAME under the name's lock unless it is there;
 * answers how many it created. `hold DIR NAME`: takes the lock, says so, and keeps it until `release`.
 */
import { closeSync, existsSync, openSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setImmediate } from "node:timers/promises";
import { deferred } from "../../src/abort.ts";
import { withNameLock } from "../../src/lock/index.ts";

const released = deferred<void>();

async function create(dir: string, out: string, name: string): Promise<number> {
  return withNameLock(dir, name, async (lock) => {
    const inside = join(out, `${name}.inside`);
    closeSync(openSync(inside, "wx")); // Throws when another one is inside.
    await setImmediate();
    lock.verify();
    const made = existsSync(join(out, name)) ? 0 : 1;
    if (made) writeFileSync(join(out, name), "", { flag: "wx" });
    rmSync(inside);
    return made;
  });
}

console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [command, dir = "", ...rest] = line.split(" ");
  if (command === "create") {
    const [out = "", ...names] = rest;
    const made = await Promise.all(names.map((name) => create(dir, out, name)));
    console.log(made.reduce((sum, each) => sum + each, 0));
  } else if (command === "hold") {
    void withNameLock(dir, rest[0] ?? "", async () => {
      console.log("held");
      await released.promise;
    }).then(() => console.log("released"));
  } else if (command === "release") {
    released.resolve();
  }
}

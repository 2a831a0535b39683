/** The lock of a file and that of a name, free or held. */
import { join } from "node:path";
import { expect } from "vitest";
import { deferred } from "../../src/abort.ts";
import { acquireFileLock, type FileLock, probeFileLock, tryFileLock, withNameLock } from "../../src/lock/index.ts";
import { attempt, type Call, having, type Room, turns } from "./call.ts";
import { treeOf } from "./residue.ts";

function takesName(held: boolean): Call<string> {
  return {
    repeats: 100,
    prepare(dir, n) {
      const name = `name-${n}`;
      const done: string[] = [];
      let other: Promise<unknown> = Promise.resolve();
      return attempt({
        async call(signal, reached) {
          if (held) {
            const taken = deferred<void>();
            other = withNameLock(dir, name, async () => {
              taken.resolve();
              await turns(5);
            });
            await taken.promise;
          }
          const work = async (): Promise<string> => {
            reached("after");
            await turns(3);
            reached("after");
            done.push(name);
            return "done";
          };
          return withNameLock(dir, name, work, having(signal));
        },
        async look() {
          await other;
          return { done: [...done], locks: Object.keys(treeOf(dir)).filter((path) => path.endsWith(".lock")) };
        },
        check: (value, seen) => expect({ value, ...seen }).toEqual({ value: "done", done: [name], locks: [] }),
        done: (seen) => seen.done.length === 1,
      });
    },
  };
}

function takesFile(held: boolean): Call<string> {
  return {
    repeats: 100,
    prepare(dir) {
      const path = join(dir, "file");
      let lock: FileLock | null = null;
      let other: Promise<unknown> = Promise.resolve();
      return attempt({
        async call(signal) {
          if (held) {
            const first = tryFileLock(path);
            other = turns(20).then(() => first?.release());
          }
          lock = await acquireFileLock(path, having(signal));
          return lock;
        },
        async look() {
          await other;
          return probeFileLock(path) === "held";
        },
        check: (value: FileLock, seen) => expect([value.path, seen]).toEqual([path, true]),
        done: (seen) => seen,
        end: () => lock?.release(),
      });
    },
  };
}

export const locks: Room<string> = {
  name: "locks",
  open: (dir) => dir,
  close() {},
  calls: {
    acquireFileLock: { ...takesFile(false), atOnce: true },
    "acquireFileLock, of one that is held": takesFile(true),
    withNameLock: takesName(false),
    "withNameLock, of one that is held": takesName(true),
  },
};

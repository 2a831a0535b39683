/** Runs the suites on stores that fail, and prints what each promise came to: the process outlives them all. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openStateIndex } from "../../src/state/index.ts";
import { openMemoryStore } from "../support/memory-control-plane.ts";
import { type ConformanceCase, controlPlaneConformance, stateIndexConformance } from "./index.ts";

const broken = () => new Error("broken");
const [what, ...counts] = process.argv.slice(2);

/** `handle`, but for the calls that `fails` says: these do nothing, and reject or throw. */
function failing<T extends object>(handle: T, fails: () => boolean): T {
  return new Proxy(handle, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      const isClosing = name === "close" || name === Symbol.asyncDispose;
      const throws = name === "byState" || name === "by" || name === "watch";
      return (...args: unknown[]) => {
        if (isClosing || !fails()) return value.apply(target, args);
        if (throws) throw broken();
        return Promise.reject(broken());
      };
    },
  });
}

/** Says yes after so many times. */
function after(count: number): () => boolean {
  let calls = 0;
  return () => calls++ >= count;
}

function suite(count: number): ConformanceCase[] {
  switch (what) {
    case "closed":
      // Refuses what comes after close, but by an error that nobody knows.
      return controlPlaneConformance(async () => {
        const place = new Map();
        return {
          open: async () => {
            let isClosed = false;
            const close = async () => {
              isClosed = true;
            };
            return Object.assign(
              failing(openMemoryStore(place), () => isClosed),
              { close, [Symbol.asyncDispose]: close },
            );
          },
        };
      });
    case "control plane":
      return controlPlaneConformance(async () => {
        const [place, fails] = [new Map(), after(count)];
        return { open: async () => failing(openMemoryStore(place), fails) };
      });
    default:
      return stateIndexConformance(async () => {
        const [dir, fails] = [mkdtempSync(join(tmpdir(), "tussock-failing-")), after(count)];
        return {
          open: async (options) => failing(await openStateIndex({ dir, durability: "committed", ...options }), fails),
          remove: async () => rmSync(dir, { recursive: true }),
        };
      });
  }
}

for (const count of counts.map(Number))
  for (const { name, run } of suite(count))
    await run().then(
      () => console.log(`kept: ${name}`),
      (error) => console.log(`not kept (${error.code ?? error.message}): ${name}`),
    );
// A rejection that nobody has handled would end the process here at the latest.
await new Promise((resolve) => setTimeout(resolve));
console.log("alive");

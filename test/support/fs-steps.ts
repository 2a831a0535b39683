/**
 * Stands between the repository and the disk: every call that changes something below a directory is a step, at which a
 * test can fail the call, stop the world, or let somebody else act first.
 */
import fs from "node:fs";

export interface Step {
  /** From 1 on. */
  number: number;
  call: string;
  path: string;
}

/** Thrown at every call from the one at which the process "died" on: nothing changes the disk any more. */
export class Crash extends Error {}

const BY_PATH = ["mkdirSync", "rmdirSync", "unlinkSync", "linkSync", "renameSync"] as const;
const BY_DESCRIPTOR = ["writeFileSync", "fchownSync", "fchmodSync", "fsync"] as const;

/** Runs `work`, calling `onStep` before each step below `dir`; what it throws, the call throws. */
export async function withSteps<R>(dir: string, onStep: (step: Step) => void, work: () => Promise<R>): Promise<R> {
  const real = { ...fs };
  const opened = new Map<number, string>();
  let number = 0;
  let acting = false;
  const step = (call: string, path: unknown): void => {
    // What the test itself does at a step is not one, and lock files are another room's.
    if (acting || typeof path !== "string" || !path.startsWith(dir) || path.includes(".auto-definition-create")) return;
    acting = true;
    try {
      onStep({ number: ++number, call, path });
    } finally {
      acting = false;
    }
  };
  const patched = fs as unknown as Record<string, (...args: unknown[]) => unknown>;
  const original = real as unknown as Record<string, (...args: unknown[]) => unknown>;
  for (const call of BY_PATH) {
    patched[call] = (...args) => {
      step(call, args[0]);
      return original[call]!(...args);
    };
  }
  patched["openSync"] = (...args) => {
    if (args[1] === "wx") step("openSync", args[0]);
    const fd = original["openSync"]!(...args) as number;
    if (typeof args[0] === "string") opened.set(fd, args[0]);
    return fd;
  };
  for (const call of BY_DESCRIPTOR) {
    patched[call] = (...args) => {
      step(call, opened.get(args[0] as number));
      return original[call]!(...args);
    };
  }
  try {
    return await work();
  } finally {
    for (const call of [...BY_PATH, ...BY_DESCRIPTOR, "openSync"]) patched[call] = original[call]!;
  }
}

/** Dies before the step of this number. */
export function crashAt(number: number): (step: Step) => void {
  return (step) => {
    if (step.number >= number) throw new Crash(`died before ${step.call} ${step.path}`);
  };
}

/** Fails the step of this number, once. */
export function failAt(number: number, code: string): (step: Step) => void {
  return (step) => {
    if (step.number === number) throw Object.assign(new Error(`${code}: injected, ${step.call}`), { code });
  };
}

/**
 * Whether the code that calls is inside a running transition: the async context knows, across every await. Where there is
 * none (a browser), nesting goes unnoticed.
 */
import type { AsyncLocalStorage } from "node:async_hooks";

/** A transition, and the one (of another queue) inside which it was asked for. */
export interface Enclosing {
  readonly queue: object;
  readonly outer: Enclosing | undefined;
  /** False once it has settled: what it left running may use the queue again. */
  running: boolean;
}

let storage: AsyncLocalStorage<Enclosing> | null | undefined;

/** Taken from the process, not imported, so that a bundle for a browser loads. One storage serves all queues. */
function asyncContext(): AsyncLocalStorage<Enclosing> | null {
  if (storage === undefined) {
    const hooks = globalThis.process?.getBuiltinModule?.("node:async_hooks");
    storage = hooks === undefined ? null : new hooks.AsyncLocalStorage<Enclosing>();
  }
  return storage;
}

export function enclosing(): Enclosing | undefined {
  return asyncContext()?.getStore();
}

export function isInside(queue: object, innermost: Enclosing | undefined): boolean {
  for (let each = innermost; each !== undefined; each = each.outer)
    if (each.queue === queue && each.running) return true;
  return false;
}

/** Runs `fn` so that {@link enclosing} says `transition` in it and in all that it awaits. */
export function runInside<A, R>(transition: Enclosing, fn: (argument: A) => R, argument: A): R {
  const context = asyncContext();
  return context === null ? fn(argument) : context.run(transition, fn, argument);
}

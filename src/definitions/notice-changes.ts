/** A sync service whose pulls the index hears of. */
import { checkFunction, checkObject, checkOptions } from "../arguments.ts";
import type { DefinitionIndex } from "./model.ts";

export interface NoticeChangesOptions<Result = unknown> {
  /** The absolute paths that a pull has changed, where its result tells; undefined: anything may have changed. */
  changedPaths?: (result: Result) => Iterable<string> | undefined;
}

/**
 * The same service, whose `pullChanged` settles only when the index reflects what was pulled: by the paths that the
 * options find in its result, by the kernel's queue where the index is exact, else by a full sweep. A pull that fails may
 * have changed files before it did: the index hears of it too, and the failure stands. The pull's own signal does not
 * reach the index: what has been pulled has been pulled.
 *
 * All else is the service's own: its methods run on it, not on the wrapper.
 */
export function noticeChanges<S extends { pullChanged(...args: never[]): Promise<unknown> }>(
  syncService: S,
  index: Pick<DefinitionIndex, "applyChanges" | "refresh" | "stats">,
  options: NoticeChangesOptions<Awaited<ReturnType<S["pullChanged"]>>> = {},
): S {
  const service = "a sync service, with `pullChanged`";
  checkObject("syncService", syncService, service);
  checkFunction("syncService.pullChanged", syncService.pullChanged, service);
  checkObject("index", index, "a definition index");
  checkOptions(options, "changedPaths");
  type Result = Awaited<ReturnType<S["pullChanged"]>>;
  const tell = async (paths?: Iterable<string>): Promise<void> => {
    // Exact: the kernel has told already, and an empty list only has its queue drained.
    const known = paths ?? (index.stats().freshness === "exact" ? [] : undefined);
    await (known === undefined ? index.refresh() : index.applyChanges(known));
  };
  const pullChanged = async (...args: Parameters<S["pullChanged"]>): Promise<Result> => {
    let result: Result;
    try {
      result = (await syncService.pullChanged(...args)) as Result;
    } catch (error) {
      await tell().catch(() => {});
      throw error;
    }
    await tell(options.changedPaths?.(result));
    return result;
  };
  return forwarding(syncService, { pullChanged });
}

/** An object that answers with `own` first and is `target` in all else. Methods are bound: private fields are the target's. */
function forwarding<S extends object>(target: S, own: Record<string, unknown>): S {
  const stand = Object.create(Object.getPrototypeOf(target) as object) as S;
  // Not a proxy of the target itself, whose frozen properties it could not replace.
  return new Proxy(stand, {
    get(_, key) {
      if (typeof key === "string" && Object.hasOwn(own, key)) return own[key];
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === "function" && key !== "constructor" ? value.bind(target) : value;
    },
    set: (_, key, value) => Reflect.set(target, key, value, target),
    has: (_, key) => Reflect.has(target, key),
    ownKeys: () => Reflect.ownKeys(target),
    getOwnPropertyDescriptor(_, key) {
      const descriptor = Reflect.getOwnPropertyDescriptor(target, key);
      return descriptor && { ...descriptor, configurable: true };
    },
  });
}

/** Looks at many single files again, in slices. */
import { DefinitionReadError } from "../errors.ts";
import type { ExamineOptions } from "../scan/examine.ts";
import type { AppliedPlace, ApplyResult, SweepCallbacks } from "./engine.ts";
import { reconcile } from "./reconcile.ts";
import type { DefinitionStore } from "./store.ts";
import { applyFile, type Breather } from "./sweep.ts";

export async function applyFiles(
  store: DefinitionStore,
  places: readonly AppliedPlace[],
  options: ExamineOptions,
  breather: Breather,
  o: SweepCallbacks = {},
): Promise<ApplyResult> {
  const result = emptyApplyResult();
  let seen = 0;
  for (const at of places) {
    if (breather.due()) {
      await breather.pause();
      o.signal?.throwIfAborted();
      o.onFiles?.(seen, result.read);
    }
    seen++;
    applyOne(store, at, options, result);
  }
  await breather.pause();
  return result;
}

/** The same for one file, at once. */
export function applyOne(store: DefinitionStore, at: AppliedPlace, options: ExamineOptions, result: ApplyResult): void {
  try {
    const applied = applyFile(store, at.place, at.dir, options, at.written);
    if (applied.read) result.read++;
    if (applied.outcome !== "unchanged") result.changed++;
    if (applied.symlink) result.symlinks.push(at);
    if (applied.deferred) result.deferred.push(at);
    result.counts[at.place.root] = (result.counts[at.place.root] ?? 0) + applied.count;
  } catch (error) {
    if (!(error instanceof DefinitionReadError)) throw error;
    const count = reconcile(store, at.place, null);
    result.counts[at.place.root] = (result.counts[at.place.root] ?? 0) + count;
    result.unreadable.push({ at, path: error.path, errno: error.errno });
  }
}

export function emptyApplyResult(): ApplyResult {
  return { symlinks: [], unreadable: [], deferred: [], read: 0, changed: 0, counts: [] };
}

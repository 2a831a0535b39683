/** Whether everything that is derived from a record agrees with it: in the store, and by this process's functions. */
import { FIRST, LAST } from "./cursor.ts";
import type { Kit } from "./kit.ts";
import { DANGLING } from "./lifecycle.ts";
import { pages } from "./listing.ts";
import type { VerifyProblem, VerifyReport } from "./model.ts";

const MOST_PROBLEMS = 1_000;

/** Aborted: rejects with the signal's reason; it changes nothing in any case. */
export async function verify<D, S extends string>(
  kit: Kit<D, S>,
  signal: AbortSignal | undefined,
): Promise<VerifyReport> {
  const { records, problems } = await kit.store.inspect(signal);
  const all: VerifyProblem[] = [...problems];
  // A store that is damaged below cannot be listed: what has been found says it all.
  if (all.length === 0) {
    for await (const problem of functionProblems(kit, signal)) if (all.length < MOST_PROBLEMS) all.push(problem);
  }
  return { ok: all.length === 0, records, problems: all };
}

/** Keys that the index functions do not give, or give and are not there: a function that has changed under its name. */
async function* functionProblems<D, S extends string>(
  kit: Kit<D, S>,
  signal: AbortSignal | undefined,
): AsyncGenerator<VerifyProblem, undefined> {
  if (!kit.keyer.knowsAll(kit.store.registration)) return;
  const known = new Set<string>([...kit.rules.lifecycle.states, DANGLING]);
  const range = { from: FIRST, to: LAST, reverse: false, limit: Number.POSITIVE_INFINITY };
  for await (const page of pages(kit, { secondary: null, key: "", states: [...known] }, range, signal)) {
    for (const row of page) {
      if (row.keys === null || kit.keyer.rekeyed(row, kit.store.registration).keys === row.keys) continue;
      const message = "the record has other keys than its index functions give; give a changed function a new name";
      yield { part: "index", id: row.id, message };
    }
  }
}

/** Puts the parts of a state index together, over its store. Loaded by open.ts, which has checked what is given. */
import { StateStoreUnavailableError, TussockError } from "../errors.ts";
import { missingPermission } from "../permissions.ts";
import { MirrorDelivery } from "./delivery.ts";
import { fillKeys } from "./keying.ts";
import { Kit } from "./kit.ts";
import { canonical } from "./lifecycle.ts";
import type { StateIndex } from "./model.ts";
import type { StateIndexOptions } from "./open.ts";
import type { RecordStore } from "./record-store.ts";
import { DEFAULT_RETENTION, RetentionKeeper } from "./retention.ts";
import { Rules } from "./rules.ts";
import { type IndexFunctions, Keyer } from "./secondary.ts";
import { SqliteRecords } from "./sqlite/records.ts";
import { acquireStore } from "./sqlite/shared.ts";
import { OpenStateIndex } from "./state-index.ts";
import type { Where } from "./where.ts";

export interface Checked<D, S extends string> extends StateIndexOptions<D, S> {
  readonly where: Where;
  readonly deadlineMs: number;
  readonly functions: IndexFunctions<D, S>;
}

export async function assemble<D, S extends string>(checked: Checked<D, S>): Promise<StateIndex<D, S>> {
  const { name, lifecycle, signal, mirror, deadlineMs, functions } = checked;
  const store = await openRecords(checked);
  let retention: RetentionKeeper<D, S> | null = null;
  try {
    const kit = new Kit(new Rules<D, S>(name, lifecycle), new Keyer(functions), store, deadlineMs);
    if (store.unbuilt.length > 0 && kit.keyer.knowsAll(store.registration)) await fillKeys(kit, signal);
    signal?.throwIfAborted();
    if (checked.retention !== false) retention = new RetentionKeeper(kit, checked.retention ?? DEFAULT_RETENTION);
    const delivery = mirror === undefined || mirror === false ? null : new MirrorDelivery(kit, mirror);
    return new OpenStateIndex(kit, { retention, delivery });
  } catch (error) {
    await retention?.close();
    await store.close();
    throw error;
  }
}

async function openRecords<D, S extends string>(checked: Checked<D, S>): Promise<RecordStore> {
  const { name, where, lifecycle, durability, signal, mirror, deadlineMs, functions } = checked;
  const names = Object.keys(functions);
  const flushed = durability !== "committed";
  const scope = { signal, until: performance.now() + deadlineMs };
  const wanted = {
    kind: "register",
    name,
    lifecycle: canonical(lifecycle),
    functions: names.filter((each) => functions[each] !== null),
    dropped: names.filter((each) => functions[each] === null),
    mirrored: mirror === undefined ? null : mirror !== false,
  } as const;
  try {
    if ("dir" in where) {
      const lease = await acquireStore(where.dir, flushed, { signal, deadlineMs });
      return await releasedIfItFails(lease, () => SqliteRecords.register(lease, wanted, scope));
    }
    const { openPostgresRecords } = await import("./postgres/records.ts");
    return await openPostgresRecords(where.postgres, flushed, wanted, scope);
  } catch (error) {
    if (error instanceof TussockError || missingPermission(error) === null) throw error;
    const place = "dir" in where ? where.dir : "in PostgreSQL";
    throw new StateStoreUnavailableError(place, (error as Error).message, { cause: error });
  }
}

async function releasedIfItFails<T>(lease: { release(): Promise<void> }, open: () => Promise<T>): Promise<T> {
  try {
    return await open();
  } catch (error) {
    await lease.release();
    throw error;
  }
}

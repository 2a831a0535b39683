/** The runs of a state index, for {@link reapRuns}. */
import { checkObject, checkOptions, isObject } from "../arguments.ts";
import { RecordNotFoundError, TransitionError } from "../errors.ts";
import type { RunState } from "./lifecycle.ts";
import type { RunOwner, RunRecord, RunSource, StateIndex, StateRecord } from "./model.ts";

export interface RunsOfOptions<D> {
  /** Who runs it. Default: what `data.owner` holds, else the fields of an identity in the data itself. */
  owner?: (record: StateRecord<D, RunState>) => RunOwner;
  /** Its last heartbeat. Default: `data.heartbeatAt`, when that is a number. */
  heartbeatAt?: (record: StateRecord<D, RunState>) => number | undefined;
}

const byIndex = new WeakMap<object, RunSource>();

/**
 * What is `running` in an index of runs (what is suspended has no process that could die). `end` makes it `failed`,
 * with the reason as `error` in its data, unless the record has changed since it was read. Without options the same
 * source is given each time, so that {@link reapRuns} knows again what it has seen.
 */
export function runsOf<D extends object>(index: StateIndex<D, RunState>, options?: RunsOfOptions<D>): RunSource {
  checkObject("index", index, "a state index");
  checkOptions(options, "owner", "heartbeatAt");
  if (options !== undefined) return new IndexedRuns(index, options);
  const known = byIndex.get(index);
  if (known !== undefined) return known;
  const source = new IndexedRuns(index, {});
  byIndex.set(index, source);
  return source;
}

class IndexedRuns<D extends object> implements RunSource {
  readonly #index: StateIndex<D, RunState>;
  readonly #owner: (record: StateRecord<D, RunState>) => RunOwner;
  readonly #heartbeatAt: (record: StateRecord<D, RunState>) => number | undefined;

  constructor(index: StateIndex<D, RunState>, options: RunsOfOptions<D>) {
    this.#index = index;
    this.#owner = options.owner ?? ownerIn;
    this.#heartbeatAt = options.heartbeatAt ?? heartbeatIn;
  }

  async *running(): AsyncIterableIterator<RunRecord> {
    for await (const record of this.#index.byState("running")) {
      const heartbeatAt = this.#heartbeatAt(record);
      yield {
        id: record.id,
        owner: this.#owner(record),
        revision: record.revision,
        ...(heartbeatAt === undefined ? {} : { heartbeatAt }),
      };
    }
  }

  async end(id: string, from: RunRecord, reason: string): Promise<boolean> {
    try {
      await this.#index.transition(id, "failed", {
        from: "running",
        revision: from.revision,
        patch: (data) => ({ ...data, error: reason }),
      });
      return true;
    } catch (error) {
      if (error instanceof TransitionError || error instanceof RecordNotFoundError) return false;
      throw error;
    }
  }
}

function ownerIn({ data }: { data: unknown }): RunOwner {
  const { owner } = fieldsOf(data);
  return isObject(owner) ? owner : fieldsOf(data);
}

function heartbeatIn({ data }: { data: unknown }): number | undefined {
  const { heartbeatAt } = fieldsOf(data);
  return typeof heartbeatAt === "number" ? heartbeatAt : undefined;
}

function fieldsOf(data: unknown): Record<string, unknown> {
  return isObject(data) ? data : {};
}

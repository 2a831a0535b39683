/** What telemetry is told of a state index. */
import { gauge, type Operation, operation } from "../telemetry/index.ts";
import type { ImportReport, StateIndex, SweepReport } from "./model.ts";
import type { CommitTimes } from "./record-store.ts";
import type { StoredRow } from "./row.ts";
import type { Moment, Next } from "./rules.ts";

export type ChangeKind = "insert" | "put" | "update" | "transition";

const change = operation("tussock.state.transition", "Changes of one record, until they are acknowledged", [
  "tussock.state.index",
  "tussock.state.call",
  "tussock.state.from",
  "tussock.state.to",
]);
const works = {
  sweep: operation("tussock.state.sweep", "Sweeps, from the call until the last commit", ["tussock.state.index"]),
  import: operation("tussock.state.import", "Imports, from the call until the last commit", ["tussock.state.index"]),
};
const records = gauge("tussock.state.records", { description: "Records, by index and state", unit: "{record}" });
const undelivered = gauge("tussock.state.mirror.pending", {
  description: "Changes that the mirror has yet to write",
  unit: "{change}",
});

/** Reports sizes until the function returned is called. */
export function observeIndex<D, S extends string>(index: StateIndex<D, S>, name: string): () => void {
  const attributes = { "tussock.state.index": name };
  const stops = [
    records.observe(index, async (index, result) => {
      for (const [state, count] of Object.entries((await index.stats()).records))
        result.observe(Number(count), { ...attributes, "tussock.state": state });
    }),
    undelivered.observe(index, async (index, result) => {
      result.observe((await index.stats()).mirror.pending, attributes);
    }),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}

/** A change of one record as telemetry sees it; null without an SDK. */
export function observeChange(index: string, kind: ChangeKind): ChangeTelemetry | null {
  const started = change.start();
  if (started === null) return null;
  started.set("tussock.state.index", index);
  started.set("tussock.state.call", kind);
  return new ChangeTelemetry(started);
}

type Decide = (current: StoredRow | null, moment: Moment) => Next;

export class ChangeTelemetry {
  readonly #operation: Operation;
  /** As the last decision found it and left it: an earlier one may have been made on a record that was another by then. */
  #from: string | null = null;
  #to: string | null = null;

  constructor(started: Operation) {
    this.#operation = started;
  }

  decided(decide: Decide): Decide {
    return (current, moment) => {
      this.#from = current?.state ?? null;
      this.#to = null;
      const next = decide(current, moment);
      this.#to = next.state;
      return next;
    };
  }

  readonly onCommit = ({ batch, flushMs }: CommitTimes, waitedMs: number): void => {
    this.#operation.set("tussock.batch", batch);
    this.#operation.set("tussock.commit_wait_ms", waitedMs - flushMs);
    this.#operation.set("tussock.flush_ms", flushMs);
  };

  during<R>(work: () => Promise<R>): Promise<R> {
    return through(this.#operation, async () => {
      try {
        return await work();
      } finally {
        if (this.#from !== null) this.#operation.set("tussock.state.from", this.#from);
        if (this.#to !== null) this.#operation.set("tussock.state.to", this.#to);
      }
    });
  }
}

/** Runs a sweep or an import; what its report counts becomes attributes. */
export function observeWork<R extends SweepReport | ImportReport>(
  kind: keyof typeof works,
  index: string,
  about: Record<string, string>,
  work: () => Promise<R>,
): Promise<R> {
  const started = works[kind].start();
  if (started === null) return work();
  started.set("tussock.state.index", index);
  for (const [name, value] of Object.entries(about)) started.set(`tussock.state.${name}`, value);
  return through(started, async () => {
    const report = await work();
    for (const [name, value] of Object.entries(report))
      if (typeof value === "number" && name !== "elapsedMs") started.set(`tussock.${snakeCase(name)}`, value);
    return report;
  });
}

async function through<R>(started: Operation, work: () => Promise<R>): Promise<R> {
  try {
    const result = await started.run(work);
    started.end();
    return result;
  } catch (error) {
    started.fail(error);
    throw error;
  }
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

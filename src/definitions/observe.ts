/** What telemetry is told of the index and of the repository over it. */
import { gauge, isObserved, type Operation, operation } from "../telemetry/index.ts";
import type { DefinitionIndex, Query } from "./model.ts";
import type { SweepResult } from "./sweep.ts";

const lookup = operation("tussock.definition.lookup", "Look-ups of definitions by name or id", [
  "tussock.type",
  "tussock.outcome",
  "tussock.how",
]);
const creation = operation("tussock.definition.create", "Resolving names that did not exist", [
  "tussock.type",
  "tussock.outcome",
]);
const sweep = operation("tussock.definition.sweep", "Comparing a type's files with the index", ["tussock.type"]);
const rebuild = operation("tussock.definition.rebuild", "Reading a type of which the index knew nothing", [
  "tussock.type",
]);
const definitions = gauge("tussock.definition.count", {
  description: "Valid definitions, by root and type",
  unit: "{definition}",
});
const fileSize = gauge("tussock.definition.index.size", { description: "Size of the index's file", unit: "By" });

/** Reports sizes until the function returned is called. */
export function observeIndex(index: DefinitionIndex): () => void {
  const stops = [
    definitions.observe(index, (index, result) => {
      for (const [root, { types }] of Object.entries(index.stats().roots))
        for (const [type, count] of Object.entries(types))
          result.observe(count, { "tussock.root": root, "tussock.type": type });
    }),
    fileSize.observe(index, (index, result) => result.observe(index.stats().fileSize)),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}

/** Running counts of the index. What a look-up adds to them is what it did; of look-ups that overlap, what they all did. */
export interface WorkDone {
  filesRead: number;
  directoriesListed: number;
  eventsDrained: number;
  rereads: number;
}

/** One look-up as telemetry sees it; null without an SDK. */
export function observeLookup(query: Query, workDone: () => WorkDone): LookupTelemetry | null {
  const started = lookup.start();
  return started === null ? null : new LookupTelemetry(started, query, workDone);
}

export class LookupTelemetry {
  readonly #operation: Operation;
  readonly #workDone: () => WorkDone;
  readonly #before: WorkDone;
  #how: "index" | "direct" | "waiting" = "index";

  constructor(started: Operation, query: Query, workDone: () => WorkDone) {
    this.#operation = started;
    this.#workDone = workDone;
    this.#before = workDone();
    started.set("tussock.type", query.type ?? "*");
    started.set("tussock.by", query.by);
  }

  /** How it came by its answer: from the store as it stands, unless it had to wait or to look elsewhere. */
  via(how: "direct" | "waiting"): void {
    this.#how = how;
  }

  answered(answer: unknown): void {
    const [before, after] = [this.#before, this.#workDone()];
    const listed = after.directoriesListed - before.directoriesListed;
    const outcome = answer === null ? "miss" : after.rereads > before.rereads ? "re-read" : "hit";
    this.#operation.set("tussock.outcome", outcome);
    this.#operation.set("tussock.how", this.#how !== "waiting" ? this.#how : listed > 0 ? "sweep" : "changes");
    this.#operation.set("tussock.files_read", after.filesRead - before.filesRead);
    this.#operation.set("tussock.directories_listed", listed);
    this.#operation.set("tussock.events_drained", after.eventsDrained - before.eventsDrained);
    this.#operation.end();
  }

  fail(error: unknown): void {
    this.#operation.fail(error);
  }

  async during<R>(answer: () => Promise<R>): Promise<R> {
    try {
      const value = await this.#operation.run(answer);
      this.answered(value);
      return value;
    } catch (error) {
      this.fail(error);
      throw error;
    }
  }
}

/** A pass over one type; `isKnown` is asked with an SDK only. */
export function observeSweep(type: string, isKnown: () => boolean): Operation | null {
  if (!isObserved()) return null;
  const started = (isKnown() ? sweep : rebuild).start();
  started?.set("tussock.type", type);
  return started;
}

export function sweepEnded(telemetry: Operation, { files, read, changed, removed, problems }: SweepResult): void {
  telemetry.set("tussock.files", files);
  telemetry.set("tussock.files_read", read);
  telemetry.set("tussock.changed", changed);
  telemetry.set("tussock.removed", removed);
  telemetry.set("tussock.broken", problems);
  telemetry.end();
}

/** The creation of a name that a first look-up did not find, with the time of each of its phases; null without an SDK. */
export function observeCreation(type: string, name: string): CreationTelemetry | null {
  const started = creation.start();
  if (started === null) return null;
  started.set("tussock.type", type);
  started.set("tussock.name", name);
  return new CreationTelemetry(started);
}

export class CreationTelemetry {
  readonly #operation: Operation;
  #since = performance.now();

  constructor(started: Operation) {
    this.#operation = started;
  }

  /** This phase has ended, and the next begun. */
  did(phase: "lock_wait" | "recheck" | "create" | "save"): void {
    const now = performance.now();
    this.#operation.set(`tussock.${phase}_ms`, now - this.#since);
    this.#since = now;
  }

  async during<R extends { created: boolean }>(work: () => Promise<R>): Promise<R> {
    try {
      const resolved = await this.#operation.run(work);
      this.#operation.set("tussock.outcome", resolved.created ? "created" : "adopted");
      this.#operation.end();
      return resolved;
    } catch (error) {
      this.#operation.fail(error);
      throw error;
    }
  }
}

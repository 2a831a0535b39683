/** The other side of `task.ts`: turns the columns of a batch into results. */
import { type DefinitionEntry, namingOf, type ProblemKind, type ScanResult } from "./model.ts";
import type { Results } from "./results.ts";
import type { RunOptions, ScanProgress } from "./run.ts";
import { STAMP_BYTES, unpackStamp } from "./stamp.ts";
import { type Batch, DEFERRED, ENTRY, PROBLEM, SKIPPED, type Task, VANISHED } from "./task.ts";

/** Hands over the results and counts them; returns the names of the files that are left to this thread. */
export function unpack(
  task: Task,
  type: string,
  batch: Batch,
  options: RunOptions,
  into: Results<ScanResult>,
  progress: ScanProgress,
): string[] {
  const values = new ValueReader(batch.values);
  const deferred: string[] = [];
  for (const [i, filename] of (task.names ?? "").split("/").entries()) {
    switch (batch.kinds[i]) {
      case ENTRY:
        progress.entries++;
        into.push(unpackEntry(task, type, filename, batch.stamps, i, values, options));
        break;
      case PROBLEM:
        progress.problems++;
        into.push(unpackProblem(task, filename, values, options));
        break;
      case DEFERRED:
        deferred.push(filename);
        continue;
      case VANISHED:
        progress.vanished++;
        continue;
      case SKIPPED:
        continue;
    }
    progress.files++;
  }
  return deferred;
}

function unpackEntry(
  task: Task,
  type: string,
  filename: string,
  stamps: Uint8Array,
  index: number,
  values: ValueReader,
  options: RunOptions,
): ScanResult {
  const id = values.next() as string;
  const name = values.next() as string;
  const entry: DefinitionEntry = {
    id,
    name,
    type,
    declaredType: values.next() as string | null,
    root: options.dir,
    path: `${task.dir}/${filename}`,
    naming: namingOf(filename, id, name),
    stamp: unpackStamp(stamps, index * STAMP_BYTES),
  };
  return options.documents ? { ok: true, entry, document: unpackDocument(values) } : { ok: true, entry };
}

function unpackDocument(values: ValueReader): unknown {
  const json = values.next() as string | null;
  return json === null ? values.next() : JSON.parse(json);
}

function unpackProblem(task: Task, filename: string, values: ValueReader, options: RunOptions): ScanResult {
  const kind = values.next() as ProblemKind;
  const message = values.next() as string;
  const line = values.next() as number;
  const column = values.next() as number;
  const path = `${task.dir}/${filename}`;
  const place = line === 0 ? {} : column === 0 ? { line } : { line, column };
  return { ok: false, problem: { path, root: options.dir, kind, message, ...place } };
}

class ValueReader {
  readonly #values: readonly unknown[];
  #at = 0;

  constructor(values: readonly unknown[]) {
    this.#values = values;
  }

  next(): unknown {
    return this.#values[this.#at++];
  }
}

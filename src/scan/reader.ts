/** Who does the tasks of a scan: this thread, a few milliseconds at a time, or workers. */
import { nextTurn } from "../slices.ts";
import type { ExamineOptions } from "./examine.ts";
import { EMPTY, runTask, type Task, type TaskResult } from "./task.ts";

export interface Reader {
  /** @throws DefinitionReadError, and {@link ReaderStoppedError} when it was stopped meanwhile */
  run(task: Task): Promise<TaskResult>;
  /** Ends all work; settles when none is left. */
  stop(): Promise<void>;
}

/** The task was not done, through no fault of its own. */
export class ReaderStoppedError extends Error {}

/** No turn of the event loop is held for longer, except by one large file that only the full parser can read. */
const SLICE_MS = 5;

export class InlineReader implements Reader {
  readonly #options: ExamineOptions;
  /** Tasks under way share one slice. */
  #sliceStartedAt = 0;
  #stopped = false;

  constructor(options: ExamineOptions) {
    this.#options = options;
  }

  /** `deferParsing: false`: the parser is at hand. */
  async run(task: Task, deferParsing = true): Promise<TaskResult> {
    const steps = runTask(task, { ...this.#options, deferParsing });
    try {
      for (;;) {
        const step = steps.next();
        if (step.done) return step.value;
        if (performance.now() - this.#sliceStartedAt < SLICE_MS) continue;
        await nextTurn();
        if (this.#stopped) throw new ReaderStoppedError();
        this.#sliceStartedAt = performance.now();
      }
    } finally {
      steps.return(EMPTY);
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true;
  }
}

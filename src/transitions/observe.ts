/** What telemetry is told of a queue. */
import { durations, gauge, type Operation, operation } from "../telemetry/index.ts";
import type { TransitionQueue } from "./model.ts";

const transition = operation("tussock.transition", "Transitions, from the call of run until it settled", [
  "tussock.queue",
  "tussock.key_kind",
]);
const waits = durations("tussock.transition.wait.duration", "How long transitions waited for their keys");
const runs = durations("tussock.transition.run.duration", "How long transitions ran");
const waiting = gauge("tussock.transition.waiting", { description: "Waiting transitions", unit: "{transition}" });
const running = gauge("tussock.transition.running", { description: "Running transitions", unit: "{transition}" });
const oldest = gauge("tussock.transition.oldest_wait", { description: "Age of the oldest waiter", unit: "s" });

export function observeQueue(queue: TransitionQueue, name: string): void {
  const attributes = { "tussock.queue": name };
  waiting.observe(queue, (queue, result) => result.observe(queue.stats().waiting, attributes));
  running.observe(queue, (queue, result) => result.observe(queue.stats().running, attributes));
  oldest.observe(queue, (queue, result) =>
    result.observe((queue.stats().oldestWaiter?.waitedMs ?? 0) / 1000, attributes),
  );
}

/** One transition as telemetry sees it; null without an SDK. */
export function observeTransition(): TransitionTelemetry | null {
  const started = transition.start();
  return started === null ? null : new TransitionTelemetry(started);
}

export class TransitionTelemetry {
  readonly #operation: Operation;
  #startedAt = 0;

  constructor(started: Operation) {
    this.#operation = started;
  }

  /** `depth`: how many stood in its longest line when it came. */
  entered(queue: string, keys: readonly string[], depth: number): void {
    this.#operation.set("tussock.queue", queue);
    this.#operation.set("tussock.key_kind", kindOf(keys));
    this.#operation.set("tussock.depth", depth);
  }

  run<R>(waitedMs: number, fn: () => R): R {
    this.#startedAt = performance.now();
    this.#operation.set("tussock.wait_ms", waitedMs);
    waits.active()?.record(waitedMs / 1000);
    return this.#operation.run(fn);
  }

  async settled<R>(result: Promise<R>): Promise<R> {
    try {
      const value = await result;
      this.#ran();
      this.#operation.end();
      return value;
    } catch (error) {
      this.#ran();
      this.#operation.fail(error);
      throw error;
    }
  }

  #ran(): void {
    if (this.#startedAt === 0) return;
    const ms = performance.now() - this.#startedAt;
    this.#operation.set("tussock.run_ms", ms);
    runs.active()?.record(ms / 1000);
  }
}

/** What a key is about, without which one: `worker` of `worker:a7` or `worker/a7`; of several, each kind once. */
function kindOf(keys: readonly string[]): string {
  const kinds = new Set(keys.map((key) => /^[^:/]*(?=[:/])/.exec(key)?.[0] ?? ""));
  return [...kinds].sort().join("+");
}

/** How soon is a scan gone that nobody wants any more, and what of it stays? */
import { readdirSync } from "node:fs";
import process from "node:process";
import { Own, quantile, race } from "../harness.ts";
import { type Context, count } from "../support/context.ts";
import { storedDefinitions } from "../support/definitions.ts";
import { load } from "../support/library.ts";
import { type Answer, atMost, row } from "../support/rows.ts";

/** In each round, at moments spread over the scan. */
const ABORTS = 20;
const ABORTS_QUICK = 8;
/** The later moments are like the earlier ones. */
const LATEST_MS = 500;

export async function answer(context: Context): Promise<Answer> {
  const { scan } = await load(context.library, "scan");
  const stored = await storedDefinitions(context, context.n);
  const whole = await scanUntil(scan, stored.repoDir, null);
  const aborts = context.quick ? ABORTS_QUICK : ABORTS;
  const took: number[] = [];
  const left: number[] = [];
  const series = await race(
    {
      aborts: {
        run: async (round) => {
          const before = holdings();
          const each: number[] = [];
          for (let n = 0; n < aborts; n++) {
            const moment = ((n + 0.5) / aborts) * Math.min(whole * 0.8, LATEST_MS);
            try {
              await scanUntil(scan, stored.repoDir, moment);
            } catch (error) {
              if (!(error instanceof Stopped)) throw error;
              each.push(performance.now() - error.at);
            }
          }
          // The round before the first has opened what stays open for good.
          if (round >= 0) {
            left.push(Math.max(0, holdings() - before));
            took.push(...each);
          }
          return new Own(quantile(each, 0.99));
        },
      },
    },
    context.race("aborts"),
  );
  return {
    rows: [
      row("scan-abort", `${count(context.n)} files`, series.aborts, {
        verdicts: [
          atMost(series.aborts.median, 10, "p99 ≤ 10 ms"),
          atMost(Math.max(...left), 0, "no handle, timer, thread or descriptor left", { unit: "count" }),
        ],
        notes: [
          `${count(took.length)} aborts, median ${quantile(took, 0.5).toFixed(2)} ms, p99 of all ${quantile(took, 0.99).toFixed(2)} ms; a whole scan takes ${whole.toFixed(0)} ms`,
        ],
      }),
    ],
  };
}

class Stopped extends Error {
  readonly at = performance.now();
}

/** How long it took; aborted at that moment, it rejects. */
async function scanUntil(
  scan: Awaited<ReturnType<typeof load<"scan">>>["scan"],
  dir: string,
  moment: number | null,
): Promise<number> {
  const abort = new AbortController();
  const timer = moment === null ? null : setTimeout(() => abort.abort(new Stopped()), moment);
  const start = performance.now();
  try {
    for await (const result of scan(dir, { signal: abort.signal })) if (!result.ok) throw new Error("a problem");
    return performance.now() - start;
  } finally {
    if (timer !== null) clearTimeout(timer);
  }
}

/** Descriptors, threads, and what keeps an event loop alive. */
function holdings(): number {
  return (
    readdirSync("/proc/self/fd").length +
    readdirSync("/proc/self/task").length +
    process.getActiveResourcesInfo().length
  );
}

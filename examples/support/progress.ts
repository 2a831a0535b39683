/** Progress: a bar on a terminal, a line every quarter elsewhere. */
import process from "node:process";
import cliProgress from "cli-progress";

export interface Progress {
  update(done: number, total: number): void;
  /** Idempotent. */
  stop(): void;
}

export function showProgress(label: string): Progress {
  return process.stdout.isTTY ? bar(label) : lines(label);
}

/** A progress that ends with the work, whatever becomes of that: a bar that is left open keeps the cursor hidden. */
export async function withProgress<R>(label: string, work: (update: Progress["update"]) => Promise<R>): Promise<R> {
  const progress = showProgress(label);
  try {
    return await work(progress.update);
  } finally {
    progress.stop();
  }
}

function bar(label: string): Progress {
  const format = `${label} {bar} {percentage}% {value}/{total}`;
  const single = new cliProgress.SingleBar(
    { format, hideCursor: true, clearOnComplete: false },
    cliProgress.Presets.shades_classic,
  );
  single.start(1, 0);
  let latest = { done: 0, total: 1 };
  return {
    update(done, total) {
      latest = { done, total };
      single.setTotal(total);
      single.update(done);
    },
    stop() {
      single.update(latest.done);
      single.stop();
    },
  };
}

function lines(label: string): Progress {
  let said = -1;
  return {
    update(done, total) {
      const quarter = Math.floor((done / Math.max(total, 1)) * 4);
      if (quarter <= said) return;
      said = quarter;
      console.log(`${label} ${quarter * 25}% (${done}/${total})`);
    },
    stop() {},
  };
}

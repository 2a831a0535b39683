/** Scans in a process of its own, in one of the ways that need one. */
import { closeSync, openSync, readdirSync, readFileSync } from "node:fs";
import { type ScanOptions, scan } from "../../src/scan/index.ts";

const isDeno = "Deno" in globalThis;
const [way, dir] = process.argv.slice(2) as [string, string];

async function count(options: ScanOptions = {}): Promise<number> {
  let results = 0;
  for await (const _ of scan(dir, options)) results++;
  return results;
}

/** Takes all descriptors but `spare`; returns what gives them back. */
function hold(spare: number): () => void {
  const held: number[] = [];
  try {
    for (;;) held.push(openSync("/dev/null", "r"));
  } catch {
    // None is left.
  }
  const release = (fds: number[]): void => {
    for (const fd of fds) closeSync(fd);
  };
  release(held.splice(0, spare));
  return () => release(held.splice(0));
}

/** Threads that a worker has. Deno's own come and go. */
function threads(): number {
  const ids = readdirSync("/proc/self/task");
  return isDeno ? ids.filter((id) => nameOf(id).startsWith("worker-")).length : ids.length;
}

function nameOf(thread: string): string {
  try {
    return readFileSync(`/proc/self/task/${thread}/comm`, "utf8");
  } catch {
    return "gone";
  }
}

/** Threads beyond those at `start`, once they have had the time to go. */
async function extraThreads(start: number): Promise<number> {
  for (let i = 0; i < 200 && threads() > start; i++) await new Promise((resolve) => setTimeout(resolve, 10));
  return Math.max(0, threads() - start);
}

switch (way) {
  case "abandon": {
    const results = scan(dir, { concurrency: 2 });
    for (let i = 0; i < 1_500; i++) await results.next();
    console.log(1_500);
    break;
  }
  case "shortage": {
    await count();
    const release = hold(0);
    setTimeout(release, 20);
    console.log(await count());
    break;
  }
  case "famine": {
    await count();
    const release = hold(0);
    const failure = await count().catch((error: Error & { errno: string }) => `${error.name} ${error.errno}`);
    release();
    console.log(failure);
    break;
  }
  case "closed": {
    for (const concurrency of [undefined, 2]) {
      const failure = await count(concurrency === undefined ? {} : { concurrency }).catch((error) => error);
      console.log(`${failure.name} ${failure.errno} ${failure.path}`);
    }
    break;
  }
  case "no-workers": {
    await count();
    const release = hold(2);
    const results = await count({ concurrency: 2 });
    release();
    console.log(results);
    break;
  }
  case "ends": {
    const concurrency = 2;
    await count({ concurrency });
    const start = threads();
    await count({ concurrency });
    const complete = await extraThreads(start);
    let taken = 0;
    for await (const _ of scan(dir, { concurrency })) if (++taken === 2_000) break;
    const broken = await extraThreads(start);
    taken = 0;
    const controller = new AbortController();
    const consume = async (): Promise<void> => {
      for await (const _ of scan(dir, { concurrency, signal: controller.signal }))
        if (++taken === 2_000) controller.abort();
    };
    await consume().catch(() => {});
    const aborted = await extraThreads(start);
    // While the workers start.
    const early = new AbortController();
    const results = scan(dir, { concurrency, signal: early.signal });
    const first = results.next();
    early.abort();
    await first.catch(() => {});
    console.log(JSON.stringify({ complete, broken, aborted, abortedAtStart: await extraThreads(start) }));
  }
}

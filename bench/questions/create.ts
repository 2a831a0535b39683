/** What does a new name cost, down to the disk? */
import { closeSync, fsyncSync, linkSync, openSync, unlinkSync, writeSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { linearScan } from "../../examples/support/linear-scan.ts";
import { bareLmdb } from "../baselines/names.ts";
import { type Contestant, race } from "../harness.ts";
import { scratch } from "../support/cache.ts";
import { type Context, count, MOST_SCANNED } from "../support/context.ts";
import {
  newName,
  openReady,
  removeCreated,
  repositoryOver,
  storedDefinitions,
  TYPE,
  workerDocument,
} from "../support/definitions.ts";
import { type Answer, atMostTimes, figure, row } from "../support/rows.ts";

/** One after the other, in each round. */
const NAMES = 10;
/** Before the first round: a server that has made so many has its code compiled. */
const WARM = 120;

export async function answer(context: Context): Promise<Answer> {
  const n = context.n;
  const stored = await storedDefinitions(context, n);
  const index = await openReady(context, stored);
  const repository = await repositoryOver(context, index);
  const create = async (): Promise<void> => {
    const name = newName();
    await repository.resolveOrCreate(TYPE, name, () => ({ id: repository.nextId(), name }));
  };
  const tidy = async (): Promise<void> => {
    removeCreated(stored.typeDir);
    await index.findByName(TYPE, newName());
  };
  const scan = linearScan(stored.roots.map(({ dir }) => dir));
  const floor = bareCreation();
  try {
    await repeat(WARM, create);
    await tidy();
    const series = await race(
      {
        ours: { run: () => repeat(NAMES, create), after: tidy, per: NAMES },
        floor: { ...floor, per: NAMES },
        linear: { run: () => createLinearly(scan), after: tidy, rounds: n > MOST_SCANNED ? -1 : 5 },
      },
      context.race("create"),
    );
    const linear = n > MOST_SCANNED ? {} : { "two linear scans and a write": figure(series.linear) };
    return {
      rows: [
        row("create", `N = ${count(n)}`, series.ours, {
          rivals: linear,
          floor: figure(series.floor),
          verdicts: [atMostTimes(series.ours, series.floor, 2, "the floor")],
        }),
      ],
    };
  } finally {
    removeCreated(stored.typeDir);
    await floor.close();
    await index.close();
  }
}

async function repeat(times: number, work: () => Promise<void>): Promise<void> {
  for (let i = 0; i < times; i++) await work();
}

async function createLinearly(scan: ReturnType<typeof linearScan>): Promise<void> {
  const name = newName();
  await scan.create(TYPE, name, workerDocument({ id: crypto.randomUUID(), name }));
}

/** Create, write, fsync, link, fsync of the directory, one commit; in a directory that nobody watches. */
function bareCreation(): Contestant & { close(): Promise<void> } {
  const dir = scratch("create");
  const commits = bareLmdb(join(dir, "commits"));
  const text = stringify(workerDocument({ id: crypto.randomUUID(), name: "x" }));
  let made: string[] = [];
  const create = (): void => {
    const [draft, path] = [join(dir, `${newName()}.tmp`), join(dir, `${newName()}.yaml`)];
    const fd = openSync(draft, "wx");
    writeSync(fd, text);
    fsyncSync(fd);
    closeSync(fd);
    linkSync(draft, path);
    const directory = openSync(dir, "r");
    fsyncSync(directory);
    closeSync(directory);
    commits.commit(path);
    made.push(draft, path);
  };
  return {
    run() {
      for (let i = 0; i < NAMES; i++) create();
    },
    after() {
      for (const path of made) unlinkSync(path);
      made = [];
    },
    close: commits.close,
  };
}

/** Finding and creating worker definitions among many, beside the linear scan of report 3984. */
import { join } from "node:path";
import process from "node:process";
import { openDefinitionIndex } from "../../src/definitions/index.ts";
import { createDefinitionRepository, type DefinitionRepository } from "../../src/definitions/repository.ts";
import {
  AUTO_ROOT,
  generateDefinitions,
  MODELS_ROOT,
  storedDefinition,
  WORKER_TYPE,
  type WorkerDefinition,
  workerCodec,
  workerDocument,
} from "../support/definitions.ts";
import type { Goal } from "../support/goals.ts";
import { type LinearScan, linearScan, readDocument } from "../support/linear-scan.ts";
import { showProgress } from "../support/progress.ts";
import { Timings, table, time, times } from "../support/table.ts";

const BURST = 24;
/** How many lookups of each kind, and how long the scans may take in all. */
const LOOKUPS = 5_000;
const SCAN_BUDGET_MS = 6_000;

interface Opened extends AsyncDisposable {
  definitions: DefinitionRepository<WorkerDefinition>;
  roots: string[];
  /** From the call to open it until every file is known. */
  buildMs: number;
}

async function openRepository(repoDir: string, count: number, signal: AbortSignal): Promise<Opened> {
  const roots = [MODELS_ROOT, AUTO_ROOT].map((root) => join(repoDir, root));
  const progress = showProgress(`index ${count.toLocaleString("en-US")}`);
  const start = performance.now();
  const index = await openDefinitionIndex({
    roots: [
      { name: "models", dir: join(repoDir, MODELS_ROOT) },
      { name: "auto", dir: join(repoDir, AUTO_ROOT) },
    ],
    indexDir: join(repoDir, ".swamp/index"),
    boundary: repoDir,
    signal,
  });
  try {
    await index.refresh({ signal, onProgress: ({ files, total }) => progress.update(files, Math.max(total, count)) });
    const buildMs = performance.now() - start;
    progress.update(count, count);
    const definitions = createDefinitionRepository(index, { codec: workerCodec, writeRoot: "auto" });
    return { definitions, roots, buildMs, [Symbol.asyncDispose]: () => index.close() };
  } catch (error) {
    await index.close();
    throw error;
  } finally {
    progress.stop();
  }
}

/** New names, all asked for at once: how long each waited. */
async function createAtOnce(
  definitions: DefinitionRepository<WorkerDefinition>,
  prefix: string,
  count: number,
  signal: AbortSignal,
): Promise<{ each: Timings; totalMs: number }> {
  const each = new Timings();
  const start = performance.now();
  await Promise.all(
    Array.from({ length: count }, (_, n) => {
      const name = `${prefix}-${n}`;
      const create = (): WorkerDefinition => ({ id: definitions.nextId(), name });
      return each.measure(() => definitions.resolveOrCreate(WORKER_TYPE, name, create, { signal }));
    }),
  );
  return { each, totalMs: performance.now() - start };
}

/** Looks names up one after another, and checks that what is found is what was asked for. */
async function lookUp(
  definitions: DefinitionRepository<WorkerDefinition>,
  names: readonly string[],
  exists: boolean,
  signal: AbortSignal,
): Promise<Timings> {
  const timings = new Timings();
  for (const name of names) {
    const found = await timings.measure(() => definitions.findByName(WORKER_TYPE, name, { signal }));
    if (exists ? found?.name !== name : found !== null) throw new Error(`${name}: found ${JSON.stringify(found)}`);
    if (timings.count % 500 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  return timings;
}

/** Names of stored definitions whose number leaves `rest` when divided by 20, spread over all of them. */
function storedNames(count: number, rest: number): string[] {
  const fitting = Math.max(1, Math.floor((count - rest + 19) / 20));
  return Array.from({ length: LOOKUPS }, (_, n) => storedDefinition(((n * 7919) % fitting) * 20 + rest).name);
}

const missingNames = Array.from({ length: LOOKUPS }, (_, n) => `fleet-b-${n.toString(16).padStart(8, "0")}`);

interface LinearFigures {
  existing: Timings;
  miss: Timings;
  unnamed: Timings;
  create: Timings;
}

async function measureLinear(linear: LinearScan, count: number): Promise<LinearFigures> {
  const figures = { existing: new Timings(), miss: new Timings(), unnamed: new Timings(), create: new Timings() };
  const start = performance.now();
  const hasTime = (): boolean => performance.now() - start < SCAN_BUDGET_MS;
  for (const name of storedNames(count, 0).slice(0, 500)) {
    await figures.existing.measure(() => linear.findByName(WORKER_TYPE, name));
  }
  // A new name is two misses; they count as such.
  await figures.create.measure(() => {
    const name = "fleet-linear";
    const document = workerDocument({ id: crypto.randomUUID(), name });
    return linear.create(WORKER_TYPE, name, document, (ms) => figures.miss.add(ms));
  });
  for (let n = 0; n < 3 && hasTime(); n++) {
    await figures.miss.measure(() => linear.findByName(WORKER_TYPE, missingNames[n] ?? ""));
  }
  if (hasTime()) await figures.unnamed.measure(() => linear.findByName(WORKER_TYPE, storedNames(count, 7)[0] ?? ""));
  return figures;
}

/** Reading and parsing the one file that a repository hit is about. */
function measureFileReads(repoDir: string, count: number): Timings {
  const timings = new Timings();
  for (const name of storedNames(count, 0).slice(0, 1000)) {
    const start = performance.now();
    workerCodec.decode(readDocument(join(repoDir, AUTO_ROOT, WORKER_TYPE, `${name}.yaml`)), undefined as never);
    timings.add(performance.now() - start);
  }
  return timings;
}

export interface DefinitionOptions {
  /** A directory to work in; somebody else removes it. */
  base: string;
  /** With `n` stored definitions. */
  repoDir: string;
  n: number;
  /** New names at once, after 24. */
  k: number;
  signal: AbortSignal;
}

export async function showDefinitions({ base, repoDir, n, k, signal }: DefinitionOptions): Promise<Goal[]> {
  const small = Math.max(20, Math.round(n / 10));
  const smallDir = join(base, "small");
  await generateDefinitions(smallDir, small, { signal });

  await using few = await openRepository(smallDir, small, signal);
  await using all = await openRepository(repoDir, n, signal);
  const { definitions } = all;
  const burst = await createAtOnce(definitions, "fleet-c", BURST, signal);
  const crowd = await createAtOnce(definitions, "fleet-d", k, signal);

  // Once for warmth; then turn by turn, so that what disturbs one disturbs the other.
  const missAll = missingNames.slice(0, LOOKUPS / 2);
  await lookUp(few.definitions, missAll, false, signal);
  await lookUp(definitions, missAll, false, signal);
  const missFew = await lookUp(few.definitions, missingNames, false, signal);
  const miss = await lookUp(definitions, missingNames, false, signal);
  await lookUp(definitions, storedNames(n, 0), true, signal);
  const existing = await lookUp(definitions, storedNames(n, 0), true, signal);
  const byId = await lookUp(definitions, storedNames(n, 7), true, signal);
  const mismatched = await lookUp(definitions, storedNames(n, 17), true, signal);

  const fileRead = measureFileReads(repoDir, n);
  const linear = await measureLinear(linearScan(all.roots, signal), n);
  const unnamed = linear.unnamed.count > 0 ? linear.unnamed : linear.miss;

  const row = (what: string, ours: Timings, theirs: Timings): string[] => [
    what,
    ...[ours, theirs].flatMap((timings) => [time(timings.median), time(timings.worst)]),
    times(theirs.median / ours.median),
  ];
  console.log(
    `\n${n.toLocaleString("en-US")} stored definitions, ${new Intl.ListFormat("en").format(systemFacts())}\n`,
  );
  console.log(
    table(
      ["", "tussock", "worst", "linear scan", "worst", "faster"],
      [
        row("look up an existing name", existing, linear.existing),
        row("look up a missing name", miss, linear.miss),
        row("look up a UUID-named one", byId, unnamed),
        row("look up a mismatched one", mismatched, unnamed),
        row(`create a new name, ${BURST} at once`, burst.each, linear.create),
        row(`create a new name, ${k.toLocaleString("en-US")} at once`, crowd.each, linear.create),
      ],
    ),
  );
  console.log(
    `\n${BURST} new names took ${time(burst.totalMs)} in all, ${k.toLocaleString("en-US")} more ${time(crowd.totalMs)}` +
      ` (one after the other, the linear scan would take ${time(linear.create.median * k)}).`,
  );
  console.log(`The index was built in ${time(all.buildMs)}; one linear scan took ${time(linear.miss.median)}.\n`);
  return [
    goal(
      `a missing name at ${n}, against the linear scan: at least 10,000 ×`,
      linear.miss.median / miss.median,
      10_000,
    ),
    goal(`the same at ${small}, against at ${n}: at least 0.67 ×`, missFew.median / miss.median, 1 / 1.5),
    goal("a repository hit, against reading and parsing its file: at least 1 ×", fileRead.median / existing.median, 1),
    goal("building the index, against one linear scan: at least 1 ×", linear.miss.median / all.buildMs, 1),
  ];
}

function goal(text: string, ratio: number, least: number): Goal {
  return { text, value: times(ratio), reached: ratio >= least };
}

function systemFacts(): string[] {
  const runtime = "Deno" in globalThis ? `Deno ${process.versions["deno"]}` : `Node ${process.versions.node}`;
  return [runtime, `${process.platform} ${process.arch}`];
}

/** Aborts a call before it, at many points during it, and after it, and holds it to what is promised of each. */
import { getEventListeners } from "node:events";
import { expect } from "vitest";
import { fastestOf } from "../support/fastest.ts";
import { type Attempt, type Call, type Reached, type Room, turns } from "./call.ts";
import { changesBetween, expectNothingLeft, type Residue, residue } from "./residue.ts";

/** 10 ms are promised; a test runs beside others. */
const SETTLES_WITHIN_MS = 50;

type Point =
  | { at: "before" | "after" }
  /** So many turns of the microtask queue, or of the event loop, after the call; or at its n-th moment. */
  | { at: "microtask" | "turn" | "moment"; n: number };

/** How a call went that nobody aborted. */
interface Course {
  turns: number;
  moments: number;
}

export interface Findings {
  rejected: number;
  resolved: number;
}

/** `none`: the call has no point of no return, so that no abort in time is without effect. */
export async function abortEverywhere<World>(
  { left }: Room<World>,
  call: Call<World>,
  world: World,
  none: boolean,
): Promise<Findings> {
  const elsewhere = async (): Promise<string[]> => (await left?.(world)) ?? [];
  let count = 0;
  const next = (): Promise<Attempt> => Promise.resolve(call.prepare(world, ++count));
  if (!call.sparse) await follow(await next()); // What is started at first use has been.
  const course = await follow(await next());
  if (call.atOnce) expect(course.turns).toBe(0);
  const before = await residue(elsewhere);
  const during: Findings = { rejected: 0, resolved: 0 };
  for (const point of pointsOf(course, call)) {
    await fastestOf(3, SETTLES_WITHIN_MS, async () => {
      const outcome = await abortAt(point, await next(), { call, none, course, before, elsewhere });
      if (point.at !== "before" && point.at !== "after") during[outcome.rejected ? "rejected" : "resolved"]++;
      return outcome.elapsedMs;
    }).then((elapsedMs) => expect(elapsedMs).toBeLessThan(SETTLES_WITHIN_MS));
  }
  return during;
}

/** Lets the call go to its end, and checks what it has done. */
async function follow(attempt: Attempt): Promise<Course> {
  let moments = 0;
  const before = await attempt.look();
  const outcome = settling(attempt.call(undefined, () => moments++));
  let count = 0;
  // What settles within the turn in which it was called has done so before the first immediate of that turn.
  await turns(1);
  for (; outcome.state === "pending"; count++) await turns(1);
  await expectDone(attempt, outcome, before);
  await attempt.end?.();
  return { turns: count, moments };
}

async function expectDone(attempt: Attempt, outcome: Outcome, before: unknown): Promise<void> {
  if (outcome.state === "rejected") throw outcome.error;
  const seen = await attempt.look();
  attempt.check(outcome.value, seen, before);
  expect(attempt.done?.(seen, before) ?? true).toBe(true);
}

function pointsOf({ turns, moments }: Course, { sparse }: Call<never>): Point[] {
  const parts = sparse ? [0.3, 0.7, 0.95] : [0.6, 0.8, 0.95];
  const inTurns = new Set(parts.map((part) => Math.ceil(part * turns)));
  if (!sparse) for (let n = 1; n <= turns; n = Math.ceil(n * 2)) inTurns.add(n);
  inTurns.delete(0);
  const atMoments = (sparse ? [1, moments] : [1, 2, 3, 5, moments]).filter(
    (n, at, all) => n > 0 && n <= moments && all.indexOf(n) === at,
  );
  return [
    { at: "before" },
    ...(sparse ? [0] : [0, 1, 2, 3, 5, 8]).map((n) => ({ at: "microtask", n }) as const),
    ...[...inTurns].sort((a, b) => a - b).map((n) => ({ at: "turn", n }) as const),
    ...atMoments.map((n) => ({ at: "moment", n }) as const),
    { at: "after" },
  ];
}

interface Circumstances {
  call: Call<never>;
  none: boolean;
  course: Course;
  before: Residue;
  elsewhere(): Promise<string[]>;
}

/** Aborts the attempt at the point, checks everything; how long it took to reject, where it did (else 0). */
async function abortAt(
  point: Point,
  attempt: Attempt,
  { call, none, course, before: residueBefore, elsewhere }: Circumstances,
): Promise<{ rejected: boolean; elapsedMs: number }> {
  const before = await attempt.look();
  const controller = new AbortController();
  const { signal } = controller;
  const reason = new Error(`aborted at ${JSON.stringify(point)}`);
  let abortedAt = 0;
  let wasPending = false;
  const abort = (): void => {
    wasPending = outcome === null || outcome.state === "pending";
    abortedAt = performance.now();
    controller.abort(reason);
  };
  let moments = 0;
  let side: "before" | "after" | undefined;
  const reached: Reached = (of) => {
    if (++moments !== (point.at === "moment" ? point.n : 0)) return;
    side = of;
    abort();
  };

  let outcome: Outcome | null = null;
  if (point.at === "before") abort();
  outcome = settling(attempt.call(signal, reached));
  if (point.at === "microtask") for (let n = 0; n < point.n; n++) await null;
  if (point.at === "turn") for (let n = 0; n < point.n && outcome.state === "pending"; n++) await turns(1);
  if (point.at === "microtask" || point.at === "turn") abort();
  await outcome.settled;
  expect(getEventListeners(signal, "abort")).toEqual([]);
  if (point.at === "after") abort();

  const { state } = outcome;
  const seen = await attempt.look();
  let isDone = attempt.done?.(seen, before) ?? true;
  if (side !== undefined) expect([side, state]).toEqual([side, side === "before" ? "rejected" : "resolved"]);
  if (state === "rejected") {
    expect(outcome.error).toBe(reason);
    if (attempt.cutShort === undefined || point.at === "before") expect(changesBetween(before, seen)).toEqual([]);
    else attempt.cutShort(seen);
    await expectNothingLeft(residueBefore, elsewhere);
    isDone = false;
  } else {
    // No point of no return: who aborts in time gets no answer any more.
    const inTime = point.at === "turn" || (point.at === "moment" && point.n < course.moments);
    expect(point.at === "before" || (none && wasPending && inTime), "resolved all the same").toBe(false);
    attempt.check(outcome.value, seen, before);
    expect(isDone || call.inParts === true, "all was done, or the call may be done in parts").toBe(true);
  }

  // The next call is right.
  if (!isDone) {
    const again = settling(attempt.call(undefined, () => {}));
    await again.settled;
    await expectDone(attempt, again, seen);
  }
  await attempt.end?.();
  // What was opened all the same is closed.
  if (state === "resolved") await expectNothingLeft(residueBefore, elsewhere);
  return { rejected: state === "rejected", elapsedMs: state === "rejected" ? outcome.at - abortedAt : 0 };
}

interface Outcome {
  state: "pending" | "resolved" | "rejected";
  value: unknown;
  error: unknown;
  /** When it settled, on the clock of `performance.now()`. */
  at: number;
  /** Resolves when it has, either way. */
  settled: Promise<void>;
}

function settling(promise: Promise<unknown>): Outcome {
  const outcome: Outcome = { state: "pending", value: undefined, error: undefined, at: 0, settled: Promise.resolve() };
  outcome.settled = promise.then(
    (value) => Object.assign(outcome, { state: "resolved", value, at: performance.now() }),
    (error: unknown) => Object.assign(outcome, { state: "rejected", error, at: performance.now() }),
  ) as unknown as Promise<void>;
  return outcome;
}

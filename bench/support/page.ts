/** The questions that are asked, in their words and with their goals, in the order in which they are asked. */

export interface PageRow {
  question: string;
  goal: string;
}

const ROWS = {
  hit: {
    question: "index look-up of a name that exists",
    goal: "≤ 2× the floor (one stat + one get), at every N",
  },
  "repository-hit": {
    question: "repository look-up of the same (document to the codec)",
    goal: "≥ 5× faster than reading and parsing its file",
  },
  miss: {
    question: "look-up of a name that does not exist, exact",
    goal: "≤ 3 µs Node, ≤ 4 µs Deno; ≥ 100,000× the linear scan at N = 50,000",
  },
  flat: {
    question: "the same as N grows from 1,000 to 1,000,000",
    goal: "flat: at most 1.5×",
  },
  create: {
    question: "resolveOrCreate of a new name, flushed",
    goal: "≤ 2× the floor (create, write, fsync, link, fsync of the directory, one commit)",
  },
  burst: {
    question: "24 and 1,000 new names at once",
    goal: "no wait grows with N; p99 under 50 ms for 24; the 1,000 done in under 1 s on Node",
  },
  "during-burst": {
    question: "an existing worker's look-up and transition during that burst",
    goal: "p99 under 10 ms",
  },
  "event-loop": {
    question: "event-loop delay during any of these, and during a cold build",
    goal: "max under 20 ms (Deno: 30 at worker start)",
  },
  "cold-build": {
    question: "cold build",
    goal: "≤ 1.5× the floor (readdir; open, fstat, read, close of every file on one thread); ≥ 5× faster than parsing each with `yaml`",
  },
  "warm-open": {
    question: "warm open until the first hit is answered",
    goal: "under 50 ms; the background sweep ≤ 1.5× a bare stat of every file",
  },
  memory: {
    question: "memory: heap growth, open and warm",
    goal: "under 50 MB of JavaScript heap",
  },
  "by-state": {
    question: '`byState("active")`, 19 active among all records',
    goal: "flat: at most 1.5×; ≥ 1,000× faster than reading every artifact",
  },
  sweep: {
    question: "sweep of 19 / 10,000 stale leases, flushed",
    goal: "≤ 1.5× one commit that writes the same rows / under 300 ms, no block over 10 ms",
  },
  writers: {
    question: "lease acquire → mark → complete by 36 workers at once, flushed",
    goal: "≥ 5× one transaction per operation; ≥ 0.8× bare batched SQLite; p99 under 10 ms; the same over all records",
  },
  queue: {
    question: "one transition through the queue, uncontended / 10,000 keys",
    goal: "under 2 µs / no key slows another",
  },
  "scan-abort": {
    question: "abort of a scan",
    goal: "rejects within 10 ms (p99); no handle, timer or worker left",
  },
  postgres: {
    question: "PostgreSQL store, 36 clients",
    goal: "≥ 80 % of a hand-written single-statement update against the same server",
  },
  import: {
    question: "import of the library",
    goal: "under 30 ms, no watcher, worker, native module or file opened by importing",
  },
  telemetry: {
    question: "a look-up with telemetry, off and on",
    goal: "off: nothing is allocated for it",
  },
} as const satisfies Record<string, PageRow>;

export type RowId = keyof typeof ROWS;
export const PAGE: Readonly<Record<RowId, PageRow>> = ROWS;

export interface QuestionFile {
  /** `questions/{name}.ts` */
  name: string;
  answers: readonly RowId[];
  /** Felt by a server on Deno. */
  deno: boolean;
}

/** Which file answers what. */
export const QUESTIONS: readonly QuestionFile[] = [
  { name: "lookups", answers: ["hit", "repository-hit", "miss", "flat"], deno: true },
  { name: "create", answers: ["create"], deno: true },
  { name: "burst", answers: ["burst", "during-burst"], deno: true },
  { name: "event-loop", answers: ["event-loop"], deno: true },
  { name: "cold-build", answers: ["cold-build"], deno: true },
  { name: "warm-open", answers: ["warm-open"], deno: false },
  { name: "memory", answers: ["memory"], deno: false },
  { name: "state-listing", answers: ["by-state"], deno: true },
  { name: "state-sweep", answers: ["sweep"], deno: false },
  { name: "state-writers", answers: ["writers"], deno: true },
  { name: "postgres", answers: ["postgres"], deno: false },
  { name: "queue", answers: ["queue"], deno: true },
  { name: "scan-abort", answers: ["scan-abort"], deno: false },
  { name: "import", answers: ["import"], deno: false },
  { name: "telemetry", answers: ["telemetry"], deno: false },
  { name: "boot", answers: [], deno: false },
];

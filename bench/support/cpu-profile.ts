/** Reads V8's CPU profiles and says how long each stage of a cold build took, by thread. */

/** What `node --cpu-prof` writes. Times are in microseconds. */
export interface CpuProfile {
  nodes: { id: number; callFrame: { functionName: string; url: string } }[];
  samples: number[];
  timeDeltas: number[];
}

export const STAGES = [
  "system calls",
  "header extraction",
  "packing and sorting",
  "LMDB",
  "hand-over between threads",
  "garbage collection",
  "loading code",
  "other",
  "idle",
] as const;
export type Stage = (typeof STAGES)[number];

/** Functions without a file: the runtime's own. */
const NATIVE: Record<string, Stage> = {
  "(idle)": "idle",
  "(garbage collector)": "garbage collection",
  open: "system calls",
  close: "system calls",
  read: "system calls",
  fstat: "system calls",
  readdir: "system calls",
  postMessage: "hand-over between threads",
  receiveMessageOnPort: "hand-over between threads",
};

/** By the file that a function stands in; the first that fits. */
const FILES: readonly (readonly [RegExp, Stage])[] = [
  [/\/scan\/(recognize|parse|json)|node_modules\/yaml\//, "header extraction"],
  [/\/scan\/(task|worker|pool|unpack|reader|results)/, "hand-over between threads"],
  [/\/definitions\/(worker|reader|second-reader|bulk-read)\./, "hand-over between threads"],
  [/\/scan\/(examine|stamp|list|order)|\/ffi\/|^node:fs|^node:internal\/fs|\/koffi/, "system calls"],
  [/\/lmdb\//, "LMDB"],
  [/\/definitions\//, "packing and sorting"],
  [
    /^node:internal\/(modules|bootstrap|main|process|source_map|deps)|^node:module|^node:vm|\/amaro|^wasm/,
    "loading code",
  ],
  [/^node:internal\/(worker|per_context|event_target|messaging)/, "hand-over between threads"],
  [/^node:buffer|^node:internal\/buffer/, "packing and sorting"],
];

export function stageOf({ functionName, url }: CpuProfile["nodes"][number]["callFrame"]): Stage {
  if (url === "") return NATIVE[functionName] ?? "other";
  return FILES.find(([pattern]) => pattern.test(url))?.[1] ?? "other";
}

/** Milliseconds by stage. */
export function stagesOf({ nodes, samples, timeDeltas }: CpuProfile): Record<Stage, number> {
  const stages = new Map(nodes.map(({ id, callFrame }) => [id, stageOf(callFrame)]));
  const spent = Object.fromEntries(STAGES.map((stage) => [stage, 0])) as Record<Stage, number>;
  for (const [n, id] of samples.entries()) spent[stages.get(id) ?? "other"] += (timeDeltas[n] ?? 0) / 1000;
  return spent;
}

/** The functions that took longest by themselves. */
export function hottest({ nodes, samples, timeDeltas }: CpuProfile, howMany: number): [name: string, ms: number][] {
  const names = new Map(
    nodes.map(({ id, callFrame: { functionName, url } }) => {
      const file = url.split("/").slice(-2).join("/");
      return [id, `${functionName || "(anonymous)"} ${file}`.trim()];
    }),
  );
  const spent = new Map<string, number>();
  for (const [n, id] of samples.entries()) {
    const name = names.get(id) ?? "";
    if (name !== "(idle)") spent.set(name, (spent.get(name) ?? 0) + (timeDeltas[n] ?? 0) / 1000);
  }
  return [...spent].sort((a, b) => b[1] - a[1]).slice(0, howMany);
}

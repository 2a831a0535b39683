/** The index's worker thread: sweeps, reads and commits, each request answered by its number. */
import { parentPort, workerData } from "node:worker_threads";
import { Gate } from "../gate.ts";
import { openSharedInWorker } from "../lmdb/shared.ts";
import { applyFiles } from "./apply.ts";
import { type Pacing, SliceBreather } from "./inline-engine.ts";
import { SharedCommits } from "./shared-commits.ts";
import { sweepType } from "./sweep.ts";
import { WatchedStore } from "./watched-store.ts";
import type { WorkerData, WorkerError, WorkerReply, WorkerRequest } from "./worker-protocol.ts";

/** Commits of others wait at most this long behind a sweep that finds few changes. */
const PACING = { hasThread: true, sliceMs: 10, changesPerCommit: 200_000, filesPerCommit: 100_000 };

const port = parentPort;
if (port !== null) await serve(port, workerData as WorkerData);

async function serve(port: NonNullable<typeof parentPort>, data: WorkerData): Promise<void> {
  const { path, examine } = data;
  const gate = new Gate(data.gate);
  const store = await WatchedStore.open(() => openSharedInWorker(path), gate);
  const commits = new SharedCommits(store, "drop");
  const running = new Map<number, AbortController>();
  // Who was heard may need many turns.
  const pacing: Pacing = { ...PACING, isAwaited: () => gate.isAwaited || running.size > 1 };
  const reply = (message: WorkerReply): void => port.postMessage(message);

  port.on("message", (request: WorkerRequest) => {
    gate.heard();
    if (request.kind === "abort") {
      running.get(request.id)?.abort();
      return;
    }
    const abort = new AbortController();
    running.set(request.id, abort);
    answer(request, abort.signal)
      .then(
        (result) => reply({ id: request.id, result }),
        (error: unknown) => reply({ id: request.id, error: plain(error) }),
      )
      .finally(() => running.delete(request.id));
  });
  reply({ id: 0, result: null });

  async function answer(request: Exclude<WorkerRequest, { kind: "abort" }>, signal: AbortSignal): Promise<unknown> {
    const onFiles = (files: number, read: number): void => reply({ id: request.id, progress: { files, read } });
    const breather = new SliceBreather(store, commits, pacing);
    switch (request.kind) {
      case "commit":
        return commits.commit(request.puts);
      case "sweep":
        return committed(sweepType(store, request.target, examine, breather, { signal, onFiles }));
      case "close":
        return store.root.close();
      case "apply":
        return committed(applyFiles(store, request.places, examine, breather, { signal, onFiles }));
    }
  }

  /** What has failed half-way leaves nothing that waits: the next to look reads what is committed. */
  async function committed<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      await commits.commit().catch(() => {});
      throw error;
    }
  }
}

function plain(error: unknown): WorkerError {
  const { message = String(error), path, errno, code } = (error ?? {}) as Record<keyof WorkerError, unknown>;
  const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
  return { message: String(message), path: text(path), errno: text(errno), code: text(code) };
}

/**
 * A server in process, on the real rooms. Every durable change runs under the keys of what it changes, so that nobody waits
 * for a stranger; whatever takes long is done with no key held, and ends when the request's signal says so.
 */
import { join } from "node:path";
import {
  type AbortOptions,
  announceInstance,
  ClosedError,
  type ControlPlaneStore,
  createTransitionQueue,
  currentProcessIdentity,
  openControlPlaneStore,
} from "../../src/index.ts";
import { enroll } from "./enrolment.ts";
import type { Dispatch, Enrolment, EnrolmentRequest, Gateway, RequestOptions, Resource, Step } from "./gateway.ts";
import { beat, Heartbeats } from "./heartbeats.ts";
import { type BootReport, lookAfterLeftovers } from "./leftovers.ts";
import { openRooms, type Rooms } from "./rooms.ts";
import * as steps from "./steps.ts";
import { Tokens } from "./tokens.ts";
import * as workers from "./workers.ts";

export interface ServerOptions extends AbortOptions {
  repoDir: string;
  /** Where an older server left its artifacts; they are imported in the background. */
  dataDir?: string;
  /** How often the server says that it lives, and looks for workers that do not. Default 5,000. */
  heartbeatMs?: number;
}

/** New workers that enrol at once; more of them would only wait for the same disk, and keep the others from the event loop. */
export const NEWCOMERS = 7;

/** Ready when it resolves; what earlier boots left behind is looked after in the background: see `booted`. */
export async function startServer(options: ServerOptions): Promise<Server> {
  const { repoDir, signal = new AbortController().signal } = options;
  await using opened = new AsyncDisposableStack();
  const rooms = opened.use(await openRooms(repoDir, signal));
  const controlPlane = opened.use(await openControlPlaneStore({ dir: join(repoDir, ".swamp/control-plane"), signal }));
  const instancesDir = join(repoDir, ".swamp/instances");
  opened.use(await announceInstance(instancesDir));
  return new Server(rooms, controlPlane, opened.move(), { ...options, instancesDir });
}

export class Server implements Gateway {
  readonly rooms: Rooms;
  readonly tokens: Tokens;
  /** What the background has found and done since the boot. */
  readonly booted: Promise<BootReport>;
  readonly #opened: AsyncDisposableStack;
  readonly #heartbeats = new Heartbeats();
  /** Lets new workers in, few at a time: a thousand at once must hold up neither the event loop nor those that are at work. */
  readonly #newcomers = createTransitionQueue({ name: "newcomers", concurrency: NEWCOMERS });
  readonly #requests = new Map<AbortController, Promise<unknown>>();
  readonly #stop = new AbortController();
  readonly #beating: Promise<void>;
  #closing: Promise<void> | null = null;

  constructor(
    rooms: Rooms,
    controlPlane: ControlPlaneStore,
    opened: AsyncDisposableStack,
    options: ServerOptions & { instancesDir: string },
  ) {
    this.rooms = rooms;
    this.tokens = new Tokens(rooms);
    this.#opened = opened;
    this.booted = lookAfterLeftovers(rooms, options, this.#stop.signal);
    this.booted.catch(() => {});
    const end = (worker: string, connection: string) => this.disconnect(worker, connection);
    this.#beating = beat(controlPlane, this.#heartbeats, options.heartbeatMs ?? 5_000, end, this.#stop.signal);
  }

  async enroll(request: EnrolmentRequest, o?: RequestOptions): Promise<Enrolment> {
    const enter = (signal: AbortSignal) => enroll(this.rooms, this.tokens, request, signal, o?.stages);
    const enrolment = await this.#serve(o, (signal) =>
      this.#heartbeats.knows(request.worker)
        ? enter(signal)
        : this.#newcomers.run(`machine:${request.machine}`, enter, { signal }),
    );
    this.#heartbeats.connected(request.worker, enrolment.connection);
    return enrolment;
  }

  async setStatus(worker: string, status: "idle" | "draining", o?: RequestOptions): Promise<void> {
    await this.#serve(o, (signal) => workers.setStatus(this.rooms, worker, status, signal));
  }

  async disconnect(worker: string, connection: string, o?: RequestOptions): Promise<void> {
    await this.#serve(o, (signal) => workers.disconnect(this.rooms, worker, connection, signal));
  }

  dispatch(worker: string, step: Step, o?: RequestOptions): Promise<Dispatch> {
    return this.#serve(o, (signal) => steps.dispatch(this.rooms, worker, step, signal, o?.stages));
  }

  query(runId: string, spec: string, name: string, o?: RequestOptions): Promise<boolean> {
    return this.#serve(o, (signal) => steps.query(this.rooms, runId, spec, name, signal));
  }

  writeResource(dispatch: Dispatch, resource: Resource, o?: RequestOptions): Promise<void> {
    this.#heartbeats.hear(dispatch.worker);
    return this.#serve(o, (signal) => steps.writeResource(this.rooms, dispatch, resource, signal, o?.stages));
  }

  complete(dispatch: Dispatch, o?: RequestOptions): Promise<void> {
    this.#heartbeats.hear(dispatch.worker);
    return this.#serve(o, (signal) => steps.complete(this.rooms, dispatch, signal, o?.stages));
  }

  /** Costs no write: a worker that stays silent is looked for in memory. */
  heartbeat(worker: string, connection: string): void {
    this.#heartbeats.hear(worker, connection);
  }

  async startRun(runId: string, o?: RequestOptions): Promise<void> {
    const data = { owner: currentProcessIdentity() };
    await this.#serve(o, (signal) => this.rooms.runs.insert({ id: runId, data }, { signal }));
  }

  async endRun(runId: string, o?: RequestOptions): Promise<void> {
    await this.#serve(o, (signal) => this.rooms.runs.transition(runId, "completed", { signal }));
  }

  /** Takes no more requests, and waits for those that it has; an abort makes them end. What ran is on disk then. */
  close(o: AbortOptions = {}): Promise<void> {
    this.#closing ??= this.#shutDown(o.signal);
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #shutDown(signal: AbortSignal | undefined): Promise<void> {
    this.#stop.abort(new ClosedError("the server"));
    const cutShort = (): void => {
      for (const request of this.#requests.keys()) request.abort(signal?.reason);
    };
    if (signal?.aborted) cutShort();
    signal?.addEventListener("abort", cutShort, { once: true });
    await Promise.allSettled([...this.#requests.values(), this.booted, this.#beating]);
    signal?.removeEventListener("abort", cutShort);
    await this.rooms.queue.close();
    await this.#opened.disposeAsync();
  }

  /** Gives each request a signal that follows its own, and ends it when the server must close at once. */
  async #serve<R>(o: RequestOptions | undefined, handle: (signal: AbortSignal) => Promise<R>): Promise<R> {
    const signal = o?.signal;
    signal?.throwIfAborted();
    if (this.#closing !== null) throw new ClosedError("the server");
    const request = new AbortController();
    const relay = (): void => request.abort(signal?.reason);
    signal?.addEventListener("abort", relay, { once: true });
    const handling = handle(request.signal);
    this.#requests.set(request, handling);
    try {
      return await handling;
    } finally {
      this.#requests.delete(request);
      signal?.removeEventListener("abort", relay);
    }
  }
}

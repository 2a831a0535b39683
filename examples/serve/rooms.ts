/** What the server keeps: each room opened in turn, and closed in the reverse order. */
import { join } from "node:path";
import {
  createTransitionQueue,
  defineLifecycle,
  openStateIndex,
  type ProcessIdentity,
  type RunState,
  runLifecycle,
  type StateIndex,
  type StateIndexOptions,
  type TransitionQueue,
} from "../../src/index.ts";
import { openSwampRepository, type SwampRepository } from "../../src/swamp/index.ts";
import { type Server as BootRooms, openServer } from "../support/boot.ts";
import { type WorkerDefinition, workerCodec } from "../support/definitions.ts";

/** Lets machines enrol, as many as it allows. */
export interface Token {
  allowance: number;
}

/** A machine that a token was redeemed for. */
export interface Binding {
  token: string;
  machine: string;
}

export interface StoredResource {
  runId: string;
  spec: string;
  name: string;
  leaseId: string;
  attributes: Record<string, unknown>;
}

export interface Run {
  owner: ProcessIdentity;
}

// None of these states is terminal: records in such are pruned when they have been there for long.
const tokenLifecycle = defineLifecycle({ initial: "valid", transitions: { valid: ["revoked"], revoked: ["valid"] } });
const bindingLifecycle = defineLifecycle({ initial: "bound", transitions: { bound: ["freed"], freed: ["bound"] } });
const resourceLifecycle = defineLifecycle({
  initial: "current",
  transitions: { current: ["current", "deleted"], deleted: ["current"] },
});

export type TokenState = (typeof tokenLifecycle.states)[number];
export type BindingState = (typeof bindingLifecycle.states)[number];
export type ResourceState = (typeof resourceLifecycle.states)[number];

export interface Rooms extends AsyncDisposable, Pick<BootRooms, "leases" | "pending" | "workers" | "epoch"> {
  readonly queue: TransitionQueue;
  readonly repository: SwampRepository<WorkerDefinition>;
  readonly tokens: StateIndex<Token, TokenState>;
  readonly bindings: StateIndex<Binding, BindingState>;
  readonly resources: StateIndex<StoredResource, ResourceState>;
  readonly runs: StateIndex<Run, RunState>;
}

/** Reads no definition and no record. Aborted, it rejects, and nothing stays open. */
export async function openRooms(repoDir: string, signal: AbortSignal): Promise<Rooms> {
  await using opened = new AsyncDisposableStack();
  const dir = join(repoDir, ".swamp/state");
  const open = async <D, S extends string>(options: Omit<StateIndexOptions<D, S>, "dir" | "signal">) =>
    opened.use(await openStateIndex({ ...options, dir, signal }));

  const indexDir = join(repoDir, ".swamp/index");
  const repository = opened.use(await openSwampRepository({ repoDir, indexDir, codec: workerCodec, signal }));
  const { leases, pending, workers, epoch } = opened.use(await openServer(dir, signal));
  const tokens = await open<Token, TokenState>({ name: "token", lifecycle: tokenLifecycle });
  const bindings = await open<Binding, BindingState>({
    name: "binding",
    lifecycle: bindingLifecycle,
    indexes: { token: ({ data }) => data.token },
  });
  const resources = await open<StoredResource, ResourceState>({
    name: "resource",
    lifecycle: resourceLifecycle,
    indexes: { name: ({ data }) => `${data.spec}/${data.name}` },
  });
  const runs = await open<Run, RunState>({ name: "run", lifecycle: runLifecycle });

  const queue = createTransitionQueue({ name: "gateway" });
  const kept = opened.move();
  return {
    ...{ queue, repository, leases, pending, workers, epoch, tokens, bindings, resources, runs },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

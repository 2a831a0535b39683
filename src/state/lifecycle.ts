/** Which states a kind of record has, and what may follow what. */
import { checkObject } from "../arguments.ts";
import { InvalidArgumentError } from "../errors.ts";
import { checkText } from "./limits.ts";

/** The state that every lifecycle has besides its own: terminal, entered only by an import whose source is gone. */
export const DANGLING = "dangling";

/** Bytes of UTF-8. */
export const MAX_STATE_BYTES = 64;

export interface Lifecycle<S extends string> {
  readonly initial: S;
  /** In the order in which they were given; without `dangling`. */
  readonly states: readonly S[];
  readonly transitions: Readonly<Record<S, readonly S[]>>;
}

/**
 * Describes a lifecycle. A state with no successor is terminal. `dangling` is implied: it is terminal, and no transition
 * leads to it.
 *
 * @throws InvalidArgumentError when a state is empty, unknown, named twice as a successor, called `dangling`, or no text (a NUL,
 *   half a surrogate pair); KeyTooLongError.
 */
export function defineLifecycle<S extends string>(spec: {
  initial: S;
  transitions: Record<S, readonly S[]>;
}): Lifecycle<S> {
  checkObject("spec", spec, "{ initial, transitions }");
  checkObject("transitions", spec.transitions, "an object that lists each state's successors");
  const states = Object.keys(spec.transitions) as S[];
  for (const state of states) {
    if (state === "" || state === DANGLING) {
      throw new InvalidArgumentError("transitions", state, `state names other than "", "${DANGLING}"`);
    }
    checkText("state", state, MAX_STATE_BYTES);
    const next: readonly S[] = spec.transitions[state];
    if (!Array.isArray(next)) throw new InvalidArgumentError(`transitions.${state}`, next, "an array of states");
    for (const to of next) {
      if (!states.includes(to))
        throw new InvalidArgumentError(`transitions.${state}`, to, `one of ${states.join(", ")}`);
    }
    if (new Set(next).size !== next.length) {
      throw new InvalidArgumentError(`transitions.${state}`, next, "each successor once");
    }
  }
  if (!states.includes(spec.initial)) throw new InvalidArgumentError("initial", spec.initial, states.join(", "));
  const transitions = Object.fromEntries(states.map((state) => [state, Object.freeze([...spec.transitions[state]])]));
  return Object.freeze({
    initial: spec.initial,
    states: Object.freeze(states),
    transitions: Object.freeze(transitions as Record<S, readonly S[]>),
  });
}

/** Whether a record may go from one state to the other. Staying where it is counts only where the lifecycle names it. */
export function allows<S extends string>(lifecycle: Lifecycle<S>, from: string, to: S): boolean {
  const next = from === DANGLING ? undefined : lifecycle.transitions[from as S];
  return next?.includes(to) ?? false;
}

/** A state that nothing follows. */
export function isTerminal<S extends string>(lifecycle: Lifecycle<S>, state: string): boolean {
  return state === DANGLING || lifecycle.transitions[state as S]?.length === 0;
}

/** The form in which a lifecycle is stored and compared: equal text, equal lifecycle, in whatever order it was written. */
export function canonical<S extends string>(lifecycle: Lifecycle<S>): string {
  const transitions = [...lifecycle.states].sort().map((state) => [state, [...lifecycle.transitions[state]].sort()]);
  return JSON.stringify({ initial: lifecycle.initial, transitions });
}

export const stepLeaseLifecycle = defineLifecycle({
  initial: "active",
  transitions: { active: ["completed", "failed", "expired"], completed: [], failed: [], expired: [] },
});

export const pendingDispatchLifecycle = defineLifecycle({
  initial: "waiting",
  transitions: {
    waiting: ["dispatched", "timed_out", "cancelled", "orphaned"],
    dispatched: [],
    timed_out: [],
    cancelled: [],
    orphaned: [],
  },
});

const WORKER_STATES = ["idle", "busy", "unverified", "draining", "disconnected"] as const;

/** Each state may follow each, itself included (which keeps `since`); none is terminal. */
export const workerLifecycle = defineLifecycle({
  initial: "idle",
  transitions: {
    idle: WORKER_STATES,
    busy: WORKER_STATES,
    unverified: WORKER_STATES,
    draining: WORKER_STATES,
    disconnected: WORKER_STATES,
  },
});

export const runLifecycle = defineLifecycle({
  initial: "running",
  transitions: {
    running: ["suspended", "completed", "failed", "cancelled"],
    suspended: ["running"],
    completed: [],
    failed: [],
    cancelled: [],
  },
});

export type StepLeaseState = (typeof stepLeaseLifecycle.states)[number];
export type PendingDispatchState = (typeof pendingDispatchLifecycle.states)[number];
export type WorkerState = (typeof workerLifecycle.states)[number];
export type RunState = (typeof runLifecycle.states)[number];

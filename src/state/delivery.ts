/**
 * Delivering changes to the mirror: in order per record, several records side by side, each again until it succeeds.
 * The outbox is in the store, so nothing is lost when the process ends; one process at a time has the right to deliver.
 * A change may be delivered twice: when a process ends between a write and its note that it was made.
 */
import { clearTimeout, setTimeout } from "node:timers";
import { deferred } from "../abort.ts";
import type { Kit } from "./kit.ts";
import type { StateMirror } from "./model.ts";
import type { MirrorRight, StoredChange } from "./record-store.ts";
import { toTransition } from "./watch.ts";

/** Records that are written to the mirror side by side. */
const CONCURRENCY = 8;
const PAGE = 256;
/** After a failure, doubled each time. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 60_000;
/** How often a process that has no right to deliver asks for it, in case that the one that had it is gone. */
const ASK_AGAIN_MS = 1_000;

interface Failing {
  pauseMs: number;
  /** On the clock of `performance.now()`. */
  until: number;
}

export class MirrorDelivery<D, S extends string> {
  /** Of the last delivery that failed; null again when all that failed were delivered. */
  lastError: string | null = null;
  readonly #kit: Kit<D, S>;
  readonly #mirror: StateMirror<D, S>;
  readonly #failing = new Map<number, Failing>();
  /** Records of which this pass has left something: whatever of them comes on a later page has to wait, too. */
  readonly #passedOver = new Set<number>();
  readonly #done: Promise<void>;
  #right: MirrorRight | null = null;
  #closed = false;
  #wake = deferred<void>();

  constructor(kit: Kit<D, S>, mirror: StateMirror<D, S>) {
    this.#kit = kit;
    this.#mirror = mirror;
    this.#done = this.#run();
  }

  /** Waits for the writes that are under way; what is left over is delivered by the next process. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#wake.resolve();
    await this.#done;
  }

  async #run(): Promise<void> {
    const unsubscribe = this.#kit.store.subscribe(() => this.#wake.resolve(), { keepAlive: false });
    try {
      while (!this.#closed) {
        // Hung up before looking: what is committed while it looks is not slept over.
        this.#wake = deferred<void>();
        const waitMs = (await this.#mayDeliver()) ? await this.#pass() : ASK_AGAIN_MS;
        if (!this.#closed) await this.#sleep(waitMs);
      }
    } finally {
      unsubscribe();
      await this.#right?.release();
    }
  }

  async #mayDeliver(): Promise<boolean> {
    if (this.#right?.held) return true;
    try {
      await this.#right?.release();
      this.#right = null;
      this.#right = await this.#kit.store.lockMirror(this.#kit.scope());
    } catch (error) {
      this.lastError = String(error);
    }
    return this.#right !== null;
  }

  /** Once through the outbox. Returns how long there is nothing to be done. */
  async #pass(): Promise<number> {
    this.#passedOver.clear();
    try {
      for (let after = 0; !this.#closed && this.#right?.held; ) {
        const page = await this.#kit.store.outbox(after, PAGE, this.#kit.scope());
        const last = page.at(-1);
        if (last === undefined) break;
        after = last.seq;
        await this.#deliver(page);
      }
    } catch (error) {
      this.lastError = String(error);
      return ASK_AGAIN_MS;
    }
    if (this.#failing.size === 0) return Number.POSITIVE_INFINITY;
    const next = Math.min(...[...this.#failing.values()].map(({ until }) => until));
    return Math.max(1, next - performance.now());
  }

  async #deliver(page: StoredChange[]): Promise<void> {
    const byRecord = new Map<number, StoredChange[]>();
    for (const change of page) byRecord.set(change.row.rec, [...(byRecord.get(change.row.rec) ?? []), change]);
    const lines = [...byRecord];
    const delivered: number[] = [];
    const worker = async (): Promise<void> => {
      for (let line = lines.shift(); line !== undefined && !this.#closed; line = lines.shift()) {
        delivered.push(...(await this.#deliverLine(...line)));
      }
    };
    await Promise.all(Array.from({ length: CONCURRENCY }, worker));
    if (delivered.length > 0) await this.#kit.store.delivered(delivered, this.#kit.lastScope());
  }

  /** The changes of one record, until one fails; returns the numbers of those that are done. */
  async #deliverLine(rec: number, changes: StoredChange[]): Promise<number[]> {
    const failing = this.#failing.get(rec);
    const done: number[] = [];
    if (this.#passedOver.has(rec) || (failing !== undefined && failing.until > performance.now())) {
      this.#passedOver.add(rec);
      return done;
    }
    try {
      for (const change of changes) {
        if (this.#closed) return done;
        await this.#write(change);
        done.push(change.seq);
      }
      this.#failing.delete(rec);
      if (this.#failing.size === 0) this.lastError = null;
    } catch (error) {
      const pauseMs = Math.min(failing === undefined ? FIRST_PAUSE_MS : failing.pauseMs * 2, LONGEST_PAUSE_MS);
      this.#passedOver.add(rec);
      this.#failing.set(rec, { pauseMs, until: performance.now() + pauseMs });
      this.lastError = String(error);
    }
    return done;
  }

  async #write(change: StoredChange): Promise<void> {
    const transition = toTransition(this.#kit, change);
    await this.#mirror.onWillWrite?.([this.#mirror.locate(transition.record)]);
    const receipt = (await this.#mirror.write(transition)) ?? undefined;
    await this.#mirror.onWritten?.(transition, receipt);
  }

  /** Until there is something new, or it is time. No process stays for it. */
  async #sleep(ms: number): Promise<void> {
    const timer = setTimeout(() => this.#wake.resolve(), Math.min(ms, LONGEST_PAUSE_MS));
    timer.unref();
    await this.#wake.promise;
    clearTimeout(timer);
  }
}

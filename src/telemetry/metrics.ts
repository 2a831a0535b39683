/** Histograms, counters and gauges by name. Declare them once, at module level: that registers and allocates nothing. */
import { VERSION } from "../version.ts";
import {
  type ApiCounter,
  type ApiHistogram,
  type ApiMeter,
  type InstrumentOptions,
  type ObservableResult,
  type Registry,
  registry,
  SCOPE,
} from "./registry.ts";

/** Seconds: from a miss that the memory map answers to a request that has given up. */
const DURATION_BOUNDARIES = [
  1e-6, 2e-6, 5e-6, 1e-5, 1e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
];

/** An instrument that comes into being when an SDK is there. */
export interface Instrument<I> {
  /** The SDK's instrument, or null with none: `waits.active()?.record(…)` then evaluates no argument. */
  active(): I | null;
}

export function histogram(name: string, options: InstrumentOptions): Instrument<ApiHistogram> {
  return new LazyInstrument((meter) => meter.createHistogram(name, options));
}

/** A histogram of durations, in seconds. */
export function durations(name: string, description: string): Instrument<ApiHistogram> {
  return histogram(name, { description, unit: "s", advice: { explicitBucketBoundaries: DURATION_BOUNDARIES } });
}

export function counter(name: string, options: InstrumentOptions): Instrument<ApiCounter> {
  return new LazyInstrument((meter) => meter.createCounter(name, options));
}

/** A value that is read when the SDK collects, such as a size or a depth. */
export interface Gauge {
  /**
   * `read` reports the values of `owner` whenever the SDK collects, until the returned function is called or `owner` is
   * garbage: the gauge does not keep it, so `read` must not capture it.
   */
  observe<T extends object>(owner: T, read: (owner: T, result: ObservableResult) => void | Promise<void>): () => void;
}

export function gauge(name: string, options: InstrumentOptions): Gauge {
  return new LazyGauge(name, options);
}

interface Source {
  readonly owner: WeakRef<object>;
  readonly read: (owner: object, result: ObservableResult) => void | Promise<void>;
}

class LazyGauge implements Gauge {
  readonly #name: string;
  readonly #options: InstrumentOptions;
  readonly #sources = new Set<Source>();
  /** With no SDK nobody reads, so nobody meets dead owners: look for them whenever this many sources have gathered. */
  #lookAt = 64;

  constructor(name: string, options: InstrumentOptions) {
    this.#name = name;
    this.#options = options;
  }

  observe<T extends object>(owner: T, read: (owner: T, result: ObservableResult) => void | Promise<void>): () => void {
    gauges.add(this);
    const source: Source = { owner: new WeakRef(owner), read: read as Source["read"] };
    this.#sources.add(source);
    if (this.#sources.size >= this.#lookAt) {
      this.#forEach(() => {});
      this.#lookAt = Math.max(64, this.#sources.size * 2);
    }
    const meter = currentMeter();
    if (meter !== null) this.attach(meter);
    return () => {
      this.#sources.delete(source);
    };
  }

  attach(meter: ApiMeter): void {
    if (attached.get(meter)?.has(this)) return;
    attached.set(meter, (attached.get(meter) ?? new Set()).add(this));
    meter.createObservableGauge(this.#name, this.#options).addCallback(async (result) => {
      const reading: Promise<void>[] = [];
      // One that fails (its owner has just been closed) must not keep the others from being read.
      this.#forEach((owner, read) => reading.push(attempt(() => read(owner, result))));
      await Promise.all(reading);
    });
  }

  /** Every source whose owner lives; forgets the others. */
  #forEach(visit: (owner: object, read: Source["read"]) => void): void {
    for (const source of this.#sources) {
      const owner = source.owner.deref();
      if (owner === undefined) this.#sources.delete(source);
      else visit(owner, source.read);
    }
  }
}

async function attempt(read: () => void | Promise<void>): Promise<void> {
  try {
    await read();
  } catch {
    // Then this value is missing from this collection.
  }
}

/** Gauges that have ever been observed. Declared once per module, so few. */
const gauges = new Set<LazyGauge>();
const attached = new WeakMap<ApiMeter, Set<LazyGauge>>();

class LazyInstrument<I> implements Instrument<I> {
  readonly #create: (meter: ApiMeter) => I;
  #meter: ApiMeter | null = null;
  #instrument: I | null = null;

  constructor(create: (meter: ApiMeter) => I) {
    this.#create = create;
  }

  active(): I | null {
    const meter = currentMeter();
    if (meter !== this.#meter) {
      this.#meter = meter;
      this.#instrument = meter === null ? null : this.#create(meter);
    }
    return this.#instrument;
  }
}

let knownProvider: Registry["metrics"];
let knownMeter: ApiMeter | null = null;

function currentMeter(): ApiMeter | null {
  const provider = registry()?.metrics;
  if (provider !== knownProvider) {
    knownProvider = provider;
    knownMeter = provider === undefined ? null : provider.getMeter(SCOPE, VERSION);
    if (knownMeter !== null) for (const gauge of gauges) gauge.attach(knownMeter);
  }
  return knownMeter;
}

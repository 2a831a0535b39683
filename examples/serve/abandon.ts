/** Workers that give up while they enrol, each at another moment, and then try again. */
import { Timings } from "../support/table.ts";
import type { Server } from "./server.ts";

export interface AbandonOptions {
  token: string;
  prefix: string;
  count: number;
  /** The last of them gives up so many milliseconds after all of them have asked. */
  withinMs: number;
  signal: AbortSignal;
}

export interface Abandoned {
  /** Nothing had happened. */
  beforeRedeem: number;
  /** The machine was bound. */
  afterRedeem: number;
  /** It was enrolled before it could give up. */
  enrolled: number;
  /** From giving up until the request had settled. */
  settling: Timings;
  /** Of the retries. */
  retrying: Timings;
  /** Of the token, when all had tried again. */
  used: number;
}

export async function abandon(server: Server, options: AbandonOptions): Promise<Abandoned> {
  const { token, prefix, count, withinMs, signal } = options;
  const [settling, retrying] = [new Timings(), new Timings()];
  const request = (n: number) => ({ token, machine: `${prefix}-machine-${n}`, worker: `${prefix}-${n}` });
  const usedBefore = await server.tokens.used(token);
  const outcomes = await Promise.all(
    Array.from({ length: count }, async (_, n) => {
      const given = new AbortController();
      let gaveUpAt = 0;
      const timer = setTimeout(
        () => {
          gaveUpAt = performance.now();
          given.abort(new Error(`${prefix}-${n} has given up`));
        },
        (n * withinMs) / count,
      );
      try {
        await server.enroll(request(n), { signal: given.signal });
        return "enrolled";
      } catch (error) {
        if (error !== given.signal.reason) throw error;
        settling.add(performance.now() - gaveUpAt);
        return "gave up";
      } finally {
        clearTimeout(timer);
      }
    }),
  );
  const enrolled = outcomes.filter((outcome) => outcome === "enrolled").length;
  const bound = (await server.tokens.used(token)) - usedBefore;
  await Promise.all(
    Array.from({ length: count }, (_, n) => retrying.measure(() => server.enroll(request(n), { signal }))),
  );
  const used = (await server.tokens.used(token)) - usedBefore;
  return { beforeRedeem: count - bound, afterRedeem: bound - enrolled, enrolled, settling, retrying, used };
}

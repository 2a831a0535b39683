import { afterEach, describe, expect, test, vi } from "vitest";
import { stepLeaseLifecycle } from "../../../src/state/lifecycle.ts";
import { openStateIndex } from "../../../src/state/open.ts";
import { DatabaseClock } from "../../../src/state/postgres/clock.ts";
import { createPlace, unavailable } from "./place.ts";

const HOUR = 3_600_000;

describe("the database's clock", () => {
  test("lies between the asking and the answer, the closer the shorter that took", () => {
    const clock = new DatabaseClock();
    const now = performance.now();
    clock.observe(now - 100, now, 1_000_000);
    expect(Math.abs(clock.now() - 1_000_050)).toBeLessThanOrEqual(60);
    clock.observe(now - 1, now, 1_000_010);
    expect(Math.abs(clock.now() - 1_000_010)).toBeLessThanOrEqual(20);
  });

  test("is followed when it is set", () => {
    const clock = new DatabaseClock();
    const now = performance.now();
    clock.observe(now - 1, now, 1_000_000);
    clock.observe(now - 1, now, 1_000_000 + HOUR);
    expect(Math.abs(clock.now() - 1_000_000 - HOUR)).toBeLessThanOrEqual(20);
  });
});

describe.skipIf(unavailable !== null)("a server whose own clock is wrong", () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  test.each([HOUR, -HOUR])("by %d ms enters records at the database's time, and prunes by it", async (wrong) => {
    const place = createPlace();
    const truth = Date.now;
    vi.spyOn(Date, "now").mockImplementation(() => truth() + wrong);
    const leases = await openStateIndex<{ n: number }, "active" | "completed" | "failed" | "expired">({
      name: "leases",
      lifecycle: stepLeaseLifecycle,
      postgres: place.source,
      retention: { endedForMs: HOUR / 2 },
    });
    const before = truth();
    await leases.insert({ id: "lease", data: { n: 0 } });
    const { since, createdAt } = await leases.transition("lease", "completed");
    // The database's clock is this machine's, known to within an answer.
    for (const time of [since, createdAt]) {
      expect(time).toBeGreaterThan(before - 100);
      expect(time).toBeLessThan(truth() + 100);
    }
    // A pass of the retention: by this machine's clock the lease would have ended long ago.
    await leases.close();
    const again = await openStateIndex<{ n: number }, "active" | "completed" | "failed" | "expired">({
      name: "leases",
      lifecycle: stepLeaseLifecycle,
      postgres: place.source,
      retention: { endedForMs: HOUR / 2 },
    });
    for (let n = 0; n < 20; n++) await again.insert({ id: `other-${n}`, data: { n } });
    expect((await again.get("lease"))?.state).toBe("completed");
    await again.close();
    await place.remove();
  });
});

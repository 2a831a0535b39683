import { afterAll, beforeAll, describe, test, vi } from "vitest";
import { openControlPlaneStore } from "../../../src/state/control-plane.ts";
import { openStateIndex } from "../../../src/state/open.ts";
import { DatabaseClock } from "../../../src/state/postgres/clock.ts";
import { controlPlaneConformance } from "../../conformance/control-plane.ts";
import { stateIndexConformance } from "../../conformance/state-index.ts";
import { createPlace, unavailable } from "./place.ts";

describe.skipIf(unavailable !== null)("the state index over PostgreSQL", () => {
  // The promises set the time by `Date.now`; the database's own is tested in clock.test.ts.
  beforeAll(() => {
    vi.spyOn(DatabaseClock.prototype, "now").mockImplementation(() => Date.now());
  });
  afterAll(() => {
    vi.restoreAllMocks();
  });
  const cases = stateIndexConformance(async () => {
    const place = createPlace();
    return { open: (options) => openStateIndex({ postgres: place.source, ...options }), remove: place.remove };
  });
  for (const { name, run } of cases) test(name, run);
});

describe.skipIf(unavailable !== null)("control-plane records in PostgreSQL", () => {
  const cases = controlPlaneConformance(async () => {
    const place = createPlace();
    return { open: () => openControlPlaneStore({ postgres: place.source }), remove: place.remove };
  });
  for (const { name, run } of cases) test(name, run);
});

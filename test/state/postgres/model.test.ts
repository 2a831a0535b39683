import { describe } from "vitest";
import { openStateIndex } from "../../../src/state/open.ts";
import { isLong } from "../../support/spawn.ts";
import { testBesideModel } from "../model-programs.ts";
import { createPlace, unavailable } from "./place.ts";

describe.skipIf(unavailable !== null)("over PostgreSQL", () => {
  testBesideModel(
    () => {
      const { source, remove } = createPlace();
      return { open: (options) => openStateIndex({ postgres: source, retention: false, ...options }), remove };
    },
    isLong ? 200 : 12,
  );
});

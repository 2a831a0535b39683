import fc from "fast-check";
import { expect, test } from "vitest";
import { NameFilter } from "../../src/definitions/name-filter.ts";

test("what was added may be there, always", () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: "binary" })), fc.integer({ min: 1, max: 100 }), (texts, capacity) => {
      const filter = new NameFilter(capacity);
      for (const text of texts) filter.add(text);
      return texts.every((text) => filter.mayHave(text));
    }),
  );
});

test("of what was not added, about one in a thousand may be there", () => {
  const filter = new NameFilter(50_000);
  for (let i = 0; i < 50_000; i++) filter.add(`fleet-${i.toString(16)}`);
  let wrong = 0;
  for (let i = 0; i < 50_000; i++) if (filter.mayHave(`fleet-${i.toString(16)}-new`)) wrong++;
  expect(wrong / 50_000).toBeLessThan(0.004);
});

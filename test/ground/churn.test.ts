import fc from "fast-check";
import { expect, test } from "vitest";
import { deferred } from "../../src/abort.ts";
import { KeyTable, Roll, type Seat, Underway } from "../../src/churn.ts";

const keys = fc.oneof(fc.integer({ min: 0, max: 40 }).map(String), fc.string(), fc.constant(""));

test("a table does what a Map does, whatever comes and goes", () => {
  const steps = fc.array(
    fc.tuple(fc.constantFrom("set", "get", "replace", "delete"), keys, fc.option(fc.nat(), { nil: undefined })),
    { maxLength: 300 },
  );
  fc.assert(
    fc.property(steps, (steps) => {
      const [table, map] = [new KeyTable<number | undefined>(), new Map<string, number | undefined>()];
      for (const [what, key, value] of steps) {
        if (what === "set") {
          table.set(key, value);
          map.set(key, value);
        } else if (what === "delete") expect(table.delete(key)).toBe(map.delete(key));
        else if (what === "replace") {
          expect(table.replace(key, value)).toBe(map.has(key));
          if (map.has(key)) map.set(key, value);
        }
        expect(table.get(key)).toBe(map.get(key));
        expect(table.size).toBe(map.size);
      }
      for (const [key, value] of map) expect(table.get(key)).toBe(value);
    }),
  );
});

test("a table finds each of many", () => {
  const table = new KeyTable<number>();
  for (let n = 0; n < 20_000; n++) table.set(`key-${n}`, n);
  for (let n = 0; n < 20_000; n += 2) expect(table.delete(`key-${n}`)).toBe(true);
  for (let n = 0; n < 20_000; n++) expect(table.get(`key-${n}`)).toBe(n % 2 === 0 ? undefined : n);
  expect(table.size).toBe(10_000);
});

test("a roll keeps the order of arrival, whoever leaves", () => {
  const step = fc.oneof(
    fc.constant("add" as const),
    fc.constant("addFirst" as const),
    fc.constant("shift" as const),
    fc.nat(30),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const roll = new Roll<number>();
      const seats: Seat<number>[] = [];
      let members: number[] = [];
      for (const [n, step] of steps.entries()) {
        if (step === "add") {
          seats.push(roll.add(n));
          members.push(n);
        } else if (step === "addFirst") {
          seats.push(roll.addFirst(n));
          members.unshift(n);
        } else if (step === "shift") expect(roll.shift()).toBe(members.shift());
        else {
          const seat = seats[step];
          if (seat === undefined) continue;
          expect(roll.remove(seat)).toBe(members.includes(seat.value));
          members = members.filter((each) => each !== seat.value);
        }
        expect([...roll]).toEqual(members);
        expect(roll.first).toBe(members[0]);
        expect(roll.size).toBe(members.length);
      }
    }),
  );
});

test("calls under way are waited for, however they end", async () => {
  const underway = new Underway();
  await underway.over();
  const calls = [deferred<number>(), deferred<number>()];
  const tracked = calls.map(({ promise }) => underway.track(promise));
  let isOver = false;
  const over = underway.over().then(() => {
    isOver = true;
  });
  calls[0]?.resolve(1);
  expect(await tracked[0]).toBe(1);
  expect(isOver).toBe(false);
  calls[1]?.reject(new Error("no"));
  await expect(tracked[1]).rejects.toThrow("no");
  await over;
  await underway.over();
});

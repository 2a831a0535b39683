import { expect, onTestFinished, test, vi } from "vitest";
import type { Request, ToWriter } from "../../src/state/sqlite/protocol.ts";
import { Slots } from "../../src/state/sqlite/slots.ts";
import { WriterClient } from "../../src/state/sqlite/writer-client.ts";

test("a burst that the writer has no room for costs nothing more for each that waits", async () => {
  const sent: Request[] = [];
  const post = (message: ToWriter): void => {
    if ("requests" in message) sent.push(...message.requests);
  };
  const room = 64;
  const client = new WriterClient("state.db", Slots.memory(room), {
    post,
    keepAlive: () => {},
    terminate: async () => {},
  });
  const woken = vi.spyOn(Atomics, "notify");
  onTestFinished(() => woken.mockRestore());
  const all = Array.from({ length: 2_000 }, () =>
    client.submit({ kind: "epoch" }, { until: Number.POSITIVE_INFINITY }),
  );
  expect(sent).toHaveLength(room);
  expect(woken.mock.calls.length).toBeLessThanOrEqual(room);
  // As room becomes free the others follow, and each is answered.
  for (let answered = 0; answered < all.length; ) {
    const replies = sent.splice(0).map(({ slot }) => ({ slot, result: { ok: true, value: answered++ } as const }));
    client.receive({ replies });
    await vi.waitFor(() => expect(sent.length > 0 || answered === all.length).toBe(true), { interval: 1 });
  }
  expect(await Promise.all(all)).toEqual(all.map((_, n) => n));
});

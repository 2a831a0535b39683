/** The transition queue. */
import { expect } from "vitest";
import { createTransitionQueue, type TransitionQueue } from "../../src/transitions/index.ts";
import { attempt, type Call, having, type Room, turns } from "./call.ts";

function runs(behind: boolean): Call<TransitionQueue> {
  return {
    repeats: 500,
    prepare(queue) {
      const done: string[] = [];
      let other: Promise<unknown> = Promise.resolve();
      return attempt({
        call(signal, reached) {
          if (behind) other = queue.run("key", () => turns(5));
          const work = async (): Promise<string> => {
            reached("after");
            await turns(3);
            done.push("ran");
            reached("after");
            return "ran";
          };
          return queue.run("key", work, having(signal));
        },
        async look() {
          await other;
          return { done: [...done], size: queue.size };
        },
        check: (value, seen) => expect({ value, ...seen }).toEqual({ value: "ran", done: ["ran"], size: 0 }),
        done: (seen) => seen.done.length === 1,
      });
    },
  };
}

export const transitions: Room<TransitionQueue> = {
  name: "transitions",
  open: () => createTransitionQueue(),
  close: (queue) => queue.close(),
  calls: {
    "TransitionQueue.run": runs(false),
    "TransitionQueue.run, behind another": runs(true),
    "TransitionQueue.idle": {
      repeats: 500,
      prepare(queue) {
        let other: Promise<unknown> = Promise.resolve();
        return attempt({
          call(signal) {
            other = queue.run("key", () => turns(5));
            return queue.idle(having(signal));
          },
          async look() {
            await other;
            return queue.size;
          },
          check: (_: unknown, seen) => expect(seen).toBe(0),
        });
      },
    },
    "TransitionQueue.close": {
      repeats: 100,
      prepare() {
        const queue = createTransitionQueue();
        let under: Promise<string>[] = [];
        let outcomes: string[] = [];
        return attempt({
          call(signal) {
            under = [
              queue.run("key", async (given) => {
                await turns(5);
                return given.aborted ? "told" : "ran";
              }),
              queue.run("key", () => "ran"),
            ].map((each) => each.catch((error: { code: string }) => error.code));
            return queue.close(having(signal));
          },
          async look() {
            outcomes = await Promise.all(under);
            const { size } = queue;
            return { size, open: await queue.run("another", () => true).catch(() => false) };
          },
          check: (_: unknown, seen) => expect([seen.open, seen.size]).toEqual([false, 0]),
          done: (seen) => !seen.open,
          // What runs is told (unless it has ended in that instant), what has not begun is refused, and nothing enters any more.
          cutShort: (seen) => {
            expect(seen).toEqual({ size: 0, open: false });
            const [first, second] = outcomes;
            expect(["told", "ran", "CLOSED"]).toContain(first);
            expect(second).toBe("CLOSED");
          },
        });
      },
    },
  },
};

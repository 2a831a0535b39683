/** Tokens, and the machines that they were redeemed for: one binding each, which is what counts against the allowance. */
import { type AbortOptions, createTransitionQueue, WriteDeadlineError } from "../../src/index.ts";
import { type EnrolmentRequest, RefusedError } from "./gateway.ts";
import type { Rooms } from "./rooms.ts";
import type { Stages } from "./stages.ts";

export class Tokens {
  readonly #rooms: Rooms;
  /** A machine's attempts, one after another: its retry finds what became of the first. */
  readonly #machines = createTransitionQueue({ name: "machines" });
  /** Machines per token, bound or about to be. Counted at the first redemption, and right while nobody else redeems. */
  readonly #used = new Map<string, number>();

  constructor(rooms: Rooms) {
    this.#rooms = rooms;
  }

  async issue(token: string, allowance: number, o?: AbortOptions): Promise<void> {
    await this.#rooms.tokens.put({ id: token, state: "valid", data: { allowance } }, o);
  }

  async used(token: string): Promise<number> {
    let count = 0;
    for await (const _ of this.#rooms.bindings.by("token", token, { state: "bound" })) count++;
    return count;
  }

  /**
   * Binds the machine. One that is bound already uses nothing and waits for nobody; a new one is given its part of the
   * allowance under the token's key, which is held for no write: those of all who come at once share a flush.
   *
   * Point of no return: the commit of the binding. Aborted before, nothing was used.
   */
  redeem({ token, machine }: EnrolmentRequest, signal: AbortSignal, stages: Stages | undefined): Promise<void> {
    const { queue, bindings } = this.#rooms;
    const id = `${token}/${machine}`;
    const bind = async (): Promise<void> => {
      const allowance = await this.#allowanceOf(token, signal);
      if ((await bindings.get(id, { signal }))?.state === "bound") return;
      await queue.run(`token:${token}`, () => this.#take(token, allowance), { signal });
      stages?.mark("token's line");
      try {
        await bindings.put({ id, state: "bound", data: { token, machine } }, { signal });
      } catch (error) {
        // Where nobody knows whether it was written, it counts until the next boot.
        if (!(error instanceof WriteDeadlineError)) this.#giveBack(token);
        throw error;
      }
    };
    return this.#machines.run(id, bind, { signal });
  }

  async #allowanceOf(token: string, signal: AbortSignal): Promise<number> {
    const record = await this.#rooms.tokens.get(token, { signal });
    if (record?.state !== "valid") throw new RefusedError(`the token ${token} is not valid`);
    return record.data.allowance;
  }

  async #take(token: string, allowance: number): Promise<void> {
    const used = this.#used.get(token) ?? (await this.used(token));
    if (used >= allowance) throw new RefusedError(`the token ${token} is used up`);
    this.#used.set(token, used + 1);
  }

  #giveBack(token: string): void {
    this.#used.set(token, (this.#used.get(token) ?? 1) - 1);
  }
}

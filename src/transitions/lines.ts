/**
 * First come, first served, per key. Whoever wants several keys stands in all their lines at once, entered in one step, so
 * there is one order of arrival that all lines share: nobody is overtaken in any of them, and no circle of waiting can form.
 */
import { KeyTable } from "../churn.ts";

/** One who stands in the lines of its keys, and holds them all as soon as it is first in each. */
export class Ticket {
  readonly keys: readonly string[];
  /** In how many of its lines somebody is still before it. */
  ahead = 0;
  readonly places: Place[] = [];

  /** `keys` without repetition. */
  constructor(keys: readonly string[]) {
    this.keys = keys;
  }
}

interface Place {
  readonly ticket: Ticket;
  readonly line: Line;
  previous: Place | null;
  next: Place | null;
}

interface Line {
  readonly key: string;
  first: Place | null;
  last: Place | null;
  length: number;
}

export class Lines<T extends Ticket> {
  /** A line exists only while somebody stands in it. */
  readonly #lines = new KeyTable<Line>();

  /** How many keys have a line. */
  get size(): number {
    return this.#lines.size;
  }

  /** How many stand in the line of this key, its holder included. */
  depth(key: string): number {
    return this.#lines.get(key)?.length ?? 0;
  }

  first(key: string): T | undefined {
    return this.#lines.get(key)?.first?.ticket as T | undefined;
  }

  /** Takes the last place in each of the ticket's lines; true when it is the first everywhere. */
  enter(ticket: T): boolean {
    for (const key of ticket.keys) {
      let line = this.#lines.get(key);
      if (line === undefined) {
        line = { key, first: null, last: null, length: 0 };
        this.#lines.set(key, line);
      }
      const place: Place = { ticket, line, previous: line.last, next: null };
      if (line.last === null) line.first = place;
      else {
        line.last.next = place;
        ticket.ahead++;
      }
      line.last = place;
      line.length++;
      ticket.places.push(place);
    }
    return ticket.ahead === 0;
  }

  /** Gives up all places, wherever they are. `advanced` is told of each ticket that is now first in all its lines. */
  leave(ticket: T, advanced: (ticket: T) => void): void {
    for (const { line, previous, next } of ticket.places) {
      if (previous === null) line.first = next;
      else previous.next = next;
      if (next === null) line.last = previous;
      else next.previous = previous;
      if (--line.length === 0) this.#lines.delete(line.key);
      else if (previous === null && next !== null && --next.ticket.ahead === 0) advanced(next.ticket as T);
    }
    ticket.places.length = 0;
  }
}

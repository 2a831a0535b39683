/**
 * Requests and replies as they cross threads: as tuples, since a structured clone writes out the name of every field of
 * every object (8 µs a change in each direction, against 1).
 */
import type { RowDraft } from "../row.ts";
import type { Base, Change, FromWriter, Reply, Request, Result, ToWriter, WriteBody, WriteResult } from "./protocol.ts";

type PackedBase = readonly [number, number, number, string, number, string | null];
type PackedRow = readonly [
  string,
  string,
  number,
  number,
  number,
  number,
  string | null,
  string | null,
  string,
  number,
];
type PackedChange = readonly [PackedBase | null, PackedRow, boolean, number | null | undefined];

type PackedRequest =
  | readonly [
      slot: number,
      index: number,
      generation: number,
      epoch: number | null,
      changes: readonly PackedChange[],
      mark: WriteBody["mark"],
    ]
  | readonly [slot: number, request: Request];
type PackedReply =
  | readonly [slot: number, epoch: number, outcomes: WriteResult["outcomes"]]
  | readonly [slot: number, result: Result];

export type PackedToWriter = readonly PackedRequest[] | Exclude<ToWriter, { requests: unknown }>;
type Replies = Extract<FromWriter, { replies: unknown }>;
export type PackedFromWriter =
  | readonly [replies: readonly PackedReply[], commit: Replies["commit"]]
  | Exclude<FromWriter, Replies>;

export function packToWriter(message: ToWriter): PackedToWriter {
  return "requests" in message ? message.requests.map(packRequest) : message;
}

export function unpackToWriter(message: PackedToWriter): ToWriter {
  return isTuple(message) ? { requests: message.map(unpackRequest) } : message;
}

export function packFromWriter(message: FromWriter): PackedFromWriter {
  if (!("replies" in message)) return message;
  return [message.replies.map(packReply), message.commit];
}

export function unpackFromWriter(message: PackedFromWriter): FromWriter {
  if (!isTuple(message)) return message;
  const [replies, commit] = message;
  return { replies: replies.map(unpackReply), ...(commit === undefined ? {} : { commit }) };
}

/** What there is much of in short form, everything else as it is. */
function packRequest(request: Request): PackedRequest {
  const { slot, body } = request;
  if (body.kind !== "write") return [slot, request];
  return [slot, body.index, body.generation, body.epoch, body.changes.map(packChange), body.mark];
}

function unpackRequest(packed: PackedRequest): Request {
  if (packed.length === 2) return packed[1];
  const [slot, index, generation, epoch, changes, mark] = packed;
  return { slot, body: { kind: "write", index, generation, epoch, changes: changes.map(unpackChange), mark } };
}

function packChange({ base, next, quiet, tombstone }: Change): PackedChange {
  const seen = tombstone === undefined ? undefined : (tombstone?.sum ?? null);
  return [base === null ? null : packBase(base), packRow(next), quiet === true, seen];
}

function unpackChange([base, next, quiet, tombstone]: PackedChange): Change {
  const seen = typeof tombstone === "number" ? { sum: tombstone } : tombstone;
  return { base: base === null ? null : unpackBase(base), next: unpackRow(next), quiet, tombstone: seen };
}

function packBase({ rec, revision, sum, state, since, keys }: Base): PackedBase {
  return [rec, revision, sum, state, since, keys];
}

function unpackBase([rec, revision, sum, state, since, keys]: PackedBase): Base {
  return { rec, revision, sum, state, since, keys };
}

function packRow({ id, state, since, createdAt, revision, epoch, origin, keys, data, sum }: RowDraft): PackedRow {
  return [id, state, since, createdAt, revision, epoch, origin, keys, data, sum];
}

function unpackRow([id, state, since, createdAt, revision, epoch, origin, keys, data, sum]: PackedRow): RowDraft {
  return { id, state, since, createdAt, revision, epoch, origin, keys, data, sum };
}

function packReply({ slot, result }: Reply): PackedReply {
  const value = result.ok ? (result.value as Partial<WriteResult> | null | undefined) : null;
  if (value?.outcomes === undefined || value.epoch === undefined || value.redescribed !== undefined)
    return [slot, result];
  return [slot, value.epoch, value.outcomes];
}

function unpackReply(packed: PackedReply): Reply {
  if (packed.length === 2) return { slot: packed[0], result: packed[1] };
  const [slot, epoch, outcomes] = packed;
  return { slot, result: { ok: true, value: { epoch, outcomes } } };
}

function isTuple<T extends readonly unknown[]>(message: T | object): message is T {
  return Array.isArray(message);
}

/** What every `ControlPlaneStore` must do, whatever it keeps its records in. */
import { deepStrictEqual as equal, fail, ok, rejects } from "node:assert/strict";
import type { ControlPlaneStore } from "../../src/state/model.ts";
import { allOf, type ConformanceCase, keptOn, later, numbers, outcomesOf } from "./case.ts";

export interface ControlPlaneSubject {
  /** A handle on the records, independent of those that were opened before. */
  open(): Promise<ControlPlaneStore>;
  /** Lets the place go. Called once, after the handles were closed. */
  remove?(): Promise<void>;
}

/**
 * The promises of a {@link ControlPlaneStore}, for any test runner:
 *
 *     for (const { name, run } of controlPlaneConformance(createEmptyPlace)) test(name, run);
 *
 * `create` makes a place without records, for each promise a new one.
 */
export function controlPlaneConformance(create: () => Promise<ControlPlaneSubject>): ConformanceCase[] {
  return Object.entries(PROMISES).map(([name, keep]) => ({
    name,
    async run() {
      const subject = await create();
      await keptOn(subject, (opened) => keep(async () => opened(subject.open())));
    },
  }));
}

const PROMISES: Record<string, (open: () => Promise<ControlPlaneStore>) => Promise<void>> = {
  async "what was put is got, byte for byte, through every handle"(open) {
    const [one, other] = [await open(), await open()];
    for (const data of [new Uint8Array(), allBytes, new Uint8Array(1 << 20).fill(7), Buffer.from("text").subarray(1)]) {
      await one.put("a/b", data);
      for (const store of [one, other]) equal(bytesOf(await store.get("a/b")), [...data]);
    }
    equal(await one.get("a"), null);
    equal(await one.get("a/b/c"), null);
  },

  async "a record is a copy of what was given, and what is got is a copy of the record"(open) {
    const store = await open();
    const given = bytes("abc");
    const put = store.put("k", given);
    await put;
    given.fill(0);
    (await store.get("k"))?.fill(0);
    equal(bytesOf(await store.get("k")), [...bytes("abc")]);
  },

  async "putIfAbsent puts only where nothing is, and says whether it did"(open) {
    const [one, other] = [await open(), await open()];
    equal(await one.putIfAbsent("k", bytes("first")), true);
    equal(await one.putIfAbsent("k", bytes("second")), false);
    equal(await other.putIfAbsent("k", bytes("third")), false);
    equal(bytesOf(await other.get("k")), [...bytes("first")]);
    await other.delete("k");
    equal(await one.putIfAbsent("k", bytes("fourth")), true);
    await one.put("k", bytes("fifth"));
    equal(bytesOf(await one.get("k")), [...bytes("fifth")]);
  },

  async "of all who putIfAbsent at once exactly one does, and its record is the one that is there"(open) {
    const stores = await Promise.all(Array.from({ length: 8 }, open));
    for (let round = 0; round < 20; round++) {
      const key = `claims/${round}`;
      const claims = Array.from({ length: 24 }, (_, n) => async () => {
        const won = await at(stores, n).putIfAbsent(key, bytes(`claimant ${n}`));
        return won ? n : null;
      });
      const winners = (await allOf(claims)).filter((n) => n !== null);
      equal(winners.length, 1);
      equal(bytesOf(await at(stores, round).get(key)), [...bytes(`claimant ${winners[0]}`)]);
    }
  },

  async "delete removes one record, and does not mind when there is none"(open) {
    const [one, other] = [await open(), await open()];
    for (const key of ["a", "a/b", "a/b/c"]) await one.put(key, bytes(key));
    await other.delete("a/b");
    await one.delete("a/b");
    await one.delete("never/was");
    equal(await one.get("a/b"), null);
    equal(await other.list(""), ["a", "a/b/c"]);
  },

  async "list gives the keys with a prefix, at a slash or within a segment, in byte order"(open) {
    const store = await open();
    const keys = ["a", "a/", "a/b", "a/b/c", "a/bc", "a0", "ab", "b", "é", "\u{ffff}", "\u{10000}", "A"];
    for (const key of keys) await store.put(key, bytes(key));
    equal(await store.list(""), [
      "A",
      "a",
      "a/",
      "a/b",
      "a/b/c",
      "a/bc",
      "a0",
      "ab",
      "b",
      "é",
      "\u{ffff}",
      "\u{10000}",
    ]);
    equal(await store.list("a"), ["a", "a/", "a/b", "a/b/c", "a/bc", "a0", "ab"]);
    equal(await store.list("a/"), ["a/", "a/b", "a/b/c", "a/bc"]);
    equal(await store.list("a/b"), ["a/b", "a/b/c", "a/bc"]);
    equal(await store.list("a/b/"), ["a/b/c"]);
    equal(await store.list("nothing"), []);
    equal(await store.list("a/b/c/d"), []);
  },

  async "any text is a key, and none is taken for another"(open) {
    const store = await open();
    for (const [n, key] of STRANGE_KEYS.entries()) equal(await store.putIfAbsent(key, bytes(`${n}`)), true, key);
    for (const [n, key] of STRANGE_KEYS.entries()) equal(bytesOf(await store.get(key)), [...bytes(`${n}`)], key);
    equal(await store.list(""), inByteOrder(STRANGE_KEYS));
    for (const key of STRANGE_KEYS) {
      const below = STRANGE_KEYS.filter((other) => other.startsWith(`${key}/`));
      equal(await store.list(`${key}/`), inByteOrder(below), key);
    }
    for (const key of STRANGE_KEYS) await store.delete(key);
    equal(await store.list(""), []);
  },

  async "what can be no key is refused, and nothing is written"(open) {
    const store = await open();
    for (const key of ["", "a\0b", "\ud800", "x".repeat(1_025), "é".repeat(513)]) {
      const code = key.length > 100 ? "KEY_TOO_LONG" : "INVALID_ARGUMENT";
      await rejects(store.put(key, bytes("")), { code });
      await rejects(store.putIfAbsent(key, bytes("")), { code });
      await rejects(store.get(key), { code });
      await rejects(store.delete(key), { code });
    }
    for (const data of ["text", undefined, null, 5, [1]]) {
      await rejects(store.put("k", data as unknown as Uint8Array), { code: "INVALID_ARGUMENT" });
      await rejects(store.putIfAbsent("k", data as unknown as Uint8Array), { code: "INVALID_ARGUMENT" });
    }
    await rejects(store.list("\0"), { code: "INVALID_ARGUMENT" });
    equal(await store.list(""), []);
  },

  async "a reader finds a record as it was before a put or after it, never in between"(open) {
    const [writer, reader] = [await open(), await open()];
    const versions = [allBytes, new Uint8Array(100_000).fill(1), new Uint8Array(3).fill(2)];
    await writer.put("k", at(versions, 0));
    let writing = true;
    const write = async () => {
      try {
        for (let n = 1; n <= 30; n++) await writer.put("k", at(versions, n));
      } finally {
        writing = false;
      }
    };
    let reads = 0;
    const read = async () => {
      while (writing) {
        const found = bytesOf(await reader.get("k"));
        ok(versions.some((version) => version.length === found?.length && version.at(-1) === found.at(-1)));
        equal(await reader.list("k"), ["k"]);
        reads++;
      }
    };
    await allOf([write, read]);
    ok(reads > 0);
  },

  async "a call that is aborted before it began rejects with the reason, and does nothing"(open) {
    const store = await open();
    await store.put("k", bytes("kept"));
    const reason = new Error("enough");
    const aborted = { signal: AbortSignal.abort(reason) };
    const outcomes = await outcomesOf<unknown>([
      () => store.put("k", bytes("lost"), aborted),
      () => store.putIfAbsent("new", bytes("lost"), aborted),
      () => store.get("k", aborted),
      () => store.delete("k", aborted),
      () => store.list("", aborted),
    ]);
    for (const outcome of outcomes) equal(outcome, { status: "rejected", reason });
    equal(bytesOf(await store.get("k")), [...bytes("kept")]);
    equal(await store.get("new"), null);
  },

  async "of calls that are aborted under way each has either done it and says so, or rejects with the reason and has done nothing"(
    open,
  ) {
    const store = await open();
    const controller = new AbortController();
    const { signal } = controller;
    const reason = new Error("enough");
    const keys = (group: string, count: number) => Array.from({ length: count }, (_, n) => `${group}/${n}`);
    // What has settled before the abort stays.
    for (const key of keys("settled", 5)) await store.put(key, bytes(key), { signal });
    for (const key of keys("claimed", 5)) equal(await store.putIfAbsent(key, bytes(key), { signal }), true);
    for (const key of [...keys("over", 100), ...keys("gone", 100)]) await store.put(key, bytes("before"));
    const tries = [
      ...keys("put", 500).map((key) => ({ key, call: () => store.put(key, bytes(key), { signal }), done: key })),
      ...keys("over", 100).map((key) => ({ key, call: () => store.put(key, bytes(key), { signal }), done: key })),
      ...keys("claim", 100).map((key) => ({
        key,
        call: () => store.putIfAbsent(key, bytes(key), { signal }),
        done: key,
      })),
      ...keys("gone", 100).map((key) => ({ key, call: () => store.delete(key, { signal }), done: null })),
    ];
    const settling = outcomesOf<unknown>(tries.map(({ call }) => call));
    controller.abort(reason);
    const outcomes = await settling;
    const expected = new Map<string, string>();
    for (const key of [...keys("settled", 5), ...keys("claimed", 5)]) expected.set(key, key);
    for (const key of [...keys("over", 100), ...keys("gone", 100)]) expected.set(key, "before");
    for (const [n, outcome] of outcomes.entries()) {
      const { key, done } = at(tries, n);
      if (outcome.status === "rejected") equal(outcome.reason, reason);
      else if (done === null) expected.delete(key);
      else expected.set(key, done);
    }
    equal(await store.list(""), inByteOrder([...expected.keys()]));
    for (const [key, content] of expected) equal(textOf(await store.get(key)), content);
  },

  async "after close every call is refused; the records stay"(open) {
    const [one, other] = [await open(), await open()];
    const pending = later(one.put("k", bytes("v")));
    await one.close();
    await one.close();
    await pending;
    const outcomes = await outcomesOf<unknown>([
      () => one.put("k", allBytes),
      () => one.get("k"),
      () => one.delete("k"),
      () => one.list(""),
      () => one.putIfAbsent("k", allBytes),
    ]);
    for (const outcome of outcomes) {
      if (outcome.status === "fulfilled") fail("a call on what is closed succeeds");
      await rejects(Promise.reject(outcome.reason), { code: "CLOSED" });
    }
    equal(bytesOf(await other.get("k")), [...bytes("v")]);
  },

  async "random calls through several handles do what they would do to a plain map"(open) {
    const next = numbers(4);
    const stores = await Promise.all(Array.from({ length: 3 }, open));
    const model = new Map<string, string>();
    for (let n = 0; n < 400; n++) {
      const store = at(stores, next(3));
      const key = at(["a", "a/b", "a/b/c", "a/c", "b", "b/a", ".", "a/."], next(8));
      const value = `${n}`;
      switch (next(6)) {
        case 0:
          await store.put(key, bytes(value));
          model.set(key, value);
          break;
        case 1:
          equal(await store.putIfAbsent(key, bytes(value)), !model.has(key));
          if (!model.has(key)) model.set(key, value);
          break;
        case 2:
        case 3:
          await store.delete(key);
          model.delete(key);
          break;
        case 4:
          equal(textOf(await store.get(key)), model.get(key) ?? null);
          break;
        default: {
          const prefix = at(["", "a", "a/", "a/b", "b/", "."], next(6));
          equal(await store.list(prefix), inByteOrder([...model.keys()].filter((known) => known.startsWith(prefix))));
        }
      }
    }
  },
};

const allBytes = Uint8Array.from({ length: 256 }, (_, n) => n);

const STRANGE_KEYS = [
  ...[
    ".",
    "..",
    "...",
    "../..",
    "../../../etc/passwd",
    "/",
    "//",
    "/a",
    "a/",
    "a//b",
    "a/./b",
    "a/../b",
    ".tmp",
    ".tmp/x",
  ],
  ...[
    " ",
    "a b",
    "a\nb",
    "\u0001",
    "%",
    "%2F",
    "%2E",
    "a%2Fb",
    "+",
    "=",
    "a=",
    "a+",
    "a+/b=",
    "~",
    "*",
    "'",
    '"',
    "\\",
    "a\\b",
  ],
  ...[
    "CON",
    "a:b",
    "a?b",
    "A",
    "a",
    "é",
    "e\u0301",
    "日本語",
    "\u{1f600}",
    "\ufeff",
    "\u{10ffff}",
    "-",
    "--help",
    "$HOME",
  ],
  ...["x".repeat(200), "x".repeat(201), "x".repeat(255), "x".repeat(256), "x".repeat(1_024)],
  ...[`${"x".repeat(200)}/y`, `${"x".repeat(200)}+/y`, "日".repeat(341), `${"/".repeat(100)}`, `${"../".repeat(100)}z`],
  ...["heartbeats/0a", "pending-runs/0a", "claims/reconcile-instance/0a", "claims/reconcile-instance"],
];

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function bytesOf(data: Uint8Array | null): number[] | null {
  return data === null ? null : [...data];
}

function textOf(data: Uint8Array | null): string | null {
  return data === null ? null : new TextDecoder().decode(data);
}

function inByteOrder(keys: readonly string[]): string[] {
  return [...keys].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

/** Round and round. */
function at<T>(items: readonly T[], index: number): T {
  return items[index % items.length] as T;
}

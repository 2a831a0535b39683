import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { DEFAULT_KEYS } from "../../src/scan/model.ts";
import { recognize } from "../../src/scan/recognize.ts";
import { isLong } from "../support/spawn.ts";
import { definitionFile } from "./documents.ts";

const encoder = new TextEncoder();

function recognized(text: string, keys = DEFAULT_KEYS) {
  const bytes = encoder.encode(text);
  const found = recognize(bytes, bytes.length, keys);
  if (found === null) return null;
  const json = found.json();
  expect(Buffer.byteLength(json)).toBe(found.jsonBytes);
  return { id: found.id, name: found.name, declaredType: found.declaredType, document: JSON.parse(json) as unknown };
}

const HEAD = "id: a-1\nname: web\n";

describe("the recognizer and the full parser", () => {
  test("agree on every document that the recognizer accepts, under the schemas of YAML 1.2 and 1.1", () => {
    let accepted = 0;
    const runs = isLong ? 200_000 : 2_000;
    fc.assert(
      fc.property(definitionFile, (text) => {
        const found = recognized(text);
        if (found === null) return;
        accepted++;
        const options = { merge: true, strict: true, uniqueKeys: true, logLevel: "error" } as const;
        const document = parse(text, options) as Record<string, unknown>;
        // As `toEqual`, which would take most of the test's time.
        if (!isDeepStrictEqual(found.document, document)) expect(found.document).toEqual(document);
        expect([found.id, found.name]).toEqual([document["id"], document["name"]]);
        expect(found.declaredType).toBe(typeof document["type"] === "string" ? document["type"] : null);
        const older = parse(text, { ...options, version: "1.1", schema: "yaml-1.1" });
        if (!isDeepStrictEqual(found.document, older)) expect(found.document).toEqual(older);
      }),
      { numRuns: runs },
    );
    // The generator must aim at what is recognized, or nothing was tested.
    expect(accepted / runs).toBeGreaterThan(0.15);
  });

  test("agree on a random cut of a real definition", () => {
    const whole =
      "type: swamp/worker\ntypeVersion: 2026.06.09.1\nid: 00000022-1111-4222-8333-000000000022\nname: fleet\ntags:\n  a: b\nargs:\n  - x: 1\n    y: |\n      text\n";
    for (let length = 0; length <= whole.length; length++) {
      const text = whole.slice(0, length);
      const found = recognized(text);
      if (found !== null) expect(found.document).toEqual(parse(text));
    }
  });
});

describe("the recognizer accepts", () => {
  const accepted: [string, string, unknown][] = [
    [
      "a definition as it is written",
      "type: swamp/echo\ntypeVersion: 2026.06.09.1\nid: 00000001-1111-4222-8333-000000000001\nname: hello\nversion: 1\ntags: {}\nmethods: []\n",
      {
        type: "swamp/echo",
        typeVersion: "2026.06.09.1",
        id: "00000001-1111-4222-8333-000000000001",
        name: "hello",
        version: 1,
        tags: {},
        methods: [],
      },
    ],
    [
      "quotes",
      `id: 'a-1'\nname: "web"\n"k": 'it''s'\n'l': "a\\"b\\\\c\\nd\\te"\n`,
      { id: "a-1", name: "web", k: "it's", l: 'a"b\\c\nd\te' },
    ],
    [
      "comments, empty lines and a document start",
      "# a\n\n---\n# b\nid: a-1 # c\n  # d\nname: web\n# e",
      { id: "a-1", name: "web" },
    ],
    [
      "numbers, booleans and null",
      `${HEAD}a: 0\nb: -12\nc: 1.50\nd: true\ne: false\nf: null\ng:\n`,
      { id: "a-1", name: "web", a: 0, b: -12, c: 1.5, d: true, e: false, f: null, g: null },
    ],
    [
      "nested mappings and sequences",
      `${HEAD}a:\n  b:\n    - c: 1\n      d: 2\n    - e\n  f: 3\ng:\n- h\n- i: 4\n`,
      { id: "a-1", name: "web", a: { b: [{ c: 1, d: 2 }, "e"], f: 3 }, g: ["h", { i: 4 }] },
    ],
    [
      "literal blocks",
      `${HEAD}a: |\n  x: 1\n    y "z"\n\n  # w\nb: |-\n  v\n\n`,
      { id: "a-1", name: "web", a: 'x: 1\n  y "z"\n\n# w\n', b: "v" },
    ],
    ["letters beyond ASCII", `${HEAD}a: naïve 日本 🙂 — “x”\n`, { id: "a-1", name: "web", a: "naïve 日本 🙂 — “x”" }],
    ["a file without a line feed at its end", "id: a-1\nname: web", { id: "a-1", name: "web" }],
  ];
  test.each(accepted)("%s", (_, text, document) => {
    expect(recognized(text)?.document).toEqual(document);
    expect(parse(text)).toEqual(document);
  });

  test("the caller's keys, whatever characters they hold", () => {
    const keys = { id: "uid", name: "a b", type: "kïnd" };
    expect(recognized('uid: a-1\na b: web\n"kïnd": x/y\n', keys)).toMatchObject({
      id: "a-1",
      name: "web",
      declaredType: "x/y",
    });
    expect(recognized("id: a-1\nname: web\n", keys)).toBeNull();
    expect(recognized("same: web\n", { id: "same", name: "same", type: "type" })).toMatchObject({
      id: "web",
      name: "web",
    });
  });

  test("a type that is no string as none", () => {
    expect(recognized(`${HEAD}type: 12\n`)).toMatchObject({ declaredType: null });
    expect(recognized(HEAD)).toMatchObject({ declaredType: null });
  });
});

describe("the recognizer leaves to the parser", () => {
  const left: [string, string][] = [
    ["an empty file", ""],
    ["a comment alone", "# x\n"],
    ["no id", "name: web\n"],
    ["no name", "id: a-1\n"],
    ["an id that is no string", "id: 1\nname: web\n"],
    ["an empty name", "id: a-1\nname: ''\n"],
    ["a duplicate key", `${HEAD}name: b\n`],
    ["a duplicate key under quotes", `${HEAD}'name': b\n`],
    ["a nested duplicate key", `${HEAD}a:\n  b: 1\n  b: 2\n`],
    ["a tab", `${HEAD}a:\tb\n`],
    ["CRLF", "id: a-1\r\nname: web\r\n"],
    ["a byte order mark", `\ufeff${HEAD}`],
    ["an anchor", `${HEAD}a: &x b\n`],
    ["an alias", `${HEAD}a: *x\n`],
    ["a tag", `${HEAD}a: !!str b\n`],
    ["a merge key", `${HEAD}<<: {}\n`],
    ["__proto__", `${HEAD}__proto__: {}\n`],
    ["__proto__ in quotes", `${HEAD}"__proto__": {}\n`],
    ["a flow mapping", `${HEAD}a: {b: c}\n`],
    ["a flow sequence", `${HEAD}a: [b]\n`],
    ["a folded block", `${HEAD}a: >\n  b\n`],
    ["a literal block that keeps its end", `${HEAD}a: |+\n  b\n`],
    ["a literal block at the end of a file without a line feed", `${HEAD}a: |\n  b`],
    ["a multi-line plain scalar", `${HEAD}a: b\n  c\n`],
    ["a multi-line quoted scalar", `${HEAD}a: "b\n  c"\n`],
    ["a document end", `${HEAD}...\n`],
    ["a second document", `${HEAD}---\n${HEAD}`],
    ["a directive", `%YAML 1.2\n---\n${HEAD}`],
    ["an explicit key", `? id\n: a-1\nname: web\n`],
    ["a comment without space before it", `${HEAD}a: 'b'# c\n`],
    ["a mapping on the line of another", `${HEAD}a: b: c\n`],
    ["an indented document", `  id: a-1\n  name: web\n`],
    ["an item without a value", `${HEAD}a:\n-\n- b\n`],
    ["an escape that JSON reads otherwise", `${HEAD}a: "\\x41"\n`],
    ["a sequence as the document", `- ${HEAD}`],
    ...["yes", "No", "ON", "y", "True", "NULL", "~", ".inf", "NaN", "=", "E3"].map((word): [string, string] => [
      word,
      `${HEAD}a: ${word}\n`,
    ]),
    ...["007", "0x1F", "0o17", "1_000", "1e3", "+1", "-0", "1.", ".5", "1:30", "2026-06-09", "12345678901234567"].map(
      (word): [string, string] => [word, `${HEAD}a: ${word}\n`],
    ),
    ...["yes", "null", "1", "true", "2026-06-09"].map((word): [string, string] => [
      `the key ${word}`,
      `${HEAD}${word}: a\n`,
    ]),
    ["more than 128 keys in one mapping", HEAD + Array.from({ length: 130 }, (_, i) => `k${i}: a\n`).join("")],
    ["more than 24 levels", HEAD + Array.from({ length: 30 }, (_, i) => `${" ".repeat(i)}a:\n`).join("")],
    ["a key over a thousand bytes", `${HEAD}${"k".repeat(1_100)}: a\n`],
  ];
  test.each(left)("%s", (_, text) => {
    expect(recognized(text)).toBeNull();
  });

  test.each([
    ["invalid UTF-8", [0x80]],
    ["an overlong form", [0xc0, 0xaf]],
    ["a surrogate", [0xed, 0xa0, 0x80]],
    ["a code point beyond Unicode", [0xf4, 0x90, 0x80, 0x80]],
    ["a character cut off", [0xe6, 0x97]],
    ["NUL", [0x00]],
    ["a control character", [0x07]],
    ["DEL", [0x7f]],
    ["NEL", [0xc2, 0x85]],
    ["a no-break space", [0xc2, 0xa0]],
    ["U+2028", [0xe2, 0x80, 0xa8]],
    ["U+3000", [0xe3, 0x80, 0x80]],
    ["U+FEFF", [0xef, 0xbb, 0xbf]],
    ["U+FFFF", [0xef, 0xbf, 0xbf]],
  ])("%s, wherever it stands", (_, bytes) => {
    for (const [before, after] of [
      ["a: x", "y\n"],
      ["a: x", "\n"],
      ["a: ", "\n"],
      ['a: "', '"\n'],
      ["a: '", "'\n"],
      ["# ", "\n"],
      ["a: b # ", "\n"],
      ["a: |\n  ", "\n"],
      ["k", ": a\n"],
      ["", ": a\n"],
    ] as const) {
      const text = Buffer.concat([Buffer.from(HEAD + before), Buffer.from(bytes), Buffer.from(after)]);
      expect(recognize(text, text.length, DEFAULT_KEYS)).toBeNull();
    }
  });
});

describe("files that are like the one before", () => {
  /** As if no file had come before: other keys, even if equal, make it forget. */
  const afresh = (text: string) => recognized(text, { ...DEFAULT_KEYS });

  const value = fc.oneof(
    {
      weight: 6,
      arbitrary: fc.constantFrom(
        "a-1",
        "00000001-1111-4222-8333-00000000000e",
        "2026.06.09.1",
        "b",
        "web",
        "x/y",
        "a:b",
        "a'b",
      ),
    },
    {
      weight: 2,
      arbitrary: fc.constantFrom(
        "12",
        "true",
        "no",
        "a b",
        "'a'",
        '"a"',
        "a#b",
        "a # b",
        "ü",
        "a\\b",
        "",
        "{}",
        "*a",
        "a: b",
        "|",
        "1e3",
        "-x",
        "007",
      ),
    },
  );
  const shape = fc.constantFrom(
    "id: {a}\nname: {b}\n",
    "name: {b}\nid: {a}\n",
    "name: {b}\nid: {a}",
    "# {a}\nid: {a}\nname: {b} # {b}\ntype: x\n",
    "type: y\nid: {a}\nmeta:\n  id: {a}\n  name: {b}\nname: {b}\nmore:\n  - {a}\n",
    'type: {b}\nname: {a}\nid: {a}\nü: "\\n"\n',
    "name: {b}\nid: {a}\nid2: 1\nbroken",
    "type: 1\nid: '{a}'\nname: {b}\n",
    "# c\nid: '{a}'\nname: '{b}'\n",
  );
  const file = fc.oneof(
    {
      weight: 5,
      arbitrary: fc.tuple(shape, value, value).map(([text, a, b]) => text.replaceAll("{a}", a).replaceAll("{b}", b)),
    },
    { weight: 1, arbitrary: definitionFile },
  );

  test("are read as if none had been", () => {
    fc.assert(
      fc.property(fc.array(file, { minLength: 2, maxLength: 12 }), (files) => {
        const alone = files.map(afresh);
        afresh("");
        expect(files.map((text) => recognized(text))).toEqual(alone);
      }),
      { numRuns: isLong ? 50_000 : 1_000 },
    );
  });

  test("each have their own document", () => {
    const text = (id: string, name: string) => `type: x\nname: ${name}\nid: ${id}\nversion: 1\n`;
    recognized(text("first", "one"));
    expect(recognized(text("second", "another-one"))).toEqual({
      id: "second",
      name: "another-one",
      declaredType: "x",
      document: { type: "x", name: "another-one", id: "second", version: 1 },
    });
    // Refused, but read as far as its other order of fields.
    expect(recognized("id: a\nname: b\nbroken")).toBeNull();
    expect(recognized(text("third", "c"))).toMatchObject({ id: "third", name: "c" });
    expect(recognized(text("4", "c"))).toBeNull();
    expect(recognized(text("fifth", "yes"))).toBeNull();
    expect(recognized(text("sixth", "c # d"))).toMatchObject({ id: "sixth", name: "c" });
    expect(recognized(text("seventh", "c: d"))).toBeNull();
    expect(recognized(`${text("eighth", "c")}type: y\n`)).toBeNull();
  });
});

test("what lies behind the length given is not read", () => {
  const bytes = encoder.encode(`${HEAD}a: b`);
  expect(recognize(bytes, HEAD.length, DEFAULT_KEYS)?.json()).toBe('{"id":"a-1","name":"web"}');
  for (const behind of ["#", ":", " ", "- ", "\n"]) {
    const longer = encoder.encode(`${HEAD}a: b${behind}`);
    const found = recognize(longer, longer.length - behind.length, DEFAULT_KEYS);
    expect(found?.json()).toBe('{"id":"a-1","name":"web","a":"b"}');
  }
});

test("a document can be asked for until the next file is recognized, and not after", () => {
  const bytes = encoder.encode(HEAD);
  const first = recognize(bytes, bytes.length, DEFAULT_KEYS);
  expect(first?.json()).toBe(first?.json());
  recognize(bytes, bytes.length, DEFAULT_KEYS);
  expect(() => first?.json()).toThrow(/after the next/);
});

test("a long file of the common form is recognized whole", () => {
  const lines = Array.from({ length: 20_000 }, (_, i) => `  - item ${i} "quoted" \\ and more\n`).join("");
  const found = recognized(`${HEAD}notes:\n${lines}`);
  expect(found?.document).toEqual(parse(`${HEAD}notes:\n${lines}`));
});

/** Random definition files: mostly of the common form, and near misses of it. */
import fc from "fast-check";

const WORDS = [
  "swamp/worker",
  "aws::ec2",
  "2026.06.09.1",
  "1.2.3-rc.1",
  "00000001-1111-4222-8333-00000000000e",
  "fleet-a-00c0ffee",
  "it's",
  'say "hi"',
  "back\\slash",
  "a#b",
  "a:b",
  "a b  c",
  "(x) [y] {z}",
  "/etc/passwd",
  "./run",
  "../up",
  "$HOME",
  "naïve-ünïcode",
  "日本語",
  "🙂 smile",
  "—dash…",
  "3rd",
  "2 items",
  "10.0.0.0/16",
  "30s",
  "_private",
  "constructor",
  "toString",
] as const;

/** What schemas, versions and parsers read in different ways, or refuse. */
const TRICKY = [
  ..."yes No on OFF y N true True TRUE false null Null NULL ~ .inf -.INF .nan nan Infinity <<".split(" "),
  ..."E3 e-1 0 -0 00 7 -7 +7 007 0o17 017 0x1F 0b11 1_000 1.5 1.50 -1.5 -0.0 1. .5 1e3 1E-3 1.5e+3 9007199254740993".split(
    " ",
  ),
  ..."123456789012345 1234567890123456 0.1234567890123 1:30 190:20:30 2026-06-09 2026-6-9 2026-06-09T10:00:00Z".split(
    " ",
  ),
  ..."1,000 12e03 1234e567 0000000e-0000-0000-0000-000000000000 1a 1f 0.0.0 1..2 1.2. 20:30:00 = - -- --- ... ? : # %a @a `a`".split(
    " ",
  ),
  ...'!a !!str &a *a | > |- >- |+ |2 [] {} [a] {a: [ ] { } , a, "" \'\' "a" \'a\' \'a\'\'b\' "a\\nb" "\\x41" "\\u00e9" "\\/" "a\\'.split(
    " ",
  ),
  "2001-12-14 21:59:43.10 -5",
  "a: b",
  "a : b",
  "1.2.3-beta",
  "a #b",
  "a ",
  "- a",
  "? a",
  "a\tb",
  "\ufeffa",
  "a\u0085b",
  "a\u2028b",
  "\u00a0a",
  "a\u3000",
  "\u0007",
  "__proto__",
  "",
] as const;

const LETTERS = "abcdefnotyxzABCEGINTZ0123456789-_./:#' \"\\é語🙂";

const freeText = fc.string({ unit: fc.constantFrom(...LETTERS), minLength: 1, maxLength: 12 });
const text = fc.oneof(
  { weight: 24, arbitrary: fc.constantFrom(...WORDS) },
  { weight: 8, arbitrary: fc.constantFrom("0", "7", "-7", "42", "1.5", "-0.25", "true", "false", "null", "{}", "[]") },
  { weight: 1, arbitrary: freeText },
);
const anyText = fc.oneof({ weight: 30, arbitrary: text }, { weight: 1, arbitrary: fc.constantFrom(...TRICKY) });

type Style = "plain" | "single" | "double";
const style = fc.constantFrom<Style>("plain", "plain", "plain", "single", "double");

function quoted(value: string, as: Style): string {
  if (as === "single") return `'${value.replaceAll("'", "''")}'`;
  return as === "double" ? JSON.stringify(value) : value;
}

const scalar = fc.tuple(anyText, style).map(([value, as]) => quoted(value, as));
const key = fc
  .tuple(
    fc.oneof(
      { weight: 40, arbitrary: fc.string({ unit: fc.constantFrom(..."abcdefgh"), minLength: 2, maxLength: 3 }) },
      { weight: 1, arbitrary: anyText },
    ),
    fc.constantFrom<Style>("plain", "plain", "plain", "plain", "plain", "single", "double"),
  )
  .map(([value, as]) => quoted(value, as));

/** A value, as the lines that follow its key or dash: the first goes on its line, the others are indented below. */
type Lines = readonly string[];
const comment = fc.constantFrom(...Array<string>(60).fill(""), " # why", " # why", "  # why", " #: - x", "# y");
const noise = fc.constantFrom<Lines>([], [], [], [], [], [], [""], ["# a comment"], ["  # deeper"], ["", ""]);

const indented = (lines: Lines, by: number): Lines => lines.map((line) => (line === "" ? "" : " ".repeat(by) + line));

const literal = fc
  .tuple(
    fc.constantFrom("|", "|", "|", "|-", "|-", "|-", "|+", ">"),
    fc.array(
      fc.oneof(
        {
          weight: 8,
          arbitrary: fc.constantFrom("text", "text", "text", "  more", "name: decoy", "# no comment", "- x", "tail "),
        },
        { weight: 1, arbitrary: anyText },
      ),
      {
        minLength: 1,
        maxLength: 4,
      },
    ),
    fc.integer({ min: 1, max: 4 }),
  )
  .map(([header, lines, by]): Lines => [header, ...indented(lines, by)]);

const leaf = fc.oneof(
  { weight: 8, arbitrary: fc.tuple(scalar, comment).map(([value, after]): Lines => [value + after]) },
  { weight: 1, arbitrary: literal },
  { weight: 1, arbitrary: fc.constant<Lines>([""]) },
);

const { value, entries } = fc.letrec<{ value: Lines; entries: Lines; items: Lines }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    { weight: 6, arbitrary: leaf },
    {
      weight: 2,
      arbitrary: fc
        .tuple(tie("entries"), fc.integer({ min: 1, max: 4 }), comment)
        .map(([lines, by, after]) => [after, ...indented(lines, by)]),
    },
    {
      weight: 2,
      arbitrary: fc
        .tuple(tie("items"), fc.integer({ min: 0, max: 3 }), comment)
        .map(([lines, by, after]) => [after, ...indented(lines, by)]),
    },
  ),
  entries: fc
    .uniqueArray(fc.tuple(key, tie("value"), noise, fc.constantFrom(...Array<string>(40).fill(" "), "  ", "")), {
      maxLength: 4,
      minLength: 1,
      selector: ([name]) => name,
    })
    .map((all) =>
      all.flatMap(([name, lines, before, gap]) => [
        ...before,
        `${name}:${lines[0] ? gap : ""}${lines[0]}`,
        ...lines.slice(1),
      ]),
    ),
  items: fc
    .array(fc.tuple(fc.oneof(leaf, tie("entries"), tie("value")), noise, fc.constantFrom(1, 1, 1, 3)), {
      minLength: 1,
      maxLength: 4,
    })
    .map((all) =>
      all.flatMap(([lines, before, gap]) => [
        ...before,
        `-${lines[0] ? " ".repeat(gap) : ""}${lines[0]}`,
        ...indented(lines.slice(1), gap + 1),
      ]),
    ),
}));

const name = fc.tuple(fc.constantFrom(...WORDS), style).map(([value, as]) => quoted(value, as));

/** A file that has an id, a name and mostly a type, in any order, among anything else. */
const document = fc
  .record({
    head: fc.constantFrom("", "", "", "---\n", "# about\n", "# about\n---\n\n"),
    id: fc.oneof({ weight: 4, arbitrary: name }, { weight: 1, arbitrary: scalar }),
    name: fc.oneof({ weight: 4, arbitrary: name }, { weight: 1, arbitrary: scalar }),
    type: fc.option(scalar, { freq: 4 }),
    rest: fc.array(fc.tuple(entries, fc.integer({ min: 0, max: 3 })), { maxLength: 3 }),
    tail: fc.constantFrom(...Array<string>(12).fill("\n"), "", "\n\n", "\n# end\n", "\n...\n"),
    nested: value,
  })
  .map(({ head, id, name, type, rest, tail, nested }) => {
    const parts: Lines[] = [
      [`id: ${id}`],
      [`name: ${name}`],
      [`nested:${nested[0] ? ` ${nested[0]}` : ""}`, ...nested.slice(1)],
    ];
    if (type !== null) parts.unshift([`type: ${type}`]);
    for (const [lines, at] of rest) parts.splice(at, 0, lines);
    return head + parts.flat().join("\n") + tail;
  });

const FRAGMENTS = [
  ..."\n :#-\"'{}[]|>&*!%@`,?~\t\r\\aN0.é",
  " #",
  ": ",
  "- ",
  "\n  ",
  "\n- ",
  "---\n",
  "\u00a0",
  "\u2028",
  "\ufeff",
  "\u0085",
  "<<: *a\n",
  "\r\n",
];

const edit = fc.record({
  kind: fc.constantFrom("insert", "insert", "delete", "repeat", "indent", "dedent", "cut"),
  at: fc.nat(),
  fragment: fc.constantFrom(...FRAGMENTS),
});

function apply(source: string, { kind, at, fragment }: { kind: string; at: number; fragment: string }): string {
  const offset = at % (source.length + 1);
  const lines = source.split("\n");
  const line = at % lines.length;
  switch (kind) {
    case "insert":
      return source.slice(0, offset) + fragment + source.slice(offset);
    case "delete":
      return source.slice(0, offset) + source.slice(offset + 1);
    case "repeat":
      return [...lines.slice(0, line + 1), ...lines.slice(line)].join("\n");
    case "indent":
      return [...lines.slice(0, line), ` ${lines[line]}`, ...lines.slice(line + 1)].join("\n");
    case "dedent":
      return [...lines.slice(0, line), lines[line]!.replace(/^ /, ""), ...lines.slice(line + 1)].join("\n");
    default:
      return source.slice(0, offset);
  }
}

export const definitionFile: fc.Arbitrary<string> = fc
  .tuple(
    document,
    fc.oneof(
      { weight: 5, arbitrary: fc.constant([]) },
      { weight: 2, arbitrary: fc.array(edit, { minLength: 1, maxLength: 3 }) },
    ),
  )
  .map(([source, edits]) => edits.reduce(apply, source));

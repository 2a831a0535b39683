/** An artifact's `metadata.yaml`, as far as this library looks into it. */
import { isObject } from "../arguments.ts";
import { sha256 } from "../digest.ts";
import { DefinitionReadError } from "../errors.ts";
import { errnoOf, missingPermission } from "../permissions.ts";
import { DEFAULT_KEYS } from "../scan/model.ts";
import { parser } from "../scan/parse.ts";
import { recognize } from "../scan/recognize.ts";

export interface ArtifactMetadata {
  /** What else the file holds, as it was parsed; carried over from version to version by the mirror. */
  document: Readonly<Record<string, unknown>>;
  lifecycle: string | null;
  renamedTo: string | null;
  /** When this version was written; null where the file does not say. */
  createdAt: number | null;
  /** Of the content, in bytes. */
  size: number | null;
  /** SHA-256 of the content, in hex. */
  checksum: string | null;
  tags: Readonly<Record<string, string>>;
}

/** The metadata, or in one line what is wrong with it. */
export function parseMetadata(bytes: Uint8Array, path: string): ArtifactMetadata | string {
  let document: unknown;
  try {
    document = parseYaml(bytes);
  } catch (error) {
    // That the parser may not read a variable of its own is no fault of the file's.
    if (missingPermission(error) !== null) throw new DefinitionReadError(path, errnoOf(error), { cause: error });
    return String((error as Error).message).split("\n", 1)[0] ?? "not YAML";
  }
  if (!isObject(document)) return "not a mapping";
  return {
    document,
    lifecycle: textOf(document["lifecycle"]),
    // A name may look like a number.
    renamedTo:
      typeof document["renamedTo"] === "number" ? String(document["renamedTo"]) : textOf(document["renamedTo"]),
    createdAt: timeOf(document["createdAt"]),
    size: typeof document["size"] === "number" ? document["size"] : null,
    checksum: textOf(document["checksum"]),
    tags: textsOf(document["tags"]),
  };
}

export interface VersionDescription {
  /** The metadata of the version before, whose settings go on; null for a new item. */
  previous: Readonly<Record<string, unknown>> | null;
  name: string;
  modelId: string;
  modelName: string;
  specName: string;
  version: number;
  content: Uint8Array;
}

/** The metadata of a new version. */
export function describeVersion(of: VersionDescription): Record<string, unknown> {
  const { lifecycle: _lifecycle, renamedTo: _renamedTo, ...previous } = of.previous ?? newItem(of);
  return {
    ...previous,
    id: crypto.randomUUID(),
    version: of.version,
    createdAt: new Date().toISOString(),
    size: of.content.length,
    checksum: sha256(of.content).toString("hex"),
  };
}

function newItem({ name, modelId, modelName, specName }: VersionDescription): Record<string, unknown> {
  return {
    id: "",
    name,
    version: 0,
    contentType: "application/json",
    lifetime: "infinite",
    garbageCollection: 10,
    streaming: false,
    tags: { type: "resource", specName, modelName },
    ownerDefinition: { ownerType: "model-method", ownerRef: modelId },
  };
}

/** Quoted so that YAML 1.1 and 1.2 read the same: a date in quotes is a string to both. */
export function stringifyMetadata(metadata: Record<string, unknown>): string {
  return parser().stringify(metadata, { compat: "yaml-1.1", singleQuote: true, lineWidth: 0 });
}

/** The form that swamp writes is recognized in a hundredth of a parser's time; any other goes to the parser. */
function parseYaml(bytes: Uint8Array): unknown {
  // Whether a digest that begins with a digit is a number takes a parser to tell; in quotes it takes none.
  const quoted = Buffer.from(Buffer.from(bytes).toString("latin1").replace(DIGEST_LINE, "$1'$2'"), "latin1");
  const recognized = recognize(quoted, quoted.length, DEFAULT_KEYS);
  return recognized === null ? parser().parse(new TextDecoder().decode(bytes)) : JSON.parse(recognized.json());
}

const DIGEST_LINE = /^(checksum: )([0-9a-f]{64})$/m;

/** Epoch milliseconds of an ISO date, or null. */
export function timeOf(value: unknown): number | null {
  const time = typeof value === "string" ? Date.parse(value) : value instanceof Date ? value.getTime() : Number.NaN;
  return Number.isNaN(time) ? null : time;
}

function textOf(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

function textsOf(value: unknown): Record<string, string> {
  if (!isObject(value)) return {};
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === "string"),
  );
}

/** Examines a file and lists its directory when no descriptor is left, and again when one is. */
import { closeSync, openSync, writeFileSync } from "node:fs";
import { DefinitionReadError } from "../../src/errors.ts";
import { examineFile } from "../../src/scan/examine.ts";
import { listDirectory } from "../../src/scan/list.ts";
import { DEFAULT_KEYS } from "../../src/scan/model.ts";

const dir = process.argv[2]!;
const path = `${dir}/a.yaml`;
writeFileSync(path, "id: a-1\nname: web\n");
const options = { keys: DEFAULT_KEYS, maxFileBytes: 1_000, boundary: null, documents: false, maxDocumentBytes: 0 };
examineFile(path, options);

const errnoOf = (call: () => unknown): unknown => {
  try {
    return call();
  } catch (error) {
    return error instanceof DefinitionReadError ? error.errno : String(error);
  }
};

const held: number[] = [];
try {
  for (;;) held.push(openSync(path, "r"));
} catch {
  // None is left.
}
const examine = errnoOf(() => examineFile(path, options));
const list = errnoOf(() => listDirectory(dir));
for (const fd of held) closeSync(fd);
console.log(JSON.stringify({ examine, list, after: examineFile(path, options).kind }));

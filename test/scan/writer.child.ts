/** Writes two contents to a file in turn, so many times: by renaming over it, or in place. */
import { renameSync, writeFileSync } from "node:fs";

const [path, how, rounds, ...contents] = process.argv.slice(2) as [string, string, string, string, string];
for (let i = 0; i < Number(rounds); i++) {
  const content = contents[i % 2]!;
  if (how === "in-place") {
    writeFileSync(path, content);
  } else {
    writeFileSync(`${path}.tmp`, content);
    renameSync(`${path}.tmp`, path);
  }
}

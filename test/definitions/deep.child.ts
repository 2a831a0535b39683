/** Makes directories within each other, one `name` after the other, each with a definition. */
import { mkdirSync, writeFileSync } from "node:fs";

const [, , top = "", name = "", depth = "0"] = process.argv;
process.chdir(top);
for (let i = 0; i < Number(depth); i++) {
  mkdirSync(name);
  process.chdir(name);
  writeFileSync("x.yaml", `id: id-of-deep${i}\nname: deep${i}\n`);
}

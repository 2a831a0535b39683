/** Opens and uses an index again and again, and exits without closing it after so many milliseconds. */
import { openDefinitionIndex } from "../../src/definitions/index.ts";

const [base = "", ms = "0"] = process.argv.slice(2);
setTimeout(() => process.exit(0), Number(ms));
for (;;) {
  const index = await openDefinitionIndex({ roots: [{ name: "m", dir: `${base}/m` }], indexDir: `${base}/index` });
  await Promise.all([index.findById("a", "a3"), index.findById("b/c", "b3"), index.refresh()]);
  await index.close();
}

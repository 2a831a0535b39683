/**
 * Joins the small ones among the chunks that the entries of `dist/` share. esbuild makes one for each set of entries that
 * has code in common, two dozen of them, and to find, read and link one takes a program that imports the library as long as
 * to compile 20 KB.
 */
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { rollup } from "rollup";

const DIST = join(import.meta.dirname, "../dist");
/** Bytes. More would have `tussock/liveness` load what it does not need. */
const SMALL = 30_000;
/** Each whole in itself, and started by its name. */
const PROGRAM = /-worker\.js$|^cli\.js$/;
const CHUNK = /-[\w-]{8}\.js$/;

const modules = readdirSync(DIST).filter((file) => file.endsWith(".js") && !PROGRAM.test(file));
const entries = modules.filter((file) => !CHUNK.test(file));

const bundle = await rollup({
  input: Object.fromEntries(entries.map((file) => [basename(file, ".js"), join(DIST, file)])),
  external: /^[^./]/,
  // Nothing happens when a module of the library is imported.
  treeshake: { moduleSideEffects: false },
  logLevel: "silent",
});
try {
  const { output } = await bundle.generate({
    format: "es",
    chunkFileNames: "chunk-[hash].js",
    experimentalMinChunkSize: SMALL,
    hoistTransitiveImports: false,
  });
  for (const file of modules) rmSync(join(DIST, file));
  for (const file of output) if (file.type === "chunk") writeFileSync(join(DIST, file.fileName), file.code);
  console.log(`${modules.length - entries.length} chunks joined to ${output.length - entries.length}`);
} finally {
  await bundle.close();
}
